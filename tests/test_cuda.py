"""The checks of `comixup check` on CUDA: `pytest -m cuda`, deselected by default.

They fail, never skip, where there is no CUDA: who asks for them is to know that nothing was tested.
This project's own machines have none, so nobody has seen them pass.
"""

from pathlib import Path

import pytest
import torch

from comixup import selfcheck
from comixup.selfcheck import _report

CUDA = torch.device("cuda")


@pytest.mark.cuda
@pytest.mark.parametrize("name", [name for name in selfcheck.CHECKS if name != "two processes"])
@pytest.mark.filterwarnings("default")  # of compilers
def test_passes_on_cuda(name):
    outcome = _report.run_check(name, CUDA)
    assert outcome.status == "passed", outcome.detail


@pytest.mark.cuda
def test_two_processes_on_two_devices():
    outcome = _report.run_check("two processes", CUDA)
    expected = "passed" if torch.cuda.device_count() > 1 else "not run"
    assert outcome.status == expected, outcome.detail


@pytest.mark.cuda
def test_costs_on_cuda():
    times, memory = _report.step_times(CUDA), _report.peak_memory(CUDA)
    assert times.keys() == memory.keys()
    assert all(value > 0 for value in (*times.values(), *memory.values()))


def test_they_are_deselected_by_default_and_fail_without_cuda():
    settings = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert settings.count("and not cuda") == 2  # plain pytest's, and that of the wheels
    if not torch.cuda.is_available():
        assert _report.run_check("channels_last", CUDA).status == "FAILED"
