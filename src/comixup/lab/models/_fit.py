"""Whether a network takes the images that it is to be given."""

from __future__ import annotations

import torch
from torch import nn


def check_fit(model: nn.Module, name: str, shape: tuple[int, int, int], num_classes: int) -> None:
    """Raises `ValueError` unless a network returns one logit per class, after trying an image.

    Networks of other libraries may take images of one size only, or return more than logits: an
    error here is clearer than one in the middle of a run.

    Args:
        model: on the CPU.
        name: for people.
        shape: (C, H, W) of an image.
        num_classes: logits wanted.
    """
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            logits = model(torch.zeros(1, *shape))
    except Exception as why:  # networks raise what they like, AssertionError too
        reason = str(why).strip().split("\n", 1)[0][:200] or type(why).__name__
        raise ValueError(
            f"`model` must take images of shape {shape}, but {name} does not ({reason}). Choose "
            "another network."
        ) from None
    finally:
        model.train(training)
    if not isinstance(logits, torch.Tensor) or logits.shape != (1, num_classes):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ValueError(
            f"`model` must return a logit for each of {num_classes} classes, but {name} returned "
            f"{got} for one image. Choose another network."
        )
