"""`comixup check`: its checks on the CPU, what they notice, and the report."""

import warnings

import pytest
import torch

from comixup import Labelling, selfcheck
from comixup.selfcheck import _checks, _report
from rejections import rejects

CPU = torch.device("cpu")
QUICK = [
    "mixing equals the CPU's",
    "saliency equals the CPU's",
    "one-pass maps equal the CPU's",
    "mixed precision",
    "channels_last",
]
LONG = ["torch.compile", "two processes"]


def test_every_check_is_run_here():
    assert {*QUICK, *LONG, "no hidden synchronization"} == set(selfcheck.CHECKS)


@pytest.mark.parametrize("name", QUICK)
def test_passes_on_the_cpu(name):
    outcome = _report.run_check(name, CPU)
    assert outcome.status == "passed", outcome.detail


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
@pytest.mark.filterwarnings("default")  # of compilers
def test_compilers_and_processes_on_the_cpu(name):
    torch._dynamo.reset()
    outcome = _report.run_check(name, CPU)
    assert outcome.status == "passed", outcome.detail


def test_what_a_device_cannot_run_is_told():
    outcome = _report.run_check("no hidden synchronization", CPU)
    assert (outcome.status, outcome.detail) == ("not run", "CUDA alone reports when the host waits")
    other = _report.run_check("mixed precision", torch.device("meta"))
    assert other.status == "not run"


class TestNotices:
    """A device that computes something else: here the CPU, from the second call on."""

    @pytest.fixture
    def second_time(self, monkeypatch):
        def patch(owner, name, change):
            original, calls = getattr(owner, name), []

            def changed(*args, **settings):
                calls.append(None)
                found = original(*args, **settings)
                return found if len(calls) % 2 else change(found)

            monkeypatch.setattr(owner, name, changed)

        return patch

    @pytest.mark.parametrize("check", ["mixing equals the CPU's", "channels_last"])
    def test_other_images(self, second_time, check):
        second_time(Labelling, "mix_images", lambda images: images + 1e-3)
        outcome = _report.run_check(check, CPU)
        assert outcome.status == "FAILED"
        assert "CoMixup's images differ by 0.001" in outcome.detail

    def test_other_masks(self, second_time):
        second_time(Labelling, "mix_masks", lambda masks: masks + 1)
        outcome = _report.run_check("mixing equals the CPU's", CPU)
        assert outcome.status == "FAILED"
        assert "masks differ by" in outcome.detail

    def test_other_saliency(self, second_time):
        second_time(_checks, "saliency", lambda maps: maps * 1.01)
        outcome = _report.run_check("saliency equals the CPU's", CPU)
        assert outcome.status == "FAILED"
        assert "saliency maps differ by" in outcome.detail

    def test_gradients_that_are_not_scaled_alike(self, second_time):
        second_time(_checks, "gradients", lambda vector: 2 * vector)
        outcome = _report.run_check("mixed precision", CPU)
        assert outcome.status == "FAILED"
        assert "gradients differ by" in outcome.detail


def test_waiting_is_counted_and_the_mode_is_put_back(monkeypatch):
    # As CUDA reports it; the numbers of a real device are in the tests marked `cuda`.
    modes = []
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def call():
        for _ in range(3):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("something else", stacklevel=1)

    assert _checks._waits(call) == 3
    assert modes == ["warn", 0]


def test_times_are_of_everything_named(monkeypatch):
    monkeypatch.setattr(_report, "_BATCH", 4)
    monkeypatch.setattr(_report, "_WARM_UP", 0)
    times = _report.step_times(CPU, repeats=1)
    assert next(iter(times)) == "step without mixing"
    assert len(times) == 5
    assert all(value > 0 for value in times.values())


def test_costs_are_told_relative_to_a_plain_step_and_to_cutmix():
    times = {"step without mixing": 2.0, "step with CutMix": 3.0, "step with CoMixup": 6.0}
    lines = _report.Report(["a machine"], times=times).text().splitlines()
    assert lines[7].split() == ["step", "with", "CoMixup", "6.00", "3.00", "2.00", "-"]
    assert "not measured" in lines[8]
    told = _report.Report(["a machine"], times=times, memory={"step with CoMixup": 12.5}).text()
    assert told.splitlines()[7].endswith(" 12.5")
    assert "not measured" not in told


def test_memory_is_counted_by_cuda_alone():
    assert _report.peak_memory(CPU) == {}


class TestReport:
    def test_has_versions_outcomes_and_counts(self):
        seen = []
        report = selfcheck.check_device(CPU, ["channels_last"], seen.append)
        text = report.text()
        assert f"torch {torch.__version__}" in text
        assert "passed   channels_last" in text
        assert "1 passed, 0 failed, 0 not run" in text
        assert not report.failed
        assert seen == [1]

    def test_an_unknown_check_is_rejected(self):
        with rejects(ValueError, "`only` must name checks, .* got 'channel_last'. Did you mean"):
            selfcheck.check_device(CPU, ["channel_last"])


class TestCommand:
    def test_prints_and_writes_the_report(self, called, tmp_path):
        file = tmp_path / "report.txt"
        command = ("check", "--device", "cpu", "--only", "channels_last", "--out", str(file))
        code, out, _ = called(*command)
        assert code == 0
        assert "passed   channels_last" in file.read_text(encoding="utf-8")
        assert "passed   channels_last" in out
        assert "device cpu" in out

    def test_exits_with_1_if_a_check_failed(self, called, monkeypatch):
        def broken(device):
            raise _checks.CheckError("images differ by 0.5, more than 1e-06")

        monkeypatch.setitem(selfcheck.CHECKS, "channels_last", broken)
        code, out, _ = called("check", "--device", "cpu", "--only", "channels_last")
        assert code == 1
        assert "FAILED   channels_last" in out
        assert "images differ by 0.5" in out

    def test_rejects_a_device_that_is_not_there(self, called):
        code, _, said = called("check", "--device", "cuda:99")
        assert code == 1
        assert "`--device` must be one that torch can compute on here" in said
