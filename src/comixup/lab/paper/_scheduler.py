"""Running jobs: one by one, side by side, or by several machines that share a folder.

Whoever runs a job holds the lock of its folder meanwhile, and writes its result as a whole at the
end. So any number of processes may work on the same output folder: each takes jobs that are neither
finished nor locked. If one is killed, the system releases its lock, and another takes the job up; a
training run resumes from its last checkpoint.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from rich.console import Console

from comixup._checks import check_count
from comixup.lab import training
from comixup.lab._locks import held_if_free
from comixup.lab.paper._jobs import Cost, Job, with_needed
from comixup.lab.paper._run_job import Workspace, run_job
from comixup.lab.paper._store import is_done, job_folder, write_result

POLL_SECONDS = 0.5
MAX_WORKERS = 1024
_SURE_SECONDS = 60.0
"""So long a time of work the estimates are trusted for: the first job waits for imports too."""
_MISTAKES = (ValueError, TypeError, OSError, ImportError, RuntimeError)
"""What missing data or a full disk raise: the other jobs are run all the same."""


@dataclass
class Outcome:
    """What became of jobs.

    Attributes:
        made: jobs that this call has run.
        elsewhere: jobs that another process is running.
        failed: why jobs failed, by key.
    """

    made: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def run_jobs(
    jobs: Sequence[Job],
    workspace: Workspace,
    *,
    workers: int = 1,
    shard: tuple[int, int] = (1, 1),
) -> Outcome:
    """Runs the jobs that are not done yet, and tells how far it is after each.

    Args:
        jobs: what to run; what they need is run too.
        workspace: where to.
        workers: processes that run jobs side by side.
        shard: (i, n): every n-th job from the i-th on, for clusters that start n such calls.
    """
    check_count("workers", workers, high=MAX_WORKERS)
    number, count = shard
    own = with_needed(with_needed(jobs)[number - 1 :: count])
    if workers == 1:
        return _make_here(own, workspace)
    return _make_in_processes(own, workspace, workers)


def shard_of(text: str) -> tuple[int, int]:
    """Returns (i, n) of a shard that is written i/n.

    >>> shard_of("2/8")
    (2, 8)
    """
    first, _, last = text.partition("/")
    if first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last):
        return int(first), int(last)
    raise ValueError(
        f"`--shard` must be i/n with 1 <= i <= n, got {text!r}. For instance 1/4 to 4/4 on four "
        "machines."
    )


def _make_here(jobs: Sequence[Job], workspace: Workspace) -> Outcome:
    """Runs jobs in this process."""
    outcome, progress = Outcome(), Progress(jobs, workspace)
    pending = list(jobs)
    while pending:
        waiting, took = [], False
        for job in pending:
            if is_done(workspace.out, job.key):
                continue
            missing = [n.key for n in job.needs if not is_done(workspace.out, n.key)]
            if any(key in outcome.failed for key in missing):
                outcome.failed[job.key] = f"it needs {missing[0]}, which could not be made"
            elif missing:
                waiting.append(job)  # for a job that another process is running
            elif _make_if_free(job, workspace, outcome):
                took = True
                progress.show(job.key)
            else:
                waiting.append(job)
        pending = waiting
        if not took and pending:
            if not _someone_makes_what_is_needed(pending, workspace.out):
                break
            time.sleep(POLL_SECONDS)
            _leave_if_orphaned()
    outcome.elsewhere = [job.key for job in pending if not is_done(workspace.out, job.key)]
    return outcome


def _make_if_free(job: Job, workspace: Workspace, outcome: Outcome) -> bool:
    """Runs a job unless another process holds it; returns whether it was free."""
    with held_if_free(job_folder(workspace.out, job.key)) as held:
        if not held:
            return False
        if is_done(workspace.out, job.key):  # between the first look and the lock
            return True
        try:
            made = run_job(job, workspace)
        except training.TrainingStopped as stopped:
            if stopped.signal_number is not None:
                raise
            outcome.failed[job.key] = str(stopped)
            return True
        except _MISTAKES as why:
            outcome.failed[job.key] = " ".join(str(why).split()) or type(why).__name__
            return True
        write_result(workspace.out, job.key, made)
        outcome.made.append(job.key)
        return True


def _someone_makes_what_is_needed(pending: Sequence[Job], out: Path) -> bool:
    """Returns whether waiting can help: a job that one of these needs is locked elsewhere."""
    needed = {n.key for job in pending for n in job.needs if not is_done(out, n.key)}
    for key in needed:
        with held_if_free(job_folder(out, key)) as held:
            if not held:
                return True
    # What has been finished while this was looked at is worth another round.
    return any(is_done(out, key) for key in needed)


def _leave_if_orphaned() -> None:
    """Ends a worker whose command was killed: nobody watches it any more."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        raise SystemExit(1)


# ---- Side by side -------------------------------------------------------------------------------


def _make_in_processes(jobs: Sequence[Job], workspace: Workspace, workers: int) -> Outcome:
    """Runs jobs in processes that share the folder as machines would."""
    progress, outcome = Progress(jobs, workspace), Outcome()
    quiet = replace(workspace, console=None)
    already = {job.key for job in jobs if is_done(workspace.out, job.key)}
    with _started(workers, jobs, quiet) as started:
        while any(process.is_alive() for process, _ in started):
            for job in jobs:
                if job.key not in already and is_done(workspace.out, job.key):
                    already.add(job.key)
                    progress.show(job.key)
            time.sleep(POLL_SECONDS)
        for process, receiver in started:
            if receiver.poll():
                found: Outcome = receiver.recv()
                outcome.made += found.made
                outcome.failed |= found.failed
            elif process.exitcode:
                outcome.failed[f"worker {process.pid}"] = f"it ended with code {process.exitcode}"
    for job in jobs:
        if is_done(workspace.out, job.key):
            if job.key not in already:
                progress.show(job.key)
        elif job.key not in outcome.failed:
            outcome.elsewhere.append(job.key)
    return outcome


@contextlib.contextmanager
def _started(
    workers: int, jobs: Sequence[Job], workspace: Workspace
) -> Iterator[list[tuple[BaseProcess, Connection]]]:
    """Starts processes, and ends those that are left."""
    context = multiprocessing.get_context("spawn")
    started: list[tuple[BaseProcess, Connection]] = []
    try:
        for _ in range(workers):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(sender, jobs, workspace, workers))
            process.start()
            sender.close()
            started.append((process, receiver))
        yield started
    finally:
        for running, _ in started:
            if running.is_alive():
                running.terminate()
        for running, _ in started:
            running.join()


def _work(sender: Connection, jobs: Sequence[Job], workspace: Workspace, workers: int) -> None:
    """Runs in a process of its own."""
    import torch  # noqa: PLC0415 - not for lists

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // workers))
    sender.send(_make_here(jobs, workspace))


# ---- Progress -----------------------------------------------------------------------------------


class Progress:
    """Tells after each job how many are done, and how long the rest may take.

    Args:
        jobs: all of them.
        workspace: where they are run.
    """

    def __init__(self, jobs: Sequence[Job], workspace: Workspace) -> None:
        self.jobs, self.out = jobs, workspace.out
        self.console = workspace.console or Console(quiet=True)
        self.begin = time.monotonic()
        self.left_at_first = self._left().seconds

    def show(self, key: str) -> None:
        """Prints a line about a job that has just been dealt with."""
        left, passed = self._left().seconds, time.monotonic() - self.begin
        there = sum(is_done(self.out, job.key) for job in self.jobs)
        rest = "nothing" if left == 0 else "unknown time"
        if 0 < left < self.left_at_first:
            slowness = (passed + _SURE_SECONDS) / (self.left_at_first - left + _SURE_SECONDS)
            rest = f"about {format_duration(left * slowness)}"
        line = f"{there} of {len(self.jobs)} jobs, {rest} left: {key}"
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _left(self) -> Cost:
        pending = (job.cost for job in self.jobs if not is_done(self.out, job.key))
        return sum(pending, Cost())


def format_duration(seconds: float) -> str:
    """Returns a time in words.

    >>> format_duration(42), format_duration(600), format_duration(10_000)
    ('42 s', '10 min', '2.8 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
