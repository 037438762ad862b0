"""Transforms replayed on an image's cell numbers with the same random draws.

torchvision's v1 transforms and timm's do not return their draws, which come from Python's, NumPy's
and torch's generators. So a geometric transform runs a second time on a picture of the cell
numbers, with nearest-neighbor interpolation and fill 0, from the generators' states before the
first run; the states after the first run are then restored.
"""

from __future__ import annotations

import copy
import random
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import PIL.Image
import torch
import torchvision  # type: ignore[import-untyped]
from torch import Tensor
from torchvision.transforms import InterpolationMode  # type: ignore[import-untyped]

from comixup.adapters.cell_numbers import CellNumbers

Tracked: TypeAlias = Callable[[Any, CellNumbers], tuple[Any, CellNumbers]]
"""A transform of an image and of its cell numbers."""
Follow: TypeAlias = Callable[[Any], Tracked]
"""Returns the tracked form of a transform inside a container."""

_APPLY = "_apply_op"
"""The private function by which torchvision's v1 auto-augment transforms (0.11 to 0.29) apply each
operation."""
_MOVING_OPERATIONS = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}


@dataclass(frozen=True)
class Colours:
    """A transform that moves no pixel."""

    transform: Callable[[Any], Any]

    def __call__(self, image: Any, numbers: CellNumbers) -> tuple[Any, CellNumbers]:
        return self.transform(image), numbers


@dataclass(frozen=True)
class Replayed:
    """A geometric transform, replayed on the cell numbers with the same draws."""

    transform: Any

    def __call__(self, image: Any, numbers: CellNumbers) -> tuple[Any, CellNumbers]:
        shown = picture_of(numbers, image)
        moved, shown = _both(self.transform, image, self.by_nearest(), shown)
        return moved, numbers_of(shown)

    def by_nearest(self) -> Any:
        """Returns a copy with nearest-neighbor interpolation and a fill of 0.

        The number of draws stays the same: a random choice of interpolation is still drawn.
        """
        step = copy.copy(self.transform)
        if hasattr(step, "interpolation"):
            resizes = "Resize" in type(step).__name__
            step.interpolation = _each(step.interpolation, lambda mode: _nearest(mode, resizes))
        if hasattr(step, "fill"):
            step.fill = 0
        return step


@dataclass(frozen=True)
class ReplayedErasing:
    """Random erasing: erased pixels belong to no cell."""

    transform: Any

    def __call__(self, image: Tensor, numbers: CellNumbers) -> tuple[Any, CellNumbers]:
        unseen = torch.full(image.shape, torch.nan)
        erased, unseen = _both(self.transform, image, self.transform, unseen)
        return erased, without(numbers, ~unseen.isnan().all(0))


@dataclass(frozen=True)
class ReplayedAutoAugment:
    """An auto-augment transform of torchvision's v1, replayed operation by operation."""

    transform: Any

    def __post_init__(self) -> None:
        if _APPLY not in self.transform.forward.__globals__:
            raise TypeError(
                f"`transform` must not have {type(self.transform).__name__}, whose operations "
                f"cannot be followed in torchvision {torchvision.__version__}: its module has no "
                f"{_APPLY}. Use torchvision.transforms.v2.{type(self.transform).__name__}."
            )

    def __call__(self, image: Any, numbers: CellNumbers) -> tuple[Any, CellNumbers]:
        shown, forward = picture_of(numbers, image), type(self.transform).forward
        original = forward.__globals__[_APPLY]

        def apply(image: Any, name: str, magnitude: float, **settings: Any) -> Any:
            nonlocal shown
            if name in _MOVING_OPERATIONS:
                nearest = {"interpolation": InterpolationMode.NEAREST, "fill": None}
                shown = original(shown, name, magnitude, **nearest)
            return original(image, name, magnitude, **settings)

        # A copy with this function replaced: other threads may use the transform too.
        watched = types.FunctionType(
            forward.__code__, {**forward.__globals__, _APPLY: apply}, closure=forward.__closure__
        )
        return watched(self.transform, image), numbers_of(shown)


@dataclass(frozen=True)
class Nested:
    """A container of transforms of (image, cell numbers) pairs."""

    container: Callable[[Any], Any]

    def __call__(self, image: Any, numbers: CellNumbers) -> tuple[Any, CellNumbers]:
        moved: tuple[Any, CellNumbers] = self.container((image, numbers))
        return moved


@dataclass(frozen=True)
class OfPair:
    """A tracked transform inside a container, called with the pair."""

    step: Tracked

    def __call__(self, pair: tuple[Any, CellNumbers]) -> tuple[Any, CellNumbers]:
        return self.step(*pair)


def nested(container: Any, follow: Follow) -> Nested:
    """Returns a container of transforms that also tracks cell numbers."""
    held = copy.copy(container)
    if "transforms" in vars(held).get("_modules", ()):
        held._modules = {k: v for k, v in held._modules.items() if k != "transforms"}
    held.transforms = [OfPair(follow(step)) for step in container.transforms]
    return Nested(held)


TORCHVISION: dict[str, dict[str, Callable[[Any], Tracked]]] = {
    "torchvision.transforms.transforms": {
        **dict.fromkeys(
            (
                *("CenterCrop", "ElasticTransform", "Pad", "RandomAffine", "RandomCrop"),
                *("RandomHorizontalFlip", "RandomPerspective", "RandomResizedCrop"),
                *("RandomRotation", "RandomVerticalFlip", "Resize"),
            ),
            Replayed,
        ),
        **dict.fromkeys(
            (
                *("ColorJitter", "ConvertImageDtype", "GaussianBlur", "Grayscale", "Normalize"),
                *("PILToTensor", "RandomAdjustSharpness", "RandomAutocontrast", "RandomEqualize"),
                *("RandomGrayscale", "RandomInvert", "RandomPosterize", "RandomSolarize"),
                *("ToPILImage", "ToTensor"),
            ),
            Colours,
        ),
        "RandomErasing": ReplayedErasing,
    },
    "torchvision.transforms.autoaugment": dict.fromkeys(
        ("AutoAugment", "RandAugment", "TrivialAugmentWide"), ReplayedAutoAugment
    ),
}
"""torchvision's v1 transforms, by module and class."""


def picture_of(numbers: CellNumbers, image: Any) -> Any:
    """Returns cell numbers as an image of the same type: PIL, or a tensor (1, H, W)."""
    shown = numbers.tensor()
    if isinstance(image, PIL.Image.Image):
        return PIL.Image.fromarray(shown.numpy())
    return shown.unsqueeze(0)


def numbers_of(picture: Any) -> CellNumbers:
    """Returns the cell numbers from an image made by `picture_of`."""
    pil = isinstance(picture, PIL.Image.Image)
    shown = torch.from_numpy(np.array(picture)) if pil else picture.squeeze(0)
    return CellNumbers.from_tensor(shown, pil=pil)


def without(numbers: CellNumbers, erased: Tensor) -> CellNumbers:
    """Returns cell numbers, 0 where a mask (height, width) is True."""
    return CellNumbers.from_tensor(numbers.tensor().masked_fill(erased, 0), pil=numbers.pil)


def _both(first: Any, image: Any, second: Any, other: Any) -> tuple[Any, Any]:
    """Returns the results of two functions called with the same random state."""
    before = _states()
    moved = first(image)
    after = _states()
    _restore(*before)
    try:
        return moved, second(other)
    finally:
        _restore(*after)


def _states() -> tuple[Any, Any, Tensor]:
    """Returns the state of all global generators."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002


def _restore(python: Any, numpy: Any, torchs: Tensor) -> None:
    random.setstate(python)
    np.random.set_state(numpy)  # noqa: NPY002
    torch.set_rng_state(torchs)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Applies a function to a value, or to each item of a sequence."""
    return tuple(map(change, value)) if isinstance(value, Iterable) else change(value)


def _nearest(mode: Any, resizes: bool) -> InterpolationMode:
    """Returns nearest-neighbor interpolation, in the type of a given interpolation."""
    # For tensors, only "nearest" rounds down to the pixel at or before a position.
    exact = resizes and mode not in (InterpolationMode.NEAREST, PIL.Image.Resampling.NEAREST)
    return InterpolationMode.NEAREST_EXACT if exact else InterpolationMode.NEAREST
