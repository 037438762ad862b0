"""Connected regions of masks and their boxes, for a whole batch at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]


@dataclass(frozen=True, eq=False)
class Regions:
    """All connected regions of n masks, those of a mask together and the largest of them first.

    Attributes:
        count: how many masks there are.
        owners: (r,) the mask that each region is in, from the first on.
        boxes: (r, 4) int64 tight boxes x0, y0, x1, y1; x1 and y1 are exclusive ends.
        areas: (r,) pixels of the regions themselves.
    """

    count: int
    owners: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.int64]
    areas: npt.NDArray[np.int64]

    @property
    def largest(self) -> npt.NDArray[np.int64]:
        """Returns which region is its mask's largest, (n,); -1 for masks without any."""
        chosen = np.full(self.count, -1)
        owners, first = np.unique(self.owners, return_index=True)
        chosen[owners] = first
        return chosen


def find_regions(masks: npt.NDArray[np.bool_]) -> Regions:
    """Returns the regions of masks, (n, H, W), whose pixels touch by their sides or corners.

    Of regions with as many pixels, the one that begins higher up, then more to the left, comes
    first.

    Whole runs of pixels in a row are joined, of which there are some dozens where there are
    thousands of pixels: a fraction of the time that scipy.ndimage.label takes.

    >>> mask = np.array([[[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1]]], bool)
    >>> find_regions(mask).boxes.tolist()
    [[0, 0, 2, 2], [3, 1, 4, 3]]
    """
    n, height, width = masks.shape
    # A column and a row of background after each image: so runs end with their rows, and those of
    # two images are not neighbours. One pixel in front lets the first run begin.
    tall, wide = height + 1, width + 1
    padded = np.zeros(n * tall * wide + 1, bool)
    padded[1:].reshape(n, tall, wide)[:, :height, :width] = masks
    changes = np.flatnonzero(padded[1:] != padded[:-1])
    starts, ends = changes[::2], changes[1::2]
    # Of the next row, those that end behind the pixel to the left of this run and begin before
    # the one behind the pixel to its right. Both are in order, as runs do not overlap.
    low = np.searchsorted(ends, starts + wide - 1, side="right")
    high = np.searchsorted(starts, ends + wide + 1, side="left")
    neighbours = np.maximum(high - low, 0)
    # As a sparse matrix: the run in row i has neighbours below[rows[i] : rows[i + 1]].
    rows = np.concatenate(([0], np.cumsum(neighbours)))
    below = np.arange(rows[-1]) - np.repeat(rows[:-1] - low, neighbours)
    joined = csr_array((np.ones(len(below)), below, rows), (len(starts),) * 2)
    regions, labels = connected_components(joined, directed=False)
    if not regions:
        return Regions(n, *(np.zeros(shape, np.int64) for shape in ((0,), (0, 4), (0,))))

    runs = np.argsort(labels, kind="stable")
    begins = np.flatnonzero(np.diff(labels[runs], prepend=-1))
    rows, left = np.divmod(starts[runs], wide)
    owners, rows = np.divmod(rows, tall)
    lengths = (ends - starts)[runs]
    boxes = np.stack(
        (
            np.minimum.reduceat(left, begins),
            np.minimum.reduceat(rows, begins),
            np.maximum.reduceat(left + lengths, begins),
            np.maximum.reduceat(rows, begins) + 1,
        ),
        axis=1,
    )
    areas = np.add.reduceat(lengths, begins)
    order = np.lexsort((runs[begins], -areas, owners[begins]))
    return Regions(n, owners[begins][order], boxes[order], areas[order])
