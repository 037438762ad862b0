"""Albumentations in one-pass mixing: cell numbers are transformed as a mask.

Written for Albumentations 2.0. Pass a pipeline to `WithOrigins`, for arrays (H, W, C) or PIL
images:

    WithOrigins(dataset, memory, A.Compose([A.RandomCrop(28, 28), A.Normalize(), A.ToTensorV2()]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from comixup.adapters._replayed import Tracked
from comixup.adapters.cell_numbers import CellNumbers

_REASONS = {
    "CropNonEmptyMaskIfExists": "it chooses a crop by the mask, which here is that of cell numbers",
    "Lambda": "what it does to a mask need not be what it does to an image. Subclass "
    "A.DualTransform, or A.ImageOnlyTransform if it moves no pixel",
    "MaskDropout": "it erases by the mask, which here is that of cell numbers",
    "Morphological": "it dilates or erodes the mask, too",
    "Mosaic": "it shows several examples in one image",
    "OverlayElements": "it shows other images in an image",
}
_FILL = "fill_mask"
"""Argument: the value of filled or erased pixels of a mask; None leaves the mask unchanged."""
_DROP = "mask_drop_value"
"""Argument of PixelDropout, which drops other pixels of a mask than of the image; None: none."""
_INTERPOLATION = "mask_interpolation"
_NEAREST = (0, 6)
"""OpenCV's INTER_NEAREST and INTER_NEAREST_EXACT."""


@dataclass(frozen=True)
class _Masked:
    """A pipeline of Albumentations, or one of its transforms."""

    transform: Any

    def __post_init__(self) -> None:
        for step in _leaves(self.transform):
            _check(step)

    def __call__(self, image: Any, numbers: CellNumbers) -> tuple[Any, CellNumbers]:
        array = image if isinstance(image, np.ndarray) else np.array(image)
        moved = self.transform(image=array, mask=numbers.tensor().numpy())
        mask = moved["mask"]  # a tensor after ToTensorV2
        shown = mask if isinstance(mask, torch.Tensor) else torch.from_numpy(mask.copy())
        return moved["image"], CellNumbers.from_tensor(shown)


STEPS: dict[str, dict[str, Callable[[Any], Tracked]]] = {
    "albumentations.core.composition": {"BaseCompose": _Masked},
    "albumentations.core.transforms_interface": {"BasicTransform": _Masked},
}
"""The transforms that `WithOrigins` tracks, by module and class."""


def _leaves(transform: Any) -> Iterator[Any]:
    """Yields the transforms that a pipeline is made of."""
    if not hasattr(transform, "transforms"):
        yield transform
        return
    for step in transform.transforms:
        yield from _leaves(step)


def _check(step: Any) -> None:
    """Raises for a transform that does not move masks with the image."""
    name = type(step).__name__
    reason = next((_REASONS[k.__name__] for k in type(step).__mro__ if k.__name__ in _REASONS), "")
    if reason:
        raise ValueError(
            f"`transform` must be one that cell numbers support, got {name}: {reason}."
        )
    if getattr(step, _FILL, 0) != 0:
        raise ValueError(
            f"`transform` must fill masks with 0, which is no cell's number, got {name} with "
            f"{_FILL}={getattr(step, _FILL)!r}. Use A.{name}(..., {_FILL}=0)."
        )
    if getattr(step, _DROP, None) is not None:
        raise ValueError(
            f"`transform` must leave masks as they are where it drops pixels at random, got {name} "
            f"with {_DROP}={getattr(step, _DROP)!r}. Leave it out."
        )
    if getattr(step, _INTERPOLATION, 0) not in _NEAREST:
        raise ValueError(
            f"`transform` must move masks by nearest neighbour, got {name} with {_INTERPOLATION}="
            f"{getattr(step, _INTERPOLATION)!r}. Leave it out, or give cv2.INTER_NEAREST."
        )
