"""Copies between devices: what the host reads has arrived."""

import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch

import comixup
from comixup.core.memory import communicating_device
from comixup.core.tensors import to_device


@pytest.mark.parametrize(("device", "waits"), [("cpu", True), ("cuda", False), ("mps", False)])
def test_the_host_waits_for_its_copies(device, waits):
    values = torch.arange(3)
    with mock.patch.object(torch.Tensor, "to", autospec=True) as moved:
        to_device(values, device, torch.float32)
    moved.assert_called_once_with(torch.device(device), torch.float32, non_blocking=not waits)


def test_nobody_copies_without_waiting_by_other_means():
    package = Path(comixup.__file__).parent
    found = [path.name for path in package.rglob("*.py") if "non_blocking" in path.read_text()]
    assert found == ["tensors.py"]


@pytest.mark.parametrize(
    ("own", "backends", "expected"),
    [
        ("cpu", "cpu:gloo", "cpu"),
        ("cpu", "cpu:gloo,cuda:nccl", "cpu"),
        ("cpu", "cuda:nccl", "cuda"),
        ("cuda", "cuda:nccl", "cuda"),
        ("cuda:1", "cpu:gloo,cuda:gloo", "cuda:1"),
    ],
)
def test_processes_exchange_tensors_where_they_can(own, backends, expected):
    assert communicating_device(torch.device(own), backends) == torch.device(expected)


def test_everything_on_a_device_that_is_not_there():
    """See on_a_device.py, whose device is registered for the whole of a process."""
    tests = Path(__file__).with_name("on_a_device.py")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    own = {**os.environ, "COMIXUP_PRETEND_DEVICE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert "passed" in done.stdout
