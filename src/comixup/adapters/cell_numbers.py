"""Cell numbers as a TVTensor: torchvision's v2 transforms move them with the image."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import torch
from torch import Tensor
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms import v2  # type: ignore[import-untyped]

from comixup import SaliencyMemory
from comixup.core.grid import cell_of_pixel

_Index = npt.NDArray[np.int64]
_Numbers = npt.NDArray[np.uint8]
_OUTSIDE = -1
"""Index of pixels outside of the image: the table's row and column of zeros."""


class CellNumbers(tv_tensors.TVTensor):  # type: ignore[misc]  # torchvision ships no types
    """A TVTensor with the cell of the example that each pixel shows.

    Pass it to a transform with the image: `image, numbers = transform(image, numbers)`. Crops,
    flips, paddings and resizes change one index vector each for rows and columns; rotations and
    other transforms that mix both axes apply the image's own function to a picture of the numbers,
    with nearest-neighbor interpolation. Color transforms do not change it. Erased pixels and pixels
    from outside of the image show no cell: their number is 0.

    Attributes:
        pil: whether the image is a PIL image, for which torchvision rounds differently.

    >>> numbers = CellNumbers.of((4, 4), grid=(2, 2))
    >>> v2.functional.horizontal_flip(v2.functional.crop(numbers, 1, 1, 2, 4)).tensor().tolist()
    [[0, 2, 2, 1], [0, 4, 4, 3]]
    """

    _table: _Numbers
    _rows: _Index
    _columns: _Index
    pil: bool

    @classmethod
    def of(cls, size: Sequence[int], grid: Sequence[int]) -> CellNumbers:
        """Returns the cell numbers of an untransformed image.

        Args:
            size: height and width of the image.
            grid: cells per side, such as `SaliencyMemory.grid`.
        """
        start = _unmoved(tuple(size), tuple(grid))
        return start.at(start._rows, start._columns)

    @classmethod
    def from_tensor(cls, numbers: Tensor, *, pil: bool = False) -> CellNumbers:
        """Returns cell numbers from a tensor (height, width) uint8."""
        if numbers.dtype != torch.uint8 or numbers.ndim != 2:
            raise ValueError(
                "`numbers` must be (height, width) uint8, got "
                f"{tuple(numbers.shape)} {numbers.dtype}."
            )
        height, width = numbers.shape
        table = _with_zeros(numbers.numpy())
        return cls._made(table, np.arange(height), np.arange(width), pil)

    @classmethod
    def _made(cls, table: _Numbers, rows: _Index, columns: _Index, pil: bool) -> CellNumbers:
        """Returns the object that indexes rows and columns of a table of numbers."""
        made: CellNumbers = torch.empty(0).as_subclass(cls)
        made._table, made._rows, made._columns, made.pil = table, rows, columns, pil
        return made

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of the image."""
        return len(self._rows), len(self._columns)

    def tensor(self) -> Tensor:
        """Returns the number of the cell that each pixel shows, (height, width) uint8."""
        return torch.from_numpy(self._table.take(self._rows, 0).take(self._columns, 1))

    def at(self, rows: _Index, columns: _Index) -> CellNumbers:
        """Returns the numbers with other indices of the same table."""
        return self._made(self._table, rows, columns, self.pil)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"CellNumbers(image_size={self.image_size})"


@functools.lru_cache(maxsize=256)
def _unmoved(size: tuple[int, ...], grid: tuple[int, ...]) -> CellNumbers:
    """Returns the cell numbers of an untransformed image."""
    if len(grid) != 2:
        raise ValueError(f"`grid` must have two sides, as images have, got {grid}.")
    SaliencyMemory(1, cells=grid)  # rejects more cells than a byte can number
    cells = np.arange(1, 1 + math.prod(grid), dtype=np.uint8).reshape(grid)
    rows, columns = (
        cell_of_pixel(pixels, count).numpy() for pixels, count in zip(size, grid, strict=True)
    )
    return CellNumbers._made(_with_zeros(cells), rows, columns, pil=False)


def _with_zeros(array: _Numbers) -> _Numbers:
    """Returns an array padded with a last row and column of zeros, which `_OUTSIDE` indexes."""
    height, width = array.shape
    table = np.zeros((height + 1, width + 1), np.uint8)
    table[:height, :width] = array
    return table


def _kernel(functional: str) -> Callable[[Callable[..., Any]], Any]:
    """Returns a decorator that registers a kernel for one of v2's functionals."""
    register: Callable[[Callable[..., Any]], Any] = v2.functional.register_kernel(
        functional, CellNumbers
    )
    return register


@_kernel("horizontal_flip")
def _horizontal_flip(numbers: CellNumbers) -> CellNumbers:
    return numbers.at(numbers._rows, numbers._columns[::-1])


@_kernel("vertical_flip")
def _vertical_flip(numbers: CellNumbers) -> CellNumbers:
    return numbers.at(numbers._rows[::-1], numbers._columns)


@_kernel("crop")
def _crop(numbers: CellNumbers, top: int, left: int, height: int, width: int) -> CellNumbers:
    return numbers.at(_cut(numbers._rows, top, height), _cut(numbers._columns, left, width))


@_kernel("center_crop")
def _center_crop(numbers: CellNumbers, output_size: int | Sequence[int]) -> CellNumbers:
    sides = [output_size] if isinstance(output_size, int) else list(output_size)
    height, width = sides * (3 - len(sides))
    return numbers.at(_central(numbers._rows, height), _central(numbers._columns, width))


@_kernel("pad")
def _pad(
    numbers: CellNumbers,
    padding: int | Sequence[int],
    fill: Any = None,
    padding_mode: str = "constant",
) -> CellNumbers:
    sides = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = sides * (4 // len(sides))
    return numbers.at(
        _padded(numbers._rows, top, bottom, padding_mode),
        _padded(numbers._columns, left, right, padding_mode),
    )


@_kernel("resize")
def _resize(
    numbers: CellNumbers,
    size: int | Sequence[int] | None,
    interpolation: Any = v2.InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> CellNumbers:
    height, width = _resized(numbers.image_size, size, max_size)
    # For tensors, torch's "nearest" rounds down; all other modes use the pixel's center.
    nearest = ("nearest", v2.InterpolationMode.NEAREST, PIL.Image.Resampling.NEAREST)
    centre = numbers.pil or interpolation not in nearest
    return numbers.at(
        _scaled(numbers._rows, height, numbers.pil, centre),
        _scaled(numbers._columns, width, numbers.pil, centre),
    )


@_kernel("resized_crop")
def _resized_crop(
    numbers: CellNumbers,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Sequence[int],
    interpolation: Any = v2.InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> CellNumbers:
    return _resize(_crop(numbers, top, left, height, width), size, interpolation)  # type: ignore[no-any-return]


@_kernel("erase")
def _erase(
    numbers: CellNumbers, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False
) -> CellNumbers:
    kept = numbers.tensor()
    kept[i : i + h, j : j + w] = 0
    return CellNumbers.from_tensor(kept, pil=numbers.pil)


def _as_picture(functional: str) -> None:
    """Registers a functional that transforms the numbers as an image."""
    move = getattr(v2.functional, functional)

    def kernel(
        numbers: CellNumbers, *args: Any, interpolation: Any = None, fill: Any = None, **kwargs: Any
    ) -> CellNumbers:
        shown = numbers.tensor()
        if numbers.pil:
            picture = PIL.Image.fromarray(shown.numpy())
            picture = move(
                picture, *args, interpolation=v2.InterpolationMode.NEAREST, fill=0, **kwargs
            )
            moved = torch.from_numpy(np.array(picture))
        else:  # masks are resampled by nearest neighbor
            moved = move(tv_tensors.Mask(shown.unsqueeze(0)), *args, fill=0, **kwargs).squeeze(0)
        return CellNumbers.from_tensor(moved.as_subclass(Tensor), pil=numbers.pil)

    _kernel(functional)(kernel)


for _name in ("affine", "rotate", "perspective", "elastic"):
    _as_picture(_name)


@_kernel("get_size")
def _get_size(numbers: CellNumbers) -> list[int]:
    return list(numbers.image_size)


def _unchanged(numbers: CellNumbers, *args: Any, **kwargs: Any) -> CellNumbers:
    return numbers


for _name in (
    *("adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation"),
    *("adjust_sharpness", "autocontrast", "equalize", "gaussian_blur", "gaussian_noise", "invert"),
    *("jpeg", "normalize", "permute_channels", "posterize", "rgb_to_grayscale", "solarize"),
    *("to_dtype", "grayscale_to_rgb"),
):
    if hasattr(v2.functional, _name):  # older versions have fewer
        _kernel(_name)(_unchanged)


def _cut(index: _Index, start: int, length: int) -> _Index:
    """Returns a slice of an index vector from `start`, padded with `_OUTSIDE`."""
    end = start + length
    if start >= 0 and end <= len(index):
        return index[start:end]
    part = np.full(length, _OUTSIDE)
    first, last = max(start, 0), min(end, len(index))
    if first < last:
        part[first - start : last - start] = index[first:last]
    return part


def _central(index: _Index, length: int) -> _Index:
    """Returns the central slice of an index vector, rounded as torchvision does."""
    if length > len(index):  # the image is padded
        return _cut(index, -((length - len(index)) // 2), length)
    return _cut(index, round((len(index) - length) / 2.0), length)


def _padded(index: _Index, before: int, after: int, mode: str) -> _Index:
    if mode == "constant":
        return _cut(index, -before, before + len(index) + after)
    shown: _Index = np.pad(index, (before, after), mode)  # type: ignore[call-overload]
    return shown


def _scaled(index: _Index, length: int, pil: bool, centre: bool) -> _Index:
    """Returns an index vector resized to `length` pixels, by nearest neighbor.

    Rounds as Pillow or torch do.
    """
    if length == len(index):
        return index
    step = len(index) / length
    if pil:  # Pillow accumulates steps in double precision
        places = np.add.accumulate(np.r_[step / 2, np.full(length - 1, step)])
    else:  # torch multiplies in single precision
        places = (np.arange(length, dtype=np.float32) + np.float32(centre / 2)) * np.float32(step)
    return index[np.minimum(places.astype(np.int64), len(index) - 1)]


def _resized(
    old: tuple[int, int], size: int | Sequence[int] | None, max_size: int | None
) -> tuple[int, int]:
    """Returns the height and width that torchvision resizes an image to."""
    if not (size is None or isinstance(size, int)) and len(size) == 2:
        return size[0], size[1]
    short, long = min(old), max(old)
    if size is None:
        assert max_size is not None  # torchvision has checked it
        new_short, new_long = int(max_size * short / long), max_size
    else:
        new_short = size if isinstance(size, int) else size[0]
        new_long = int(new_short * long / short)
        if max_size is not None and new_long > max_size:
            new_short, new_long = int(max_size * new_short / new_long), max_size
    return (new_short, new_long) if old[0] <= old[1] else (new_long, new_short)
