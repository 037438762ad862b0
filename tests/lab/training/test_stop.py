"""Requests to stop, by Ctrl-C or a termination signal."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time

import pytest

from comixup.lab.training import TrainingStopped, _stop
from comixup.lab.training._stop import StopRequest
from small_runs import WAIT_SECONDS, processes


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
    assert caught.value.signal_number == number
    assert signal.getsignal(number) is before


def test_an_error_after_a_request_is_the_request_s():
    # Such as that of a collective, because another process has stopped already.
    def stop_and_fail():
        signal.raise_signal(signal.SIGTERM)
        raise RuntimeError("connection closed by peer")

    with pytest.raises(TrainingStopped) as caught, StopRequest().listening():
        stop_and_fail()
    assert caught.value.signal_number == signal.SIGTERM
    assert "connection closed" in str(caught.value.__cause__)


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


def test_nothing_is_left_behind():
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with StopRequest().listening() as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop.made
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) == descriptors
    assert signal.set_wakeup_fd(-1) == -1


def stop_with_a_worker(pipe, number):
    """Is asked to stop, together with a process that was forked meanwhile, and tells of both."""
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    with contextlib.suppress(ValueError), StopRequest().listening() as stop:
        worker.start()
        time.sleep(0.5)
        os.kill(worker.pid, signal.SIGINT)  # as Ctrl-C does
        os.kill(os.getpid(), number)
        time.sleep(0.5)
        pipe.send((stop.signal_number, worker.is_alive()))
        raise ValueError("stopped")
    pipe.send("left")
    worker.terminate()
    worker.join(WAIT_SECONDS)
    pipe.send(worker.exitcode)


def test_worker_processes_do_not_keep_a_run_from_stopping():
    number = signal.SIGINT
    mine, its = processes.Pipe()
    process = processes.Process(target=stop_with_a_worker, args=(its, number))
    process.start()
    told = [mine.recv() if mine.poll(WAIT_SECONDS) else "nothing" for _ in range(3)]
    process.kill()
    assert told == [(number, True), "left", -signal.SIGTERM]


def wait_outside_of_python(pipe):
    """Waits in a call that is resumed after signals, so that Python's handlers do not run."""
    import ctypes  # noqa: PLC0415

    _stop._GRACE_SECONDS = 0.2
    lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
    with StopRequest().listening():
        pipe.send("listening")
        for _ in range(2):
            lock(mutex)


def test_a_process_that_cannot_react_ends_at_the_second_request():
    mine, its = processes.Pipe()
    process = processes.Process(target=wait_outside_of_python, args=(its,))
    process.start()
    assert mine.poll(WAIT_SECONDS)
    assert mine.recv() == "listening"
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    process.join(1)
    assert process.exitcode is None  # a step under way may end first
    os.kill(process.pid, signal.SIGTERM)
    process.join(WAIT_SECONDS)
    assert process.exitcode == 128 + signal.SIGTERM
