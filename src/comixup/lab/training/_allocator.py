"""Keeping freed memory: on CPUs a training step otherwise asks the system for its pages again.

glibc gives large blocks back as soon as they are freed, and every page of a new block has to be
cleared by the system before its first use. A step allocates the same activations as the one before:
a small network on CIFAR spends a quarter of its time on that (`benchmarks/allocator.py`).
"""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
"""Parameters of glibc's `mallopt`."""
_NEVER = 2**31 - 1
_LARGE_BLOCK = 2**30
"""Blocks below this are taken from memory that stays with the process."""
_TOP_PAD = 2**27
"""Bytes that are asked for beyond what is needed."""
_OF_THE_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD")


def keep_freed_memory() -> bool:
    """Lets this process keep memory that it has freed; returns whether that was possible.

    Where the C library is not glibc, or the user has chosen its settings or another allocator,
    nothing is changed.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _OF_THE_USER):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl has none
        return False
    settings = {
        _M_MMAP_THRESHOLD: _LARGE_BLOCK,
        _M_TRIM_THRESHOLD: _NEVER,
        _M_TOP_PAD: _TOP_PAD,
    }
    return all([mallopt(name, value) == 1 for name, value in settings.items()])
