"""Many tasks on one machine or on a cluster: the one way in which several runs are trained.

A task calls a function in a process of its own choosing: this one (`here:1`), one of several that
are started on this machine (`here:N`), or one on any machine of a Ray cluster (`ray`). What a task
returns does not depend on where it runs. `_tasks` has the loop that all of them share, `_here` and
`_ray` what differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from comixup._checks import check_count, check_number
from comixup.lab._here import Inline, Processes
from comixup.lab._progress import Board
from comixup.lab._ray import RayTasks
from comixup.lab._tasks import Done, Executor, Task, run_tasks

if TYPE_CHECKING:
    from rich.console import Console

HERE = "here:1"
MAX_PROCESSES = 1024
MAX_GPUS = 1024


@dataclass(frozen=True)
class Cluster:
    """Where tasks run.

    Attributes:
        cluster: "here:N" for N processes of this machine, which share its GPUs; "ray" for the Ray
            cluster that this machine belongs to, or else one on this machine alone; "ray:HOST:PORT"
            for another.
        cpus: cores, and so threads, of each task. By default the cores of this machine divided by
            N, and 1 with Ray.
        gpus: GPUs of each task that trains: 1, or a fraction to let several share one. By default
            the N processes share those of this machine, and with Ray each has one if there are any.
    """

    cluster: str = HERE
    cpus: int | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        kind, _, rest = self.cluster.partition(":")
        plain = rest.isascii() and rest.isdigit()
        if not ((kind == "here" and (plain or not rest)) or kind == "ray"):
            raise ValueError(
                "`cluster` must be here:N, ray or ray:HOST:PORT, got "
                f"{self.cluster[:200]!r}. For instance here:2 for two processes of this machine."
            )
        if kind == "here":
            check_count("cluster", int(rest or 1), high=MAX_PROCESSES)
        if self.cpus is not None:
            check_count("cpus", self.cpus, high=MAX_PROCESSES)
        if self.gpus is not None:
            check_number("gpus", self.gpus, high=MAX_GPUS)
            if self.inline:
                raise ValueError(
                    f"`gpus` must be left out with here:1, got {self.gpus:g}: its runs take the "
                    "device of --accelerator. Start several processes with --cluster here:N."
                )

    @property
    def processes(self) -> int | None:
        """How many are started on this machine; None with Ray."""
        kind, _, rest = self.cluster.partition(":")
        return int(rest or 1) if kind == "here" else None

    @property
    def inline(self) -> bool:
        """Whether tasks run in this process, one by one."""
        return self.processes == 1

    def run(
        self, tasks: Sequence[Task], console: Console | None = None, folder: Path | None = None
    ) -> Iterator[Done]:
        """Yields what becomes of each task, as they come.

        Those that fail or need one that failed are yielded with their error, and the others go on.
        Closing the iterator, or Ctrl-C, stops all tasks.

        Args:
            tasks: what to run.
            console: where to tell how far they are; None is silent.
            folder: what they write to; all machines have to see it.
        """
        keys = [task.key for task in tasks]
        with self._executor(folder) as executor, Board(console, keys) as board:
            yield from run_tasks(tasks, executor, board)

    def train_together(
        self,
        task: Task,
        devices: int,
        nodes: int,
        minutes: float,
        folder: Path,
        console: Console | None = None,
    ) -> None:
        """Calls a task in many processes at once, by Ray Train: one run on several machines.

        They start together, find each other as those of torchrun do, and all start again when one
        is lost; the task goes on from its last checkpoint.

        Args:
            task: what each of them calls.
            devices: processes on each machine.
            nodes: machines.
            minutes: after which a process that does not answer counts as lost.
            folder: what the task writes to; all machines have to see it.
            console: where to tell how far the first process is; None is silent.
        """
        with self._on_ray(folder) as executor, Board(console, [task.key]) as board:
            executor.train_together(task, devices, nodes, minutes, folder, board.tell)

    def _executor(self, folder: Path | None) -> Executor:
        if self.inline:
            return Inline(self.cpus)
        if self.processes:
            return Processes(self.processes, self.cpus, self.gpus)
        return self._on_ray(folder)

    def _on_ray(self, folder: Path | None) -> RayTasks:
        return RayTasks(self.cluster.partition(":")[2], self.cpus, self.gpus, folder)
