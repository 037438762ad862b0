"""Where a run takes place: devices, processes, precision."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

from lightning_fabric import Fabric
from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver

from comixup._checks import check_choice, check_count

WORKERS = min(4, os.cpu_count() or 1)
"""Processes that read images, where nothing else is asked for."""
_STRATEGIES = ("auto", "ddp")
_LAST_WORDS_SECONDS = 30.0
"""A process notices that another has gone when their next exchange fails, so within a step."""


class TrainingStopped(RuntimeError):  # noqa: N818 - the run is sound, and goes on when asked
    """A run ended before its time for a reason that a sentence explains; it can be resumed."""


@dataclass(frozen=True)
class Hardware:
    """What a run is trained on. None of it belongs to the recipe: a run may go on elsewhere.

    Attributes:
        accelerator: "auto", "cpu", "cuda" or "mps".
        devices: processes on this machine, each with a device and a share of every batch.
        num_nodes: machines.
        strategy: how processes train together, in Lightning Fabric's words: "auto" or "ddp".
        precision: "32-true", "16-mixed", "bf16-mixed", ... in Lightning Fabric's words.
        accumulate: parts that each process cuts its share of a batch into, one after the other.
            Parts are mixed and normalised each by itself, like the shares of processes.
        workers: processes that read images, for data sets that stay on the disk.
    """

    accelerator: str = "auto"
    devices: int = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    accumulate: int = 1
    workers: int = WORKERS

    def __post_init__(self) -> None:
        for name in ("devices", "num_nodes", "accumulate"):
            check_count(name, getattr(self, name))
        check_count("workers", self.workers, low=0)
        # Sharded strategies part a network's weights among devices. The networks of the recipes
        # have at most 26 million: each device holds them many times over.
        check_choice("strategy", self.strategy, _STRATEGIES)

    def fabric(self) -> Fabric:
        """Returns a Fabric, launched: from here on there are as many processes as asked for."""
        logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
        fabric = Fabric(
            accelerator=self.accelerator,
            devices=self.devices,
            num_nodes=self.num_nodes,
            strategy=self.strategy,
            precision=self.precision,  # type: ignore[arg-type]
        )
        fabric.launch()
        _let_processes_speak()
        return fabric


def _let_processes_speak() -> None:
    """Gives processes time to say why they stop, once another has gone.

    Fabric looks every five seconds whether one has gone and then kills all others: one that is
    about to say so perhaps among them. What hangs is still killed, a little later.
    """
    for thread in threading.enumerate():
        if isinstance(thread, _ChildProcessObserver):
            kill = thread._terminate_all

            def wait_and_kill(kill: Callable[[], None] = kill) -> None:
                time.sleep(_LAST_WORDS_SECONDS)
                kill()

            thread._terminate_all = wait_and_kill  # type: ignore[method-assign]


class StopRequest:
    """Remembers Ctrl-C or a termination signal, so that a step under way can end first."""

    def __init__(self) -> None:
        self.made = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.made:  # asked twice: at once
            raise KeyboardInterrupt
        self.made = True

    @contextlib.contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Takes the place of the usual handlers for a while, in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._note) for number in numbers}
        try:
            yield self
        except KeyboardInterrupt:
            raise TrainingStopped(
                "Stopped at once. The same command goes on from the last checkpoint."
            ) from None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
