"""Scans image files once: readability, content digest, near-duplicates.

Each file is read once, by several threads. Results are cached by path, size, times and inode.
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
"""Pixels per side of the compared gray thumbnails."""
TOLERANCE = 4.0
"""Root mean square difference of two thumbnails, in 8-bit levels: resaved and resized copies are
below, different images of one object above."""
MAX_COMPARED = 20_000
"""With more images, a sample of the evaluation images is compared, in as many pairs as of these."""
_ROW = np.dtype(
    [
        ("stamp", "S32"),
        ("content", "S32"),
        ("size", "<i4", (2,)),
        ("thumbnail", "u1", (SIDE * SIDE,)),
    ]
)
"""Digests of a file's path and times and of its content, its width and height, and gray values."""
NO_ROWS: Rows = np.empty(0, _ROW)
_BLOCK, _TRAIN_BLOCK = 1024, 16_384
"""Images to evaluate on and to train on that are compared at once: 130 MB."""
_LISTED = 50
"""Most damaged files that an error message lists; it counts the others."""
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
    """Returns the indices of readable files, a row for each, and messages on skipped files.

    Args:
        place: the folder or table that lists them, the key of their rows in the cache.
        files: the images.
        title: their description, for the progress bar and messages.
        skip_bad: skip unreadable files with a warning; otherwise they raise an error.
        size: required width and height of each image; None allows any.
        remedy: what to do about a damaged file.
    """
    with _lock(place):  # one of several processes reads the files, the others its cached rows
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
    """Returns a row for each file, and the error messages of unreadable ones."""
    known = cached_rows("scan", place, _ROW)
    index = {stamp: k for k, stamp in enumerate(known["stamp"].tolist())}
    rows, problems, unread = np.zeros(len(files), _ROW), dict[int, str](), list[int]()
    for k, file in enumerate(files):
        with contextlib.suppress(OSError):  # a broken link is reported when it is read
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
    """Returns an image's width and height, and its gray thumbnail, (SIDE * SIDE,)."""
    size = image.size
    image.draft("L", (4 * SIDE, 4 * SIDE))  # JPEGs are decoded faster at a reduced size
    grey = upright_rgb(image).convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
    return size, np.asarray(grey).reshape(-1)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).hexdigest().encode()


def content_digests(name: str, files: Sequence[Path]) -> npt.NDArray[np.bytes_]:
    """Returns a digest of each file's bytes, (n,), cached."""

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
    """Returns pairs of near-duplicates, and the number of evaluation images compared.

    A pair is the indices of an evaluation and a training image. Small square gray thumbnails are
    compared. With more than `MAX_COMPARED` images, only every k-th evaluation image is; identical
    files are always found.
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
