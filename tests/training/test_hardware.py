"""Devices, processes, and requests to stop."""

import os
import signal
import threading

import pytest
from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver

from comixup.training import Hardware, TrainingStopped
from comixup.training import _hardware as hardware_module
from comixup.training._hardware import StopRequest


@pytest.mark.parametrize("name", ["devices", "num_nodes", "accumulate"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
def test_counts_are_positive(name, value):
    with pytest.raises((ValueError, TypeError), match=f"`{name}` must be"):
        Hardware(**{name: value})


def test_workers_may_be_none_at_all():
    assert Hardware(workers=0).workers == 0
    with pytest.raises(ValueError, match="`workers` must be"):
        Hardware(workers=-1)


def test_strategies_that_shard_are_refused():
    with pytest.raises(ValueError, match="`strategy` must be one of"):
        Hardware(strategy="fsdp")


def test_a_fabric_on_the_cpu():
    fabric = Hardware(accelerator="cpu").fabric()
    assert (fabric.world_size, fabric.device.type) == (1, "cpu")
    assert fabric.is_global_zero


def test_processes_have_time_to_say_why_they_stop(monkeypatch):
    # A real observer of no process, whose kill would be this process's own.
    order, own_period = [], 60
    observer = _ChildProcessObserver(os.getpid(), [], own_period)
    observer._terminate_all = lambda: order.append("kill")
    observer.start()
    monkeypatch.setattr(hardware_module, "_LAST_WORDS_SECONDS", 12.5)
    monkeypatch.setattr(hardware_module.time, "sleep", order.append)
    hardware_module._let_processes_speak()
    observer._terminate_all()
    assert [entry for entry in order if entry != own_period] == [12.5, "kill"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_noted_and_the_second_obeyed(number):
    before = signal.getsignal(number)
    request, seen = StopRequest(), []
    stopped = pytest.raises(TrainingStopped, match="Stopped at once")
    with stopped as caught, request.listening():
        for _ in range(2):
            signal.raise_signal(number)
            seen.append(request.made)
    assert seen == [True]
    assert caught.value.__cause__ is None
    assert signal.getsignal(number) is before


def test_other_errors_pass_and_handlers_come_back():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), StopRequest().listening():
        _ = 1 / (signal.getsignal(signal.SIGINT) is before)
    assert signal.getsignal(signal.SIGINT) is before


def test_threads_other_than_the_main_one_leave_signals_alone():
    seen = []

    def look():
        with StopRequest().listening() as stop:
            seen.append((stop.made, signal.getsignal(signal.SIGINT)))

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [(False, before)]
