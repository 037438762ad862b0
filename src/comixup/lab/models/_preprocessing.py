"""How a picture becomes what a trained network takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from comixup.lab._limits import MAX_SIDE
from comixup.lab._preprocess import Shape, normalize

if TYPE_CHECKING:
    from PIL import Image


INTERPOLATION = "bilinear"
"""With antialiasing: the only one that the loaders of this package have."""
_MODES = {1: "L", 3: "RGB"}
"""Pillow's modes by the number of channels."""


@dataclass(frozen=True)
class Preprocessing:
    """Resizes, crops and normalises pictures as a network was evaluated when its training ended.

    Attributes:
        shape: (C, H, W) of the result.
        mean: per channel, in [0, 1] colours: what normalisation subtracts.
        std: per channel, in [0, 1] colours: what it then divides by.
        resize: pixels of the shorter side before the central H x W pixels are cropped.
        interpolation: how pictures are resized.

    >>> from PIL import Image
    >>> preprocessing = Preprocessing((3, 64, 64), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25), resize=73)
    >>> preprocessing(Image.new("RGB", (200, 100), "white"))[:, 0, 0]
    tensor([2., 2., 2.])
    """

    shape: Shape
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: int
    interpolation: str = INTERPOLATION

    def __call__(self, picture: Image.Image) -> Tensor:
        """Returns a picture as the network takes it, (C, H, W) float32."""
        return self.normalize(self.view(picture))

    def view(self, picture: Image.Image) -> Tensor:
        """Returns what the network sees of a picture, (C, H, W) uint8.

        Args:
            picture: of any size and of modes with unsigned pixels of 8 or 16 bits; an orientation
                that it carries (EXIF) is applied.
        """
        # Not at the top, as Pillow and torchvision are extras: networks are built without them.
        from comixup.lab._pictures import (  # noqa: PLC0415
            CenterView,
            problem_of_mode,
            upright_rgb,
        )

        channels, height, width = self.shape
        if height != width or channels not in _MODES:
            raise ValueError(
                "`picture` must be for a network of square grey or colour images, but this one "
                f"takes {self.shape}. Give it tensors of that shape."
            )
        problem = problem_of_mode(picture)
        if problem is not None:
            raise ValueError(f"`picture` must {problem}.")
        view: Tensor = CenterView(height, self.resize)(
            upright_rgb(picture).convert(_MODES[channels])
        )
        return view

    def normalize(self, images: Tensor) -> Tensor:
        """Returns images as the network takes them, from uint8 colours or floats in [0, 1].

        Args:
            images: (..., C, H, W).
        """
        return normalize(images, self.mean, self.std)

    def as_dict(self) -> dict[str, Any]:
        """Returns all but the number of channels as what JSON can hold."""
        return {
            "resize": self.resize,
            "crop": list(self.shape[1:]),
            "interpolation": self.interpolation,
            "mean": list(self.mean),
            "std": list(self.std),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], shape: Shape) -> Preprocessing:
        """Returns what `as_dict` wrote; anything else raises `ValueError` or `LookupError`.

        Args:
            saved: from a file, so it may hold anything.
            shape: (C, H, W) that the same file states.
        """
        mean, std = (_numbers(saved[name], shape[0]) for name in ("mean", "std"))
        resize, crop = saved["resize"], saved["crop"]
        if type(resize) is not int or not min(shape[1:]) <= resize <= 2 * MAX_SIDE:
            raise ValueError(f"resize is {resize!r}")
        if crop != list(shape[1:]):
            raise ValueError(f"crop is {crop!r}, but the shape is {shape}")
        if saved["interpolation"] != INTERPOLATION:
            raise ValueError(f"interpolation is {saved['interpolation']!r}")
        # In float32, as images are normalised: 1e-300 is 0 there.
        scale = torch.tensor(std, dtype=torch.float32)
        if min(std) <= 0 or not (scale.isfinite() & scale.reciprocal().isfinite()).all():
            raise ValueError(f"std is {std}")
        if not torch.tensor(mean, dtype=torch.float32).isfinite().all():
            raise ValueError(f"mean is {mean}")
        return cls(shape, mean, std, resize)


def _numbers(values: object, count: int) -> tuple[float, ...]:
    good = isinstance(values, list) and all(
        isinstance(value, (int, float)) and math.isfinite(value) for value in values
    )
    if not isinstance(values, list) or not good or len(values) != count:
        raise ValueError(f"{values!r} are not {count} numbers")
    return tuple(map(float, values))
