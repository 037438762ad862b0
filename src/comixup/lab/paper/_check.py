"""Committed jobs run again, and compared with what was committed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from comixup._checks import check_count
from comixup.lab._cluster import Cluster
from comixup.lab._tasks import Done
from comixup.lab.paper._items import Item
from comixup.lab.paper._jobs import Job, jobs_of
from comixup.lab.paper._run_job import Workspace, run_jobs
from comixup.lab.paper._store import JobResult, read_committed, read_out
from comixup.lab.paper._trained_tables import SCALES

TOLERANCE = 1e-5
"""Relative: committed numbers have six digits or more."""
_TIMES = ("seconds", "ms")
"""Ends of the names of columns that depend on the machine's speed."""


@dataclass(frozen=True)
class Comparison:
    """The numbers of a job that were compared, and which one differs most, relatively."""

    key: str
    numbers: int
    largest: float
    where: str

    def __str__(self) -> str:
        """The comparison in words."""
        if self.largest <= TOLERANCE:
            return f"{self.key}: {self.numbers} numbers, all the same"
        return f"{self.key}: {self.numbers} numbers, {self.where} differs by {self.largest:.2g}"


def check(
    items: Sequence[Item],
    count: int,
    results: Path,
    workspace: Workspace,
    cluster: Cluster | None = None,
) -> tuple[list[Comparison], list[Done]]:
    """Returns how jobs compare that are drawn at random and run again, and what became of them.

    Trained runs give the same numbers on the same machine and number of threads; elsewhere sums
    round differently, and a run ends as far away as another seed's might.

    Args:
        items: whose committed jobs are drawn from.
        count: how many to draw.
        results: folder of the committed results.
        workspace: where to run them again, in a folder `check`.
        cluster: what runs them; see `run_jobs`.
    """
    check_count("count", count)
    committed = read_committed(results)
    workspace = replace(workspace, out=workspace.out / "check")
    jobs = {job.key: job for item in items for scale in SCALES for job in jobs_of(item, scale)}
    drawn = draw(jobs, committed, count)
    done = run_jobs(drawn, workspace, cluster)
    again = read_out(workspace.out)
    made = [job.key for job in drawn if job.key in again]
    return [compared(key, committed[key], again[key]) for key in made], done


def draw(jobs: Mapping[str, Job], committed: Mapping[str, JobResult], count: int) -> list[Job]:
    """Returns some of the jobs whose numbers are committed, chosen at random."""
    there = sorted(key for key in jobs if key in committed and committed[key].rows)
    if len(there) < count:
        raise ValueError(
            f"`--check` must be at most the number of committed jobs, {len(there)}, got {count}. "
            "Name more tables and figures, or draw fewer."
        )
    return [jobs[key] for key in random.SystemRandom().sample(there, count)]


def compared(key: str, old: JobResult, new: JobResult) -> Comparison:
    """Returns how the numbers of a job differ, but for times; rows are in the same order."""
    if len(old.rows) != len(new.rows):
        return Comparison(key, 0, math.inf, "the number of rows")
    differences = [
        (_difference(value, row[name]), name)
        for kept, row in zip(old.rows, new.rows, strict=True)
        for name, value in kept.items()
        if name in row and not isinstance(value, str) and not name.endswith(_TIMES)
    ]
    largest, where = max(differences, key=lambda pair: pair[0], default=(0.0, ""))
    return Comparison(key, len(differences), largest, where)


def _difference(old: float, new: float | str) -> float:
    if isinstance(new, str):
        return math.inf
    size = max(abs(old), abs(new))
    return abs(old - new) / size if size else 0.0
