"""A batch's saliency as the problems of its partitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from comixup._checks import MAX_MAGNITUDE, Floats, floating, warn_caller
from comixup._maps import describe, grid_sides


@dataclass(frozen=True, eq=False)
class Maps:
    """What is left of saliency maps once they are pooled: a few numbers each, on the CPU.

    Attributes:
        cells: (m, *grid) float64, each map summing to one.
        places: (m, dimensions): the most salient place of each map.
        uniform: how many maps were not usable and became uniform.
    """

    cells: Tensor
    places: Floats
    uniform: int


def summarise(saliency: Tensor, sides: tuple[int, ...]) -> Maps:
    """Returns a batch's maps pooled to a grid, with unusable ones made uniform.

    All that a device is waited for is one copy of these few numbers.
    """
    maps = floating("saliency", saliency)
    numbers = describe(maps, sides)
    lows, tops = numbers[:, 0], numbers[:, 1]
    negative = (lows < 0) & np.isfinite(lows)
    if negative.any():
        first = int(negative.argmax())
        raise ValueError(
            f"`saliency` must not be negative, got {lows[first]:g} for input {first}. Take its "
            "absolute value."
        )
    n = math.prod(sides)
    shares, places = numbers[:, 2 : 2 + n], numbers[:, 2 + n :]
    with np.errstate(over="ignore", invalid="ignore"):  # such maps are not usable: see below
        totals = shares.sum(1)
    usable = (lows >= 0) & (totals > 0) & (tops <= MAX_MAGNITUDE)  # False for NaN
    constant = (lows == tops) & (maps[0].numel() > 1)  # a single pixel can be nothing else
    uniform = ~usable | constant
    shares[uniform], places[uniform] = 1, 0
    shares /= shares.sum(1, keepdims=True)
    return Maps(torch.from_numpy(shares).view(-1, *sides), places, int(uniform.sum()))


def sides_for(grid: int | Sequence[int], images: Tensor, saliency: Tensor) -> tuple[int, ...]:
    """Returns the cells along each side: as asked for, at most one per pixel of image and map."""
    size = [min(sides) for sides in zip(images.shape[2:], saliency.shape[1:], strict=True)]
    return grid_sides(grid, tuple(size))


def given(saliency: Tensor | None) -> Tensor:
    """Returns saliency that the calling convention has already checked."""
    if saliency is None:
        raise ValueError("`saliency` must be given, got None.")
    return saliency


def part_sizes(inputs: int, partition_size: int | None, outputs: int) -> list[tuple[int, int]]:
    """Returns how many inputs and outputs each part has: near-equal, and none without an output.

    >>> part_sizes(21, 20, 21), part_sizes(7, 3, 2)
    ([(11, 11), (10, 10)], [(4, 1), (3, 1)])
    """
    parts = 1 if partition_size is None else -(-inputs // partition_size)
    parts = min(parts, outputs)
    return list(zip(_shares(inputs, parts), _shares(outputs, parts), strict=True))


def _shares(total: int, parts: int) -> list[int]:
    """Returns a number in near-equal parts, the larger ones first."""
    return [total // parts + (k < total % parts) for k in range(parts)]


def warn_of_uniform(maps: Maps, already: bool) -> bool:
    """Warns, unless it already has, of maps that were not usable; returns whether it ever has."""
    if maps.uniform and not already:
        warn_caller(
            f"{maps.uniform} of {len(maps.cells)} saliency maps are zero, constant, NaN or "
            "infinite: these inputs count as salient everywhere alike. `last.uniform_maps` counts "
            "them; this is said once. Half-precision gradients can vanish or overflow: see "
            "torch.amp.GradScaler."
        )
    return already or bool(maps.uniform)
