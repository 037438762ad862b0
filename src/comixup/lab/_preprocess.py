"""Preprocessing of images for evaluation: resize, center crop, normalization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from comixup._checks import MAX_MAGNITUDE
from comixup.core.tensors import to_device
from comixup.lab._limits import MAX_SIDE

if TYPE_CHECKING:
    from PIL import Image

Shape: TypeAlias = tuple[int, int, int]
"""(C, H, W) of an image."""
RESIZED, CROPPED = 256, 224
"""An image whose shorter side is resized to 256 is cropped to its central 224 x 224 pixels."""
MAX_ASPECT = 16
"""Longer images are cropped first: an image one pixel wide would be enlarged 256 times."""


def resized_side(side: int) -> int:
    """Returns the shorter side that an image is resized to before a crop of `side` pixels.

    >>> resized_side(224), resized_side(64)
    (256, 73)
    """
    return round(side * RESIZED / CROPPED)


@dataclass(frozen=True)
class CenterCrop:
    """How an image is trimmed, resized and cropped; all pairs are (x, y) or (width, height).

    Attributes:
        cut: first column and row of the image that are kept; (0, 0) unless it is very long.
        cut_size: columns and rows kept.
        resized: size they are resized to.
        offset: first column and row of the crop in the resized image.
        size: columns and rows of the crop.
    """

    cut: tuple[int, int]
    cut_size: tuple[int, int]
    resized: tuple[int, int]
    offset: tuple[int, int]
    size: tuple[int, int]

    @classmethod
    def of(cls, size: tuple[int, int], side: int | None, resize: int | None = None) -> CenterCrop:
        """Returns the crop of an image, rounded as torchvision's Resize and CenterCrop do.

        Args:
            size: width and height of the image.
            side: pixels per side of the crop; None shows the whole image, not resized.
            resize: pixels of the shorter side before the crop; None for `resized_side(side)`.

        >>> CenterCrop.of((512, 256), 224).offset
        (144, 16)
        """
        if side is None:
            return cls((0, 0), size, size, (0, 0), size)
        shorter = resized_side(side) if resize is None else resize
        longest = MAX_ASPECT * min(size)
        x, y = (max(0, (length - longest) // 2) for length in size)
        width, height = size[0] - 2 * x, size[1] - 2 * y
        least = min(width, height)
        columns, rows = int(shorter * width / least), int(shorter * height / least)
        offset = round((columns - side) / 2.0), round((rows - side) / 2.0)
        return cls((x, y), (width, height), (columns, rows), offset, (side, side))

    def box(self, edges: tuple[float, float, float, float]) -> tuple[int, int, int, int] | None:
        """Returns a box's visible part in the crop, x0, y0, x1, y1; None if there is none.

        Args:
            edges: x0, y0, x1, y1 in the image's pixels; x1 and y1 are exclusive ends.

        >>> CenterCrop.of((512, 256), 224).box((0, 0, 512, 256))
        (0, 0, 224, 224)
        >>> CenterCrop.of((512, 256), 224).box((0, 0, 100, 256)) is None
        True
        """
        x0, x1 = self._along(0, edges[0], edges[2])
        y0, y1 = self._along(1, edges[1], edges[3])
        return None if x0 >= x1 or y0 >= y1 else (x0, y0, x1, y1)

    def _along(self, axis: int, start: float, end: float) -> tuple[int, int]:
        """Returns the first pixel and the exclusive end of an interval's visible part."""
        cut, original = self.cut[axis], self.cut_size[axis]
        resized, offset = self.resized[axis], self.offset[axis]
        low = round((start - cut) * resized / original) - offset
        high = round((end - cut) * resized / original) - offset
        high = max(high, low + 1)  # rounding must not drop a box
        return max(low, 0), min(high, self.size[axis])


# ---- Colors -------------------------------------------------------------------------------------


BLACK_TO_WHITE = 255
"""Largest value of uint8 colors."""


def normalize(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Returns normalized float32 images, (images - mean) / std; uint8 is scaled to [0, 1] first.

    >>> normalize(torch.tensor([[[255]]], dtype=torch.uint8), (0.5,), (0.25,))
    tensor([[[2.]]])
    """
    white = BLACK_TO_WHITE if images.dtype == torch.uint8 else 1
    scale = tuple(1 / (white * deviation) for deviation in std)
    shift = tuple(-average / deviation for average, deviation in zip(mean, std, strict=True))
    output = images.to(torch.float32, copy=True)
    return output.mul_(per_channel(scale, output)).add_(per_channel(shift, output))


def per_channel(values: tuple[float, ...], images: Tensor) -> Tensor:
    """Returns values per channel as a (C, 1, 1) float32 tensor on the images' device."""
    return to_device(torch.tensor(values, dtype=torch.float32), images.device).view(-1, 1, 1)


# ---- Preprocessing -------------------------------------------------------------------------------


INTERPOLATION = "bilinear"
"""The only interpolation of this package's loaders, with antialiasing."""
_MODES = {1: "L", 3: "RGB"}
"""Pillow's modes by the number of channels."""


@dataclass(frozen=True)
class Preprocessing:
    """Resizes, crops and normalizes images as in a network's evaluation at the end of its training.

    Attributes:
        shape: (C, H, W) of the result.
        mean: mean of the normalization per channel, for colors in [0, 1].
        std: standard deviation of the normalization per channel.
        resize: shorter side in pixels before the center crop of H x W pixels.
        interpolation: interpolation mode of the resize.

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
        """Returns the network's input for an image, (C, H, W) float32."""
        return self.normalize(self.view(picture))

    def view(self, picture: Image.Image) -> Tensor:
        """Returns the crop before normalization, (C, H, W) uint8.

        Args:
            picture: image of any size, with unsigned pixels of 8 or 16 bits; its EXIF orientation
                is applied.
        """
        # Not at the top, as Pillow and torchvision are extras: networks are built without them.
        from comixup.lab import _pictures  # noqa: PLC0415

        channels, height, width = self.shape
        if height != width or channels not in _MODES:
            raise ValueError(
                "`picture` must be for a network of square grey or colour images, but this one "
                f"takes {self.shape}. Give it tensors of that shape."
            )
        problem = _pictures.problem_of_mode(picture)
        if problem is not None:
            raise ValueError(f"`picture` must {problem}.")
        upright = _pictures.upright_rgb(picture).convert(_MODES[channels])
        view: Tensor = _pictures.CenterView(height, self.resize)(upright)
        return view

    def normalize(self, images: Tensor) -> Tensor:
        """Returns the network's input for images that are uint8 or floats in [0, 1].

        Args:
            images: (..., C, H, W).
        """
        return normalize(images, self.mean, self.std)

    def as_dict(self) -> dict[str, Any]:
        """Returns all but the number of channels as JSON types."""
        return {
            "resize": self.resize,
            "crop": list(self.shape[1:]),
            "interpolation": self.interpolation,
            "mean": list(self.mean),
            "std": list(self.std),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any], shape: Shape) -> Preprocessing:
        """Returns the object of an `as_dict`; raises `ValueError`, `LookupError` or `TypeError`."""
        mean, std, resize = saved["mean"], saved["std"], saved["resize"]
        numbers = np.array([mean, std], np.float64)
        good = (
            numbers.shape == (2, shape[0])
            and (np.abs(numbers) <= MAX_MAGNITUDE).all()
            and (numbers[1] >= 1 / MAX_MAGNITUDE).all()
            and type(resize) is int
            and min(shape[1:]) <= resize <= 2 * MAX_SIDE
            and saved["crop"] == list(shape[1:])
            and saved["interpolation"] == INTERPOLATION
        )
        if not good:
            raise ValueError("preprocessing")
        return cls(shape, tuple(map(float, mean)), tuple(map(float, std)), resize)
