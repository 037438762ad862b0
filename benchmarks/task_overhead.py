"""Start-up and overhead per task of the executors: many jobs that compute next to nothing.

    python benchmarks/task_overhead.py --clusters here:1 here:2 ray

Each job enumerates one tiny problem, is locked, and writes its result. Start-up is the time of two
jobs, with the processes that they need; the overhead of a task is that of each further one. CPU
time is that of this process and of those that it has started; of Ray's it knows nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from comixup.lab._cluster import Cluster
from comixup.lab._tasks import check_done
from comixup.lab.paper import Job, Workspace, run_jobs
from common import table

FEW = 2


def seconds_of(count: int, cluster: Cluster) -> tuple[float, float]:
    """Returns how long so many jobs take in an empty folder, and their CPU time."""
    problem = {"kind": "paper", "size": (2, 2, 4), "seeds": range(1)}
    jobs = [Job(f"exhaustive/{k}", "exhaustive", problem) for k in range(count)]
    with tempfile.TemporaryDirectory() as out:
        begin, cpu = time.perf_counter(), sum(os.times()[:4])
        check_done(run_jobs(jobs, Workspace(Path(out)), cluster))
        return time.perf_counter() - begin, sum(os.times()[:4]) - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", nargs="+", default=["here:1", "here:2"])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    rows = []
    for where in arguments.clusters:
        cluster = Cluster(where)
        seconds_of(FEW, cluster)  # imports, and code compiled for the first time
        few, each = [], []
        for _ in range(arguments.repeats):
            few.append(seconds_of(FEW, cluster))
            many = seconds_of(FEW + arguments.jobs, cluster)
            pairs = zip(many, few[-1], strict=True)
            each.append([1000 * (long - short) / arguments.jobs for long, short in pairs])
        start, start_cpu = map(statistics.median, zip(*few, strict=True))
        task, task_cpu = map(statistics.median, zip(*each, strict=True))
        rows.append([where, *(f"{x:.2f}" for x in (start, start_cpu))])
        rows[-1] += [f"{x:.1f}" for x in (task, task_cpu)]
    title = f"{arguments.jobs} jobs that compute next to nothing, medians of {arguments.repeats}"
    table(title, ["cluster", "start-up, s", "CPU, s", "each task, ms", "CPU, ms"], rows)


if __name__ == "__main__":
    main()
