"""One look at every image file: can it be read, what does it hold, is it nearly another?

Each file is read once, by several threads. What was seen is kept in the cache, by path, size, times
and inode.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from filelock import FileLock
from PIL import Image

from comixup.lab._image_files import REPLACE, check_regular, decode
from comixup.lab._pictures import upright_rgb
from comixup.lab._progress import in_threads
from comixup.lab.data._cache import cache_folder, cached, cached_rows, file_stamp, keep_rows

Rows: TypeAlias = npt.NDArray[Any]
SIDE = 16
"""Pixels per side of the grey thumbnails that are compared."""
TOLERANCE = 4.0
"""Root mean square difference of two thumbnails, in levels of 255: resaved and resized copies have
less, other images of the same thing more."""
MAX_COMPARED = 20_000
"""Of more images a sample of those to evaluate on is compared, in as many pairs as of so many."""
_ROW = np.dtype(
    [
        ("stamp", "S32"),
        ("content", "S32"),
        ("size", "<i4", (2,)),
        ("thumbnail", "u1", (SIDE * SIDE,)),
    ]
)
"""Digests of a file's path and times and of its content, its width and height, and grey values."""
NO_ROWS: Rows = np.empty(0, _ROW)
_BLOCK, _TRAIN_BLOCK = 1024, 16_384
"""Images to evaluate on and to train on that are compared at once: 130 MB."""
_LISTED = 50
"""Damaged files that an error message lists; of more it tells the number."""
_NAMED = 5
"""The same for a warning."""


def scan(
    place: Path,
    files: Sequence[bytes],
    title: str,
    *,
    skip_bad: bool = False,
    size: tuple[int, int] | None = None,
    remedy: str = REPLACE,
) -> tuple[list[int], Rows, tuple[str, ...]]:
    """Returns the indices of the files that can be read, a row for each, and what is left out.

    Args:
        place: the folder or table that lists them, which names their rows in the cache.
        files: the images.
        title: what they are, for the progress bar and messages.
        skip_bad: leave out files that cannot be read, with a warning. Else any of them is an error.
        size: width and height that each image has to have; None allows any.
        remedy: what to do about a damaged file.
    """
    with _lock(place):  # of several processes one reads the files, the others its rows
        rows, problems = _rows(place, files, title, size, remedy)
    if not problems:
        return list(range(len(files))), rows, ()
    bad = list(problems.values())
    if len(bad) == len(files) or not skip_bad:
        lines = [f"{len(bad)} of {len(files)} images of {title} cannot be used:", *bad[:_LISTED]]
        lines += [f"And {len(bad) - _LISTED} more."] if len(bad) > _LISTED else []
        lines += [] if skip_bad else ["--skip-bad (`skip_bad=True`) leaves out such files."]
        raise ValueError((" " if len(bad) == 1 else "\n  ").join(lines))
    more = f" And {len(bad) - _NAMED} more." if len(bad) > _NAMED else ""
    warnings.warn(
        f"{len(bad)} of {len(files)} images of {title} are left out. {' '.join(bad[:_NAMED])}"
        f"{more}",
        stacklevel=2,
    )
    kept = [k for k in range(len(files)) if k not in problems]
    return kept, rows[kept], tuple(bad)


def _lock(place: Path) -> contextlib.AbstractContextManager[Any]:
    folder = cache_folder()
    if folder is None or not os.access(folder, os.W_OK):
        return contextlib.nullcontext()
    return FileLock(folder / f"scan-{_digest(os.fsencode(place)).decode()}.lock")


def _rows(
    place: Path, files: Sequence[bytes], title: str, size: tuple[int, int] | None, remedy: str
) -> tuple[Rows, dict[int, str]]:
    """Returns a row for each file, and error messages of those that cannot be read."""
    known = cached_rows("scan", place, _ROW)
    index = {stamp: k for k, stamp in enumerate(known["stamp"].tolist())}
    rows, problems, unread = np.zeros(len(files), _ROW), dict[int, str](), list[int]()
    for k, file in enumerate(files):
        with contextlib.suppress(OSError):  # a link to nothing is told of when it is read
            rows["stamp"][k] = stamp = _digest(file_stamp(file))
            if stamp in index and size in (None, tuple(known["size"][index[stamp]].tolist())):
                rows[k] = known[index[stamp]]
                continue
        unread.append(k)

    def look(k: int) -> tuple[bytes, tuple[int, int], npt.NDArray[np.uint8]] | str:
        file, digests = Path(os.fsdecode(files[k])), list[bytes]()

        def content() -> io.BytesIO:
            data = file.read_bytes()
            digests.append(_digest(data))
            return io.BytesIO(data)

        try:
            shape, grey = decode(file, content, _thumbnail, size=size, remedy=remedy)
            return digests[0], shape, grey
        except ValueError as error:
            return str(error)

    for k, found in zip(unread, in_threads(look, unread, f"reading {title}"), strict=True):
        if isinstance(found, str):
            problems[k] = found
        else:
            rows["content"][k], rows["size"][k], rows["thumbnail"][k] = found
    good = np.delete(rows, list(problems))
    if len(unread) > len(problems) or len(good) < len(known):
        keep_rows("scan", place, good)
    return rows, problems


def _thumbnail(image: Image.Image) -> tuple[tuple[int, int], npt.NDArray[np.uint8]]:
    """Returns an image's width and height, and its grey values, (SIDE * SIDE,)."""
    size = image.size
    image.draft("L", (4 * SIDE, 4 * SIDE))  # JPEGs are decoded at that size at least, in less time
    grey = upright_rgb(image).convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    return size, np.asarray(grey).reshape(-1)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).hexdigest().encode()


def content_digests(name: str, files: Sequence[Path]) -> npt.NDArray[np.bytes_]:
    """Returns a digest of each file's bytes, (n,), from the cache if they were read before."""

    def read(file: Path) -> bytes:
        check_regular(file)
        return _digest(file.read_bytes())

    def make() -> npt.NDArray[np.bytes_]:
        return np.array(list(in_threads(read, files, f"reading {name}")), "S32")

    return cached(f"{name}-contents", files, (len(files),), "S32", make)


def median_side(rows: Rows) -> int:
    """Returns the median of the images' shorter sides, in pixels."""
    return round(float(np.median(rows["size"].min(1))))


# ---- Near copies ---------------------------------------------------------------------------------


def near_copies(train: Rows, evaluated: Rows) -> tuple[list[tuple[int, int]], int]:
    """Returns near-identical images, and how many of those to evaluate on were compared.

    A pair is the index of an image to evaluate on and of one to train on. Images are compared as
    small grey thumbnails, stretched to a square. Of more than `MAX_COMPARED` images every k-th one
    to evaluate on is compared with all to train on; files of the same content are found anyway.
    """
    count = len(evaluated)
    if len(train) + count > MAX_COMPARED:
        count = min(count, max(1, (MAX_COMPARED // 2) ** 2 // len(train)))
    first = {content: k for k, content in reversed([*enumerate(train["content"].tolist())])}
    contents = enumerate(evaluated["content"].tolist())
    found = {k: first[content] for k, content in contents if content in first}
    sample = np.arange(count) * len(evaluated) // max(count, 1)
    for some in np.array_split(sample, -(-count // _BLOCK) or 1):
        theirs = evaluated["thumbnail"][some].astype(np.float64)
        lowest, nearest = np.full(len(some), np.inf), np.zeros(len(some), np.int64)
        for start in range(0, len(train), _TRAIN_BLOCK):
            ours = train["thumbnail"][start : start + _TRAIN_BLOCK].astype(np.float64)
            squares = np.square(theirs).sum(1)[:, None] + np.square(ours).sum(1)
            squares -= 2 * theirs @ ours.T
            closer = squares.min(1) < lowest
            nearest = np.where(closer, start + squares.argmin(1), nearest)
            lowest = np.where(closer, squares.min(1), lowest)
        for k in np.flatnonzero(lowest <= SIDE**2 * TOLERANCE**2).tolist():
            found.setdefault(int(some[k]), int(nearest[k]))
    return sorted(found.items()), count
