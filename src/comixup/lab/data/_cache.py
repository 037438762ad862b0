"""Caches slow-to-compute arrays in the user's cache folder.

The folder is `comixup` in XDG_CACHE_HOME or else `~/.cache`, like torch's, unless COMIXUP_CACHE
names another; COMIXUP_CACHE=off disables the cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from comixup._checks import reason_of
from comixup.lab._image_files import check_regular, status_of

Array: TypeAlias = npt.NDArray[Any]

_OFF = "off"
_VERSION = 1
"""Version of the arrays' content: increment it when a reader changes."""
_CHUNK = 2**24
"""Bytes per update of a checksum."""
_UNFINISHED = ".part"
_STALE = 86_400.0
"""Age in seconds at which an unfinished file counts as left by a killed process."""


def cache_folder() -> Path | None:
    """Returns the cache folder; None if the cache is disabled."""
    named = os.environ.get("COMIXUP_CACHE")
    if named == _OFF:
        return None
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "comixup"


def cached(
    name: str,
    files: Sequence[Path],
    shape: tuple[int, ...],
    dtype: npt.DTypeLike,
    make: Callable[[], Array],
) -> Array:
    """Returns the array of `make`, from the cache if computed before from these files.

    The array is memory-mapped, copy-on-write. A damaged cache file is recomputed.

    Args:
        name: name of the data set; a newer array replaces older ones of the same name and folder.
        files: the source files, identified by names, sizes, times and inodes.
        shape: shape of the array.
        dtype: dtype of the array.
        make: computes the array.
    """
    stem = _stem(name, Path(os.path.commonpath(files)))
    key = f"{stem}-{_fingerprint(files)}"
    found = _find(key, shape, dtype)
    if found is not None:
        return found
    array = make()
    path = _keep(name, stem, key, array)
    try:
        return array if path is None else _read(path, shape, dtype)
    except (OSError, ValueError):
        # Another process has replaced it, or the disk is failing.
        return array


def cached_rows(name: str, place: Path, dtype: npt.DTypeLike) -> Array:
    """Returns the rows last cached for a folder or file, (n,); empty if there are none."""
    found = _find(_stem(name, place), None, dtype)
    return np.empty(0, dtype) if found is None else found


def keep_rows(name: str, place: Path, rows: Array) -> None:
    """Caches rows, (n,), for a folder or file, replacing earlier ones."""
    stem = _stem(name, place)
    _keep(name, stem, f"{stem}-{_checksum(rows)}", rows)


def file_stamp(file: str | bytes | Path) -> bytes:
    """Returns a stamp that changes when a file is replaced or modified, without reading it.

    Inode and change time distinguish swapped files of equal size and modification time.
    """
    status = status_of(file)
    numbers = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    return os.fsencode(file) + b"\0%d\0%d\0%d\0%d\0" % numbers


def _stem(name: str, place: Path) -> str:
    return f"{name}-{hashlib.sha256(os.fsencode(place)).hexdigest()[:12]}"


def _find(key: str, shape: tuple[int, ...] | None, dtype: npt.DTypeLike) -> Array | None:
    """Returns the array cached under a key; a shape of None allows any."""
    folder = cache_folder()
    for path in [] if folder is None else sorted(folder.glob(f"{key}-*.npy")):
        try:
            return _read(path, shape, dtype)
        except FileNotFoundError:
            continue  # replaced by another process
        # A damaged file can raise anything, MemoryError included.
        except Exception as error:
            warnings.warn(
                f"The cached file {path} is damaged: {reason_of(error)}. It is removed and made "
                "again.",
                stacklevel=3,
            )
        with contextlib.suppress(OSError):
            path.unlink()
    return None


def _keep(name: str, stem: str, key: str, array: Array) -> Path | None:
    """Caches an array and returns its file, removing older ones; None if not cached."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        path = _write(folder, key, array)
    except OSError as error:
        warnings.warn(
            f"The {name} data could not be cached in {folder}: {error}. They will be read again "
            "next time; let COMIXUP_CACHE name a folder with room, or set it to 'off'.",
            stacklevel=3,
        )
        return None
    _remove_older(folder, stem, key)
    return path


def _remove_older(folder: Path, stem: str, key: str) -> None:
    """Removes arrays of other source files, and leftovers of killed processes.

    Arrays of the same files stay, since another process may just have written one.
    """
    for older in folder.glob(f"{stem}-*.npy"):
        if not older.name.startswith(f"{key}-"):
            with contextlib.suppress(OSError):  # another process may be reading it
                older.unlink()
    for part in folder.glob(f"*{_UNFINISHED}"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > _STALE:
                part.unlink()


def _fingerprint(files: Sequence[Path]) -> str:
    digest = hashlib.sha256(f"{_VERSION}".encode())
    for file in files:
        digest.update(file_stamp(file))
    return digest.hexdigest()[:20]


def _checksum(array: Array) -> str:
    """Returns a checksum of an array, 8 hexadecimal digits; about a second per gigabyte."""
    data, value = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, 0
    for start in range(0, len(data), _CHUNK):
        value = zlib.crc32(data[start : start + _CHUNK], value)
    return f"{value:08x}"


def _write(folder: Path, key: str, array: Array) -> Path:
    """Writes an array atomically and returns its file."""
    folder.mkdir(parents=True, exist_ok=True)
    # The checksum is in the name, so that one rename publishes both.
    path = folder / f"{key}-{_checksum(array)}.npy"
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, np.ascontiguousarray(array), allow_pickle=False)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return path


def _read(path: Path, shape: tuple[int, ...] | None, dtype: npt.DTypeLike) -> Array:
    check_regular(path)
    with path.open("rb") as file:
        # The header is validated before its array is mapped; `np.load` might unpickle or unzip
        # instead.
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError("it is of another format")
        own, *kind = np.lib.format.read_array_header_1_0(file)
        if kind != [False, np.dtype(dtype)] or (len(own) != 1 if shape is None else own != shape):
            raise ValueError("it holds another array")
        # Copy-on-write: torch requires writable arrays.
        array: Array = np.memmap(file, dtype, mode="c", offset=file.tell(), shape=own)
    if _checksum(array) != path.stem.rpartition("-")[2]:
        raise ValueError("it holds other values")
    return array
