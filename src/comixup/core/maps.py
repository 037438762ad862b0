"""Saliency maps pooled to a grid, and their most salient locations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import mod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from comixup import _native
from comixup._checks import MAX_MAGNITUDE
from comixup.core.grid import MAX_DIMENSIONS
from comixup.core.tensors import Floats, floating, on_host, thread_count

MAX_LOCATIONS = 2**20
"""Largest accepted number of locations: more are a mistake."""

SALIENT_WINDOW = 8
"""Side in pixels of the averaging window before the arg max of a map."""

_ADAPTIVE_MEAN: dict[int, Callable[[Tensor, Any], Tensor]] = {
    1: F.adaptive_avg_pool1d,
    2: F.adaptive_avg_pool2d,
    3: F.adaptive_avg_pool3d,
}


def check_grid(grid: object) -> None:
    """Raises unless a grid is a positive integer or a sequence of one to three of them."""
    sides = tuple(grid) if isinstance(grid, Iterable) else (grid,)
    counts = [side for side in sides if type(side) is int and side > 0]
    if not 1 <= len(sides) == len(counts) <= MAX_DIMENSIONS:
        raise ValueError(
            f"`grid` must be a positive integer, or one per spatial side, got {grid!r}. The "
            "paper's is 4."
        )


def grid_sides(grid: int | Sequence[int], size: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the number of cells per side: as requested, but at most one per pixel.

    >>> grid_sides(4, (32, 3))
    (4, 3)
    """
    check_grid(grid)
    sides = tuple(grid) if isinstance(grid, Iterable) else (grid,) * len(size)
    if len(sides) != len(size):
        raise ValueError(
            "`grid` must be a positive integer, or one per spatial side of the saliency "
            f"{size}, got {grid!r}."
        )
    sides = tuple(map(min, sides, size))
    if math.prod(sides) > MAX_LOCATIONS:
        raise ValueError(
            f"`grid` must have at most {MAX_LOCATIONS} locations, got {grid!r}, which makes "
            f"{sides} of the size {size}. Use a coarser grid: the paper's is 4 x 4."
        )
    return sides


def pool(saliency: Tensor, sides: tuple[int, ...]) -> Tensor:
    """Returns the mean of each map over each cell, (m, *sides)."""
    size = saliency.shape[1:]
    if not any(map(mod, size, sides)):
        # Cells of one size: a plain mean, several times as fast as the adaptive one.
        blocks = [b for p, c in zip(size, sides, strict=True) for b in (c, p // c)]
        axes = tuple(range(2, len(blocks) + 1, 2))
        return saliency.reshape(len(saliency), *blocks).mean(axes)
    return _ADAPTIVE_MEAN[len(sides)](saliency.unsqueeze(1), sides).squeeze(1)


def salient_locations(saliency: Tensor) -> Tensor:
    """Returns the most salient location of each map, (m, dimensions) integers.

    Paper: the arg max of the raw map. As in the official implementation, the map is averaged over a
    window of `SALIENT_WINDOW` pixels first, so that one hot pixel does not decide.
    """
    smooth = saliency
    for axis, side in enumerate(saliency.shape[1:], start=1):  # sums have the arg max of means
        smooth = _running_sum(smooth, axis, min(SALIENT_WINDOW, side))
    # torch.unravel_index would copy the sides to the device, and synchronize.
    number, location = smooth.flatten(1).argmax(1), []
    for side in reversed(smooth.shape[1:]):
        location.append(number % side)
        number = number // side
    return torch.stack(location[::-1], 1)


@dataclass(frozen=True, eq=False)
class Maps:
    """Saliency maps pooled to a grid, in host memory.

    Attributes:
        cells: (m, *grid) float64, each map summing to one. Maps that are not usable are uniform.
        locations: (m, dimensions): the most salient location of each map; 0 where none is.
        saliency: (m, *size), the maps themselves, on their device.
        uniform: (m,) whether a map is uniform: not usable, or the same everywhere.
        unusable: (m,) whether a map is zero, NaN or infinite.
    """

    cells: Floats
    locations: Floats
    saliency: Tensor
    uniform: npt.NDArray[np.bool_]
    unusable: npt.NDArray[np.bool_]

    def check_usable(self) -> None:
        """Raises for maps that are zero, NaN or infinite."""
        if self.unusable.any():
            first = int(self.unusable.argmax())
            raise ValueError(
                "`saliency` must be finite, with a positive sum for each input, got "
                f"{_fault(self.saliency[first])} for input {first}. Give it a uniform map."
            )


def pool_maps(saliency: Tensor, sides: tuple[int, ...]) -> Maps:
    """Returns a batch's maps pooled to a grid; unusable maps become uniform.

    The only synchronization with a device is one copy of these few numbers.
    """
    maps = floating("saliency", saliency)
    numbers = summarize_maps(maps, sides)
    n = math.prod(sides)
    least, largest = numbers[:, 0], numbers[:, 1]
    negative = (least < 0) & np.isfinite(least)
    if negative.any():  # always a caller's mistake, unlike other unusable maps
        first = int(negative.argmax())
        raise ValueError(
            f"`saliency` must not be negative, got {least[first]:g} for input {first}. Take its "
            "absolute value."
        )
    cells, locations = numbers[:, 2 : 2 + n], numbers[:, 2 + n :]
    with np.errstate(over="ignore", invalid="ignore"):  # such maps are not usable: see below
        totals = cells.sum(1)
    unusable = ~((least >= 0) & (totals > 0) & (largest <= MAX_MAGNITUDE))  # NaN is unusable
    constant = (least == largest) & (maps[0].numel() > 1)  # a single pixel is always constant
    uniform = unusable | constant
    cells[uniform], locations[uniform] = 1, 0
    cells /= cells.sum(1, keepdims=True)
    return Maps(cells.reshape(-1, *sides), locations, maps, uniform, unusable)


def summarize_maps(maps: Tensor, sides: tuple[int, ...]) -> Floats:
    """Returns a summary of each map, (m, 2 + cells + dimensions), in host memory.

    Its minimum and maximum (NaN if it has any), the mean of each cell, its most salient location.
    The kernel reads each map once; the functions above serve other devices, and grids that do not
    divide the map.
    """
    size = tuple(maps.shape[1:])
    if not any(map(mod, size, sides)) and maps.device.type == "cpu" and maps.dtype == torch.float32:
        padding = (1,) * (MAX_DIMENSIONS - len(size))
        numbers = np.empty((len(maps), 2 + math.prod(sides) + MAX_DIMENSIONS))
        _native.summarize_maps(
            maps.contiguous().view(-1, *padding, *size),
            (*padding, *sides),
            (*padding, *map(min, size, (SALIENT_WINDOW,) * len(size))),
            thread_count(None),
            numbers,
        )
        if not padding:
            return numbers
        locations = numbers[:, len(numbers[0]) - len(size) :]
        return np.concatenate([numbers[:, : 2 + math.prod(sides)], locations], 1)
    flat = maps.flatten(1)
    low, top = flat.amin(1, keepdim=True), flat.amax(1, keepdim=True)
    return on_host(torch.cat([low, top, pool(maps, sides).flatten(1), salient_locations(maps)], 1))


def location_distances(locations: Floats) -> Floats:
    """Returns A_c, (..., m, m): l1 distances between the inputs' locations, scaled to sum m.

    All zero if every location is the same.

    >>> location_distances(np.array([[0.0, 0.0], [1.0, 2.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    distance = np.zeros((*locations.shape[:-1], locations.shape[-2]))
    for axis in np.moveaxis(locations, -1, 0):  # faster than a sum over an axis of two
        distance += np.abs(axis[..., :, None] - axis[..., None, :])
    # If all locations coincide, every distance and their sum are zero: divide by 1.
    total = np.maximum(distance.sum((-2, -1), keepdims=True), 1.0)
    scaled: Floats = distance * (locations.shape[-2] / total)
    return scaled


def _running_sum(values: Tensor, axis: int, window: int) -> Tensor:
    """Returns the sums of all runs of `window` values along an axis, by doubling."""
    if window == 1:
        return values
    half, runs = window // 2, values.shape[axis] - window + 1
    shorter = _running_sum(values, axis, half)
    total = shorter.narrow(axis, 0, runs) + shorter.narrow(axis, half, runs)
    return total + values.narrow(axis, window - 1, runs) if window % 2 else total


def _fault(saliency: Tensor) -> str:
    """Returns why a map is unusable, for an error message."""
    if not bool(torch.isfinite(saliency).all()):
        return "NaN or infinite values"
    largest = float(saliency.max())
    return "zero everywhere" if largest == 0 else f"a value of {largest:g}"
