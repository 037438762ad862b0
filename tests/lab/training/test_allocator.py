"""Memory that a training process keeps after freeing it."""

import ctypes
import os
import subprocess
import sys

import pytest

from comixup.lab.training._processes import keep_freed_memory

COUNT = """
import ctypes, resource, statistics
from comixup.lab.training._processes import keep_freed_memory
assert {keep} is False or keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [libc.malloc(10_000_000) for _ in range(12)]  # 120 MB: more than glibc keeps
    for block in blocks:
        libc.memset(block, 1, 10_000_000)
    for block in blocks:
        libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(statistics.median_low([faults() for _ in range(9)]))
"""


def faults(keep):
    environment = {k: v for k, v in os.environ.items() if k not in ("GLIBC_TUNABLES", "LD_PRELOAD")}
    command = [sys.executable, "-c", COUNT.format(keep=keep)]
    return int(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has none")
def test_pages_are_not_asked_for_again():
    # Whether glibc gives memory back depends on what lies above it: three chances.
    assert max(faults(keep=False) for _ in range(3)) > 10_000
    assert faults(keep=True) < 100


@pytest.mark.parametrize("name", ["GLIBC_TUNABLES", "MALLOC_TRIM_THRESHOLD_", "LD_PRELOAD"])
def test_settings_of_the_user_stay(name, monkeypatch):
    def fail(*_):
        pytest.fail("the allocator was touched")

    monkeypatch.setenv(name, "0")
    monkeypatch.setattr(ctypes, "CDLL", fail)
    assert keep_freed_memory() is False


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_freed_memory() is False
