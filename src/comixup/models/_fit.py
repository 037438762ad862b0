"""Whether a network takes the images that it is to be given."""

from __future__ import annotations

import torch
from torch import nn


def check_fit(model: nn.Module, name: str, shape: tuple[int, int, int], num_classes: int) -> None:
    """Refuses a network that cannot make one score a class of an image, after trying one.

    Networks of other libraries may want images of one size, or return more than scores: better
    said here than by whatever breaks in the middle of a run.

    Args:
        model: on the CPU.
        name: for people.
        shape: (C, H, W) of an image.
        num_classes: scores wanted.
    """
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            scores = model(torch.zeros(1, *shape))
    except Exception as why:  # networks raise what they like, AssertionError too
        reason = str(why).strip().split("\n", 1)[0][:200] or type(why).__name__
        raise ValueError(
            f"`model` must take images of shape {shape}, but {name} does not ({reason}). Choose "
            "another network."
        ) from None
    finally:
        model.train(training)
    if not isinstance(scores, torch.Tensor) or scores.shape != (1, num_classes):
        got = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise ValueError(
            f"`model` must return a score for each of {num_classes} classes, but {name} returned "
            f"{got} for one image. Choose another network."
        )
