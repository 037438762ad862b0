"""Integer masks: class indices have no mean, so the class with the largest share wins.

Detection boxes and key points cannot be mixed at all: `check_mixable` rejects them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)

IGNORE_INDEX = 255
"""The value of pixels without a class in most data sets."""

_UNMIXABLE = re.compile(
    r"(^|[_\W])(b?box(es)?|bounding_?box(es)?|key_?points?|landmarks?)($|[_\W])", re.IGNORECASE
)
_UNMIXABLE_TYPES = ("BoundingBoxes", "KeyPoints")
"""Classes of torchvision's tv_tensors, by name: torchvision may be older, or not installed."""


def check_masks(masks: Tensor, ignore_index: int | None) -> None:
    """Raises unless masks are a tensor of integers and `ignore_index` is an integer."""
    if not isinstance(masks, Tensor):
        raise TypeError(
            f"`masks` must be a torch tensor, got {type(masks).__name__}. Boxes and key points "
            "cannot be mixed pixel by pixel; draw them as masks first."
        )
    if masks.dtype not in _INTEGERS:
        raise TypeError(
            f"`masks` must be integers (class indices) or booleans, got {masks.dtype}. Class "
            "probabilities and one-hot masks are mixed by `mix_images`."
        )
    if ignore_index is not None and (
        isinstance(ignore_index, bool) or not isinstance(ignore_index, Integral)
    ):
        raise TypeError(f"`ignore_index` must be an integer or None, got {ignore_index!r}.")


def with_channels(masks: Tensor, dimensions: int) -> Tensor:
    """Returns masks (m, *size) or (m, C, *size) as (m, C, *size)."""
    if masks.ndim not in (1 + dimensions, 2 + dimensions):
        raise ValueError(
            f"`masks` must have shape (m, *size) or (m, channels, *size) with {dimensions} spatial "
            f"dimensions, as the images of this plan, got {tuple(masks.shape)}."
        )
    return masks.unsqueeze(1) if masks.ndim == 1 + dimensions else masks


def ignored(masks: Tensor, ignore_index: int | None) -> Tensor | None:
    """Returns a boolean mask of the ignored pixels; None if there are none."""
    if ignore_index is None or masks.dtype == torch.bool:
        return None
    limits = torch.iinfo(masks.dtype)  # an out-of-range number would be compared modulo 256
    return masks == ignore_index if limits.min <= ignore_index <= limits.max else None


def leading_class(
    candidates: Sequence[Tensor], weights: Sequence[Tensor | float], ignore_index: int | None
) -> Tensor:
    """Returns the class with the largest share at each pixel; ties go to the first candidate.

    Shares of candidates with the same class are added. A pixel is ignored where no class has a
    larger share than the candidates without one.

    Args:
        candidates: integer masks of one shape, one for each input of a mixture.
        weights: the share of each, a number or a tensor that broadcasts.
        ignore_index: the value of pixels without a class; None if every value is one.

    >>> rows = [torch.tensor(row) for row in ([0, 0, 1, 1], [2, 2, 2, 255], [3, 2, 2, 255])]
    >>> leading_class(rows, [0.4, 0.3, 0.3], ignore_index=255).tolist()
    [0, 2, 2, 255]
    """
    best = candidates[0]
    if len(candidates) == 1:
        return best
    most = _share_of(best, candidates, weights)
    for candidate in candidates[1:]:
        share = _share_of(candidate, candidates, weights)
        larger = share > most
        best = torch.where(larger, candidate, best)
        most = torch.where(larger, share, most)
    for candidate in candidates:
        unknown = ignored(candidate, ignore_index)
        if unknown is not None:
            share = _share_of(candidate, candidates, weights)
            best = torch.where(unknown & (share >= most), candidate, best)
    return best


def _share_of(
    candidate: Tensor, candidates: Sequence[Tensor], weights: Sequence[Tensor | float]
) -> Tensor:
    """Returns, at each pixel, the total weight of the candidates that share one's class."""
    # Summed in the same order for every candidate, so that equal shares are equal numbers.
    share = torch.zeros(candidate.shape, device=candidate.device)
    for other, weight in zip(candidates, weights, strict=True):
        share = share + (other == candidate) * weight
    return share


def one_hot_masks(masks: Tensor, num_classes: int, ignore_index: int | None) -> Tensor:
    """Returns masks (m, *size) as (m, classes, *size) float32, all zero where a pixel is ignored.

    >>> one_hot_masks(torch.tensor([[0, 1, 255]]), 2, 255).tolist()
    [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    """
    check_masks(masks, ignore_index)
    unknown = ignored(masks, ignore_index)
    known = masks if unknown is None else masks.where(~unknown, torch.zeros_like(masks))
    # Reading the values of a tensor on another device would synchronize with it.
    if masks.device.type == "cpu" and masks.numel() and masks.dtype != torch.bool:
        low, high = map(int, torch.aminmax(known))
        if low < 0 or high >= num_classes:
            raise ValueError(
                f"`masks` must lie in 0..{num_classes - 1} (`num_classes` = {num_classes}) or be "
                f"`ignore_index` = {ignore_index}, got values from {low} to {high}."
            )
    shape = (len(masks), num_classes, *masks.shape[1:])
    one_hot = torch.zeros(shape, device=masks.device)
    ones = torch.ones(masks.shape, device=masks.device) if unknown is None else (~unknown).float()
    return one_hot.scatter_(1, known.long().unsqueeze(1), ones.unsqueeze(1))


def check_mixable(name: str, value: object) -> None:
    """Raises for boxes and key points, recognized by name or type.

    >>> check_mixable("index", [3, 5])
    >>> check_mixable("boxes", None)
    Traceback (most recent call last):
    ...
    ValueError: `boxes` must be left out of a batch that is mixed, got NoneType. Boxes and key \
points have no mixture: cells cut them, and several images' would overlap. Draw boxes as masks, \
which are mixed pixel by pixel.
    """
    kind = type(value).__name__
    if kind in _UNMIXABLE_TYPES or _UNMIXABLE.search(name):
        raise ValueError(
            f"`{name}` must be left out of a batch that is mixed, got {kind}. Boxes and key points "
            "have no mixture: cells cut them, and several images' would overlap. Draw boxes as "
            "masks, which are mixed pixel by pixel."
        )
