"""Atomic writes: a kill or a full disk leaves the old file intact."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_THREADS = threading.Lock()
"""File locks exclude other processes; this lock excludes other threads of this process."""


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error) from error


def not_writable(folder: Path, error: OSError) -> OSError:
    """Returns the error to raise for a folder that cannot be written to."""
    return OSError(
        f"`folder` must be one that can be written to, but {folder} is not "
        f"({error.strerror or error}). Choose another with --out."
    )


def atomic_write(path: Path, content: bytes | str) -> None:
    """Replaces a file atomically: readers see either the old content or the new.

    The next writer replaces what a killed process left half-written. Processes and threads that
    write the same file at the same time wait for each other.
    """
    data = content.encode() if isinstance(content, str) else content
    partial = path.with_name(f".{path.name}.partial")
    try:
        with _THREADS, _sole_writer(partial) as file:
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                if sys.platform == "win32":  # cannot rename open files
                    file.close()
                partial.replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    partial.unlink()
                raise
    except OSError as error:
        raise OSError(
            f"{path} could not be written ({error.strerror or error}); the old file is "
            "unchanged. Make room (or fix what is wrong) and run the same command again: it "
            "resumes from the last checkpoint."
        ) from error
    if os.name == "posix":  # flush the directory entry too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def _sole_writer(path: Path) -> Iterator[IO[bytes]]:
    """Yields an empty file, locked until it is closed."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
            if sys.platform != "win32":
                import fcntl  # noqa: PLC0415

                fcntl.lockf(file, fcntl.LOCK_EX)
                if not _is_at(file, path):  # the previous holder of the lock renamed or deleted it
                    continue
            if os.fstat(file.fileno()).st_size:
                file.truncate(0)
            yield file
            return


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
