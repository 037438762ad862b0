"""Near-identical images on both sides of a split, which make an error look lower than it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from comixup.lab._image_files import read_image
from comixup.lab._progress import track

SIDE = 16
"""Pixels per side of the grey thumbnails that are compared."""
TOLERANCE = 4.0
"""Root mean square difference of two thumbnails, in levels of 255: resaved and resized copies have
less, other images of the same thing more."""
MAX_IMAGES = 20_000
"""Of more images only copies of the same length are compared: reading all would take minutes."""
_BLOCK = 1024


class NearCopy(NamedTuple):
    """An image to evaluate on, and the image to train on that it nearly is."""

    evaluated: Path
    trained_on: Path
    difference: float


def near_copies(train: Sequence[Path], evaluated: Sequence[Path]) -> list[NearCopy]:
    """Returns the images to evaluate on that are near-identical to one that is trained on.

    Images are compared as small grey thumbnails, stretched to a square. Damaged files count as
    different from all others. Of more than `MAX_IMAGES` images, only those are compared whose files
    have the same length.

    Args:
        train: files to train on.
        evaluated: files to evaluate on.
    """
    if len(train) + len(evaluated) > MAX_IMAGES:
        train, evaluated = _of_same_length(train, evaluated)
    if not train or not evaluated:
        return []
    files = [*train, *evaluated]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(track(pool.map(_thumbnail, files), len(files), "looking for near copies"))
    thumbnails = np.stack(found)
    ours, theirs = thumbnails[: len(train)], thumbnails[len(train) :]
    copies = []
    for start in range(0, len(theirs), _BLOCK):
        nearest, differences = _nearest(theirs[start : start + _BLOCK], ours)
        copies += [
            NearCopy(evaluated[start + k], train[int(nearest[k])], float(differences[k]))
            for k in np.flatnonzero(differences <= TOLERANCE).tolist()
        ]
    return copies


def _thumbnail(file: Path) -> npt.NDArray[np.float32]:
    """Returns an image's grey values, (SIDE * SIDE,); NaN if it cannot be read."""
    try:
        grey = read_image(file).convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    except ValueError:
        return np.full(SIDE * SIDE, np.nan, np.float32)
    return np.asarray(grey, np.float32).reshape(-1)


def _nearest(
    queries: npt.NDArray[np.float32], candidates: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Returns each query's nearest candidate, and their root mean square difference."""
    squares = (
        np.square(queries).sum(1)[:, None]
        + np.square(candidates).sum(1)
        - 2 * queries.astype(np.float64) @ candidates.T.astype(np.float64)
    )
    squares = np.nan_to_num(squares, nan=np.inf).clip(min=0)
    nearest = squares.argmin(1)
    least = squares[np.arange(len(queries)), nearest]
    return nearest, np.sqrt(least / queries.shape[1])


def _of_same_length(
    train: Sequence[Path], evaluated: Sequence[Path]
) -> tuple[list[Path], list[Path]]:
    """Returns the files of either side whose length in bytes occurs on the other."""
    lengths = [{file: file.stat().st_size for file in side} for side in (train, evaluated)]
    shared = set(lengths[0].values()) & set(lengths[1].values())
    ours, theirs = ([f for f, length in side.items() if length in shared] for side in lengths)
    return ours, theirs
