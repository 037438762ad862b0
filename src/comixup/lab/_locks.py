"""Locks: a folder belongs to one process, and to one thread of it; a process trains one run."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from comixup._atomic_write import not_writable

_FILE = "lock"
_RETRY_SECONDS = 0.05

_guard = threading.Lock()
_held: set[tuple[int, int]] = set()
"""Device and inode of the folders that threads of this process hold.

Locks of files exclude other processes only, and closing any descriptor of a file gives up the
process's lock on it: a folder is looked up here before its lock file is opened.
"""
_directories: set[int] = set()
"""Descriptors of those folders."""
_training = threading.Lock()


class _InUseError(Exception):
    """The folder is locked."""


@contextlib.contextmanager
def locked(folder: Path, *, wait_seconds: float = 0.0) -> Iterator[None]:
    """Holds a folder for this thread of this process; others that want it get an error message.

    The system releases the lock when the process ends, however it ends. A lock file that is left
    behind locks nothing, and one that is deleted while its folder is held lets nobody in.

    Args:
        folder: created if need be.
        wait_seconds: for how long to try.
    """
    end = time.monotonic() + wait_seconds
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(_held_folder(folder))
                break
            except OSError as error:
                raise not_writable(folder, error) from error
            except _InUseError:
                if time.monotonic() >= end:
                    raise ValueError(
                        f"`folder` must not be in use, but another process (or thread) is working "
                        f"in {folder}. Wait for it, or choose another folder with --out."
                    ) from None
                time.sleep(_RETRY_SECONDS)
        yield


@contextlib.contextmanager
def held_if_free(folder: Path) -> Iterator[bool]:
    """Holds a folder like `locked`, unless another holds it already; yields whether it is held.

    Args:
        folder: created if need be.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_held_folder(folder))
            held = True
        except _InUseError:
            held = False
        except OSError as error:
            raise not_writable(folder, error) from error
        yield held


@contextlib.contextmanager
def _held_folder(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    found = folder.stat()
    key = (found.st_dev, found.st_ino)
    with _guard:
        if key in _held:
            raise _InUseError
        _held.add(key)
    try:
        with _held_directory(folder), (folder / _FILE).open("a+") as file:
            _lock(file.fileno())
            yield
    finally:
        with _guard:
            _held.discard(key)


@contextlib.contextmanager
def _held_directory(folder: Path) -> Iterator[None]:
    """Holds the folder itself, where the system can: its lock file may be deleted meanwhile."""
    if sys.platform == "win32":  # where a file that is open cannot be deleted
        yield
        return
    import fcntl  # noqa: PLC0415

    descriptor = os.open(folder, os.O_RDONLY)
    _directories.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _InUseError from None
        except OSError:  # network file systems lock files alone, so that the lock file has to do
            pass
        yield
    finally:
        if descriptor in _directories:  # not in a fork, which has closed it
            _directories.discard(descriptor)
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415

            # Processes that read images are forks of this one. They would hold a lock of
            # `flock`'s for some seconds more than this process lives, if it is killed; they never
            # hold these.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):  # systems differ in which
            raise _InUseError from None
        raise


@contextlib.contextmanager
def sole_training() -> Iterator[None]:
    """Raises `RuntimeError` if another thread of this process is training.

    Threads share torch's random numbers: neither run would be what its seed says.
    """
    training = _training
    if not training.acquire(blocking=False):
        raise RuntimeError(
            "`train` must be called by one thread of a process at a time, got a second call: "
            "threads share torch's random numbers, and so would the runs. Use a process for each."
        )
    try:
        yield
    finally:
        training.release()


def _forget() -> None:
    """Makes a forked process hold nothing, as the system does with its locks."""
    global _guard, _training
    _guard, _training = threading.Lock(), threading.Lock()
    _held.clear()
    for descriptor in _directories:  # or else these locks would outlive the process that forked
        os.close(descriptor)
    _directories.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
