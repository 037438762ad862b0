"""Tasks on this machine: in this process, or in several that it starts."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any

from comixup.lab._progress import Progress
from comixup.lab._tasks import (
    REFRESH_SECONDS,
    STOP_SECONDS,
    Done,
    Executor,
    LostError,
    Task,
    TellOf,
    call_task,
    set_threads,
)


class Inline(Executor):
    """Runs a task in this process, when its result is asked for."""

    def __init__(self, cpus: int | None) -> None:
        self.task: Task | None = None
        if cpus is not None:
            set_threads(cpus)

    @property
    def full(self) -> bool:
        return self.task is not None

    def start(self, task: Task, attempt: int) -> None:
        self.task = task

    def results(self, tell: TellOf) -> list[Done]:
        task, self.task = self.task, None
        if task is None:
            return []
        try:
            return [
                Done(task.key, task.call(lambda said: tell(task.key, "", said), *task.arguments))
            ]
        except Exception as error:
            if getattr(error, "signal_number", None) is not None:  # the user stopped it: all stop
                raise
            return [Done(task.key, error=error)]


class Processes(Executor):
    """Runs tasks in processes of this machine: one pool for each, so that one may be killed."""

    def __init__(self, count: int, cpus: int | None, gpus: float | None) -> None:
        self.gpus = _shares_of_gpus(count, gpus)
        cores = int(os.environ.get("OMP_NUM_THREADS", "0").partition(",")[0])
        self.threads = cpus or cores or max(1, (os.cpu_count() or 1) // count)
        self.idle = list(reversed(range(count)))
        self.pools: dict[int, tuple[ProcessPoolExecutor, Connection, Future[int]]] = {}
        self.running: dict[Future[Any], tuple[str, int]] = {}

    @property
    def full(self) -> bool:
        return not self.idle

    def start(self, task: Task, attempt: int) -> None:
        number = self.idle.pop()
        if number not in self.pools:
            reader, writer = multiprocessing.Pipe(duplex=False)
            pool = ProcessPoolExecutor(
                1,
                multiprocessing.get_context("spawn"),
                _begin,
                (writer, self.gpus[number], self.threads, sys.argv),
            )
            self.pools[number] = pool, reader, pool.submit(os.getpid)
        future = self.pools[number][0].submit(_perform, task, attempt)
        self.running[future] = task.key, number

    def results(self, tell: TellOf) -> list[Done]:
        finished = wait(self.running, REFRESH_SECONDS, FIRST_COMPLETED).done
        for _, reader, _ in self.pools.values():
            with contextlib.suppress(EOFError, OSError):
                while reader.poll():
                    key, said = reader.recv()
                    tell(key, "", said)
        done = []
        for future in finished:
            key, number = self.running.pop(future)
            self.idle.append(number)
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                pool, reader, _ = self.pools.pop(number)
                pool.shutdown()
                reader.close()
                error = LostError("its process was killed")
            if error is not None and not isinstance(error, Exception):
                raise error
            done.append(Done(key, None if error else future.result(), error))
        return done

    def __exit__(self, *error: object) -> None:
        try:
            self._signal(signal.SIGTERM)  # runs save, and stop
            wait(self.running, STOP_SECONDS)
        finally:
            self._signal(signal.SIGKILL)
            for pool, reader, _pid in self.pools.values():
                pool.shutdown(cancel_futures=True)
                reader.close()

    def _signal(self, number: int) -> None:
        """Sends a signal to the processes whose tasks are not done."""
        for future, (_, slot) in self.running.items():
            if not future.done():
                # A process that has just been started is waited for; one may have died meanwhile.
                with contextlib.suppress(BrokenProcessPool, ProcessLookupError):
                    os.kill(self.pools[slot][2].result(), number)


_writer: Connection | None = None
"""Of a process of `here:N`: to the one that started it."""


def _begin(writer: Connection, gpu: str | None, threads: int, command: list[str]) -> None:
    """Sets up a process of `here:N`."""
    global _writer
    _writer, sys.argv = writer, command  # which a run's metadata repeat
    if hasattr(os, "setsid"):  # Ctrl-C is for the parent, which passes it on
        os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # before CUDA is first used
    set_threads(threads)


def _end_with_parent() -> None:
    """Ends a process of `here:N` whose parent was killed: nobody would ever end it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _perform(task: Task, attempt: int) -> Any:
    """Runs a task in a process of `here:N`."""

    def tell(said: Progress | str) -> None:
        assert _writer is not None
        _writer.send((task.key, said))

    return call_task(task, attempt, tell)


def _shares_of_gpus(processes: int, share: float | None) -> list[str | None]:
    """Returns the GPU of each process, in words of CUDA_VISIBLE_DEVICES; None where there is none.

    Args:
        processes: how many share those of this machine.
        share: of a GPU for each of them; None shares them out whatever there are.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        import torch  # noqa: PLC0415 - slow to import

        gpus = [str(k) for k in range(torch.cuda.device_count())]
    else:
        gpus = [word for word in named.split(",") if word]
    if share == 0:
        return [""] * processes
    if share is not None and (share > 1 or processes > int(1 / share) * len(gpus)):
        raise ValueError(
            f"`gpus` must be at most 1, and leave a share to each process of here:{processes}, got "
            f"{share:g} of {len(gpus)} GPUs. Start fewer processes, or leave --gpus out."
        )
    return [gpus[k % len(gpus)] if gpus else None for k in range(processes)]
