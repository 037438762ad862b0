"""Exclusive per-folder locks, and a lock that allows one training per process."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from comixup._atomic_write import not_writable

_FILE = "lock"
_training = threading.Lock()


class InUseError(ValueError):
    """A folder is locked by another process or thread."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks a folder for this thread; other threads and processes get an error.

    The system releases the lock when the process ends, in any way. A leftover lock file locks
    nothing.

    Args:
        folder: the folder; created if it does not exist.
    """
    lock = FileLock(folder / _FILE, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise InUseError(
            f"`folder` must not be in use, but another process (or thread) is working in {folder}. "
            "Wait for it, or choose another folder with --out."
        ) from None
    except OSError as error:
        raise not_writable(folder, error) from error
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def sole_training() -> Iterator[None]:
    """Raises `RuntimeError` if another thread of this process is training.

    Threads share torch's global generator: neither run would be determined by its seed.
    """
    training = _training
    if not training.acquire(blocking=False):
        raise RuntimeError(
            "`train` must be called by one thread of a process at a time, got a second call: "
            "threads share torch's global generator. Use a process for each."
        )
    try:
        yield
    finally:
        training.release()


def _forget() -> None:
    """Clears the lock in a forked process: the training thread is in the parent."""
    global _training  # noqa: PLW0603
    _training = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
