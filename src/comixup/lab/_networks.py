"""Memory format, input check and weights of any network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from comixup._checks import reason_of

MEMORY_FORMAT = torch.channels_last
"""Memory format of images and weights: convolutions are faster, on CPUs by up to a half."""

_BLOCK = {"AVX512": 16}
"""Block size in channels of oneDNN's 1 x 1 convolutions, by the CPU's capability."""
_SMALLEST_BLOCK = 8


def memory_format(model: nn.Module, device: torch.device) -> torch.memory_format:
    """Returns channels_last, or the contiguous format for networks that it would crash.

    On CPUs, the weight gradient of a 1 x 1 convolution with a stride and fewer input channels than
    a block overruns its buffer if the images are channels_last (oneDNN issue 6035): the process
    crashes, or trains on wrong gradients.

    >>> memory_format(nn.Conv2d(4, 8, 1, stride=2), torch.device("cpu"))
    torch.contiguous_format
    >>> memory_format(nn.Conv2d(16, 32, 1, stride=2), torch.device("cpu"))
    torch.channels_last
    """
    if device.type != "cpu":
        return MEMORY_FORMAT
    block = _BLOCK.get(torch.backends.cpu.get_cpu_capability(), _SMALLEST_BLOCK)
    narrow = any(
        isinstance(module, nn.Conv2d)
        and set(module.kernel_size) == {1}
        and max(module.stride) > 1
        and module.groups == 1
        and 1 < module.in_channels < block
        for module in model.modules()
    )
    return torch.contiguous_format if narrow else MEMORY_FORMAT


def check_fit(model: nn.Module, name: str, shape: tuple[int, int, int], num_classes: int) -> None:
    """Raises `ValueError` unless a network returns one logit per class for an image.

    Networks of other libraries may accept one image size only, or return more than logits. An error
    here is clearer than in the middle of a run.
    """
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            logits = model(torch.zeros(1, *shape))
    except Exception as why:  # networks may raise anything, AssertionError too
        raise ValueError(
            f"`model` must take images of shape {shape}, but {name} does not ({reason_of(why)}). "
            "Choose another network."
        ) from None
    finally:
        model.train(training)
    if not isinstance(logits, torch.Tensor) or logits.shape != (1, num_classes):
        got = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise ValueError(
            f"`model` must return a logit for each of {num_classes} classes, but {name} returned "
            f"{got} for one image. Choose another network."
        )


def load_weights(model: nn.Module, saved: Mapping[str, Any]) -> None:
    """Loads a state dict into a model; raises `ValueError` for the first mismatch."""
    check_weights(model.state_dict(), saved)
    model.load_state_dict(saved)


def check_weights(wanted: Mapping[str, Tensor], saved: Mapping[str, Any]) -> None:
    """Raises `ValueError` for weights that do not match a state dict, or are not finite."""
    for name, own in wanted.items():
        given = saved.get(name)
        if not isinstance(given, Tensor) or (given.shape, given.dtype) != (own.shape, own.dtype):
            raise ValueError(f"{name} must be {kind_of(own)}, but is {kind_of(given)}")
        if given.is_floating_point() and not given.isfinite().all():
            raise ValueError(f"{name} has numbers that are infinite or NaN")
        if name.endswith("running_var") and (given < 0).any():
            raise ValueError(f"{name} is a variance, but has negative numbers")


def check_finite(finite: Tensor, path: object = None) -> None:
    """Raises `ValueError` unless the logits of each image are `finite`; `path` is the network's."""
    bad = int((~finite).sum())
    if bad:
        whose = "Its weights" if path is None else f"The weights of {path}"
        raise ValueError(
            f"`model` must return logits that are numbers, but those of {bad} of {len(finite)} "
            f"images are infinite or not a number. {whose}, or those images, are damaged."
        )


def kind_of(value: object) -> str:
    """Returns a description for error messages: a tensor's dtype and shape, or a type."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
    return "absent" if value is None else f"of type {type(value).__name__}"
