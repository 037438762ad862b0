"""The grid of a labelling: its edges, and upsampling from cells to pixels."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

MAX_DIMENSIONS = 3


def edges(grid: Sequence[int]) -> npt.NDArray[np.int64]:
    """Returns the neighboring locations of a grid, N in Eq. (1), as an (edges, 2) array.

    Locations are numbered in row-major order; neighbors differ by one along one axis.

    >>> edges((2, 2)).tolist()
    [[0, 2], [1, 3], [0, 1], [2, 3]]
    """
    location = np.arange(int(np.prod(grid)), dtype=np.int64).reshape(tuple(grid))
    pairs = [
        np.stack(
            [
                location.take(range(size - 1), axis).ravel(),
                location.take(range(1, size), axis).ravel(),
            ],
            axis=1,
        )
        for axis, size in enumerate(grid)
    ]
    return np.concatenate(pairs)


def cell_of_pixel(size: int, cells: int, device: torch.device | str = "cpu") -> Tensor:
    """Returns the cell that covers each of `size` pixels along one axis (nearest neighbor).

    >>> torch.bincount(cell_of_pixel(17, 4)).tolist()
    [5, 4, 4, 4]
    """
    return torch.arange(size, device=device) * cells // size


def upsampled(cells: Tensor, size: Sequence[int]) -> Tensor:
    """Returns values per cell, (..., *grid), as values per pixel, (..., *size)."""
    first = cells.ndim - len(size)
    for axis, pixels in enumerate(size, start=first):
        cells = cells.index_select(axis, cell_of_pixel(pixels, cells.shape[axis], cells.device))
    return cells


def cell_numbers(
    size: Sequence[int], grid: Sequence[int], device: torch.device | str = "cpu"
) -> Tensor:
    """Returns the number of the cell that each pixel lies in, (*size) int64, from 1 in row-major.

    >>> cell_numbers((2, 4), (2, 2)).tolist()
    [[1, 1, 2, 2], [3, 3, 4, 4]]
    """
    number = torch.zeros((), dtype=torch.int64, device=device)
    for pixels, cells in zip(size, grid, strict=True):
        number = number.unsqueeze(-1) * cells + cell_of_pixel(pixels, cells, device)
    return number + 1


@functools.lru_cache(maxsize=64)
def cell_weights(size: tuple[int, ...], grid: tuple[int, ...]) -> Tensor:
    """Returns the share of an image's pixels that each cell of the grid covers; it sums to one.

    >>> cell_weights((2, 4), (2, 3)).tolist()
    [[0.25, 0.125, 0.125], [0.25, 0.125, 0.125]]
    """
    weights = torch.ones((), device="cpu")
    for pixels, cells in zip(size, grid, strict=True):
        count = torch.bincount(cell_of_pixel(pixels, cells), minlength=cells)
        weights = weights.unsqueeze(-1) * (count / pixels)
    return weights
