"""Memory that a training process keeps after freeing it."""

import ctypes
import os
import subprocess
import sys

import pytest

from comixup.training._allocator import keep_freed_memory

COUNT = """
import resource, torch
from comixup.training._allocator import keep_freed_memory
assert {keep} is False or keep_freed_memory()
def allocate():
    first = torch.ones(2_500_000)  # 10 MB: more than glibc keeps
    second = (first + 1) * 2
    del first
    return second.relu().sum()
for _ in range(5):
    allocate()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    allocate()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep):
    environment = {k: v for k, v in os.environ.items() if k not in ("GLIBC_TUNABLES", "LD_PRELOAD")}
    command = [sys.executable, "-c", COUNT.format(keep=keep)]
    return int(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has none")
def test_pages_are_not_asked_for_again():
    assert faults(keep=True) < 0.1 * faults(keep=False)


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
