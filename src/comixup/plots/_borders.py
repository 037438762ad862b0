"""Where the regions of a mixed image end: the lines around them, each as long as it can be."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_LEAST = 1e-6
"""A smaller share is none."""


class Border(NamedTuple):
    """A straight border of a region, in widths and heights of the image from its top left corner.

    Attributes:
        owners: the inputs of the region that it belongs to, the largest share first.
        x0: left end, or the whole line's if it is upright.
        y0: upper end, or the whole line's if it is level.
        x1: right end.
        y1: lower end.
        room: how far the region reaches down from a line above it, at its left end.
    """

    owners: tuple[int, ...]
    x0: float
    y0: float
    x1: float
    y1: float
    room: float


def cell_edges(pixels: int, cells: int) -> npt.NDArray[np.float64]:
    """Returns where cells begin and end along a side, (cells + 1,) from 0 to 1.

    Cells end where pixels do: pixel x lies in cell x * cells // pixels.

    >>> (17 * cell_edges(17, 4)).tolist()
    [0.0, 5.0, 9.0, 13.0, 17.0]
    """
    edges: npt.NDArray[np.float64] = -(-np.arange(cells + 1) * pixels // cells) / pixels
    return edges


def border_runs(
    shares: npt.NDArray[np.float64],
    size: tuple[int, int],
    inches: tuple[float, float],
    inset: float,
) -> list[Border]:
    """Returns the borders of all regions, those above a region first, from the top left on.

    Args:
        shares: (k, rows, columns) the share of each input at each location.
        size: height and width of the image in pixels.
        inches: width and height of the image on paper.
        inset: inches by which a border lies inside of its region.
    """
    labels, owners = _regions(shares)
    rows, columns = labels.shape
    down, across = cell_edges(size[0], rows), cell_edges(size[1], columns)
    dx, dy = inset / inches[0], inset / inches[1]
    found: list[Border] = []
    for step, edge, shift in ((-1, 0, dy), (1, 1, -dy)):  # above, below
        for run in _runs(labels, _differs(labels, step, 0)):
            y = float(down[run.row + edge] + shift)
            room = float(down[run.row + _depth(labels[run.row :, run.start])] - down[run.row])
            x0, x1 = _ends(run, across, dx)
            found.append(Border(owners[labels[run.row, run.start]], x0, y, x1, y, room))
    for step, edge, shift in ((-1, 0, dx), (1, 1, -dx)):  # left, right
        for run in _runs(labels.T, _differs(labels, step, 1).T):
            x = float(across[run.row + edge] + shift)
            y0, y1 = _ends(run, down, dy)
            found.append(Border(owners[labels[run.start, run.row]], x, y0, x, y1, 0.0))
    return found


def _regions(
    shares: npt.NDArray[np.float64],
) -> tuple[npt.NDArray[np.int64], list[tuple[int, ...]]]:
    """Returns the number of each location's mixture, (rows, columns), and who is in each one."""
    k, rows, columns = shares.shape
    flat = np.round(shares.reshape(k, -1).T, 6)
    kinds, number = np.unique(flat, axis=0, return_inverse=True)
    owners = [
        tuple(int(i) for i in np.argsort(-kind, kind="stable") if kind[i] > _LEAST)
        for kind in kinds
    ]
    return number.reshape(rows, columns), owners


def _differs(labels: npt.NDArray[np.int64], step: int, axis: int) -> npt.NDArray[np.bool_]:
    """Returns whether each location's neighbour in a direction is of another region, or none."""
    neighbour = np.roll(labels, -step, axis)
    edge = [slice(None), slice(None)]
    edge[axis] = slice(0, 1) if step < 0 else slice(-1, None)
    neighbour[tuple(edge)] = -1
    different: npt.NDArray[np.bool_] = neighbour != labels
    return different


def _depth(column: npt.NDArray[np.int64]) -> int:
    """Returns how many locations, from the first on, are of one region."""
    other = np.flatnonzero(column != column[0])
    return int(other[0]) if len(other) else len(column)


class _Run(NamedTuple):
    """Neighbours in a row that share a region and a border.

    Attributes:
        row: of the locations.
        start: the first one.
        stop: exclusive end.
        goes_on: whether the region, not the border, continues before the start and after the end.
    """

    row: int
    start: int
    stop: int
    goes_on: tuple[bool, bool]


def _ends(run: _Run, edges: npt.NDArray[np.float64], inset: float) -> tuple[float, float]:
    """Returns where a border begins and ends: inside of its region's corners, to meet the next."""
    first = edges[run.start] + (-inset if run.goes_on[0] else inset)
    last = edges[run.stop] + (inset if run.goes_on[1] else -inset)
    return float(first), float(last)


def _runs(labels: npt.NDArray[np.int64], ends: npt.NDArray[np.bool_]) -> list[_Run]:
    """Returns all runs of locations that have a border on one side.

    >>> [run[:3] for run in _runs(np.array([[0, 0, 1]]), np.array([[True, True, True]]))]
    [(0, 0, 2), (0, 2, 3)]
    """
    found = []
    for row in np.flatnonzero(ends.any(1)).tolist():
        own = labels[row]
        kind = np.where(ends[row], own, -1)
        cuts = [0, *(np.flatnonzero(np.diff(kind)) + 1).tolist(), len(kind)]
        for start, stop in itertools.pairwise(cuts):
            if kind[start] < 0:
                continue
            before = start > 0 and bool(own[start - 1] == own[start])
            after = stop < len(own) and bool(own[stop] == own[start])
            found.append(_Run(row, start, stop, (before, after)))
    return found
