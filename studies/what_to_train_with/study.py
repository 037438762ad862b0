"""What to train with: a queue that trains the runs of the study, and their collection.

    python studies/what_to_train_with/study.py list          # every run, and whether it is there
    python studies/what_to_train_with/study.py run --jobs 2  # trains the rest, one thread each
    python studies/what_to_train_with/study.py collect       # finished runs into runs.csv
    python studies/what_to_train_with/study.py report        # page and figure of what was collected

Runs resume from their checkpoints; what runs.csv has is not trained again, and what is trained next
follows from it (stages.py). COMIXUP_DATA names the folder of the data sets; COMIXUP_AUGMENTED one
where augmented images are kept, if runs shall share them (train.py): 1.5 GB per seed of CIFAR-100
and 6 GB per seed of Tiny-ImageNet, which may be deleted when the runs of the seed are done.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tyro

sys.path.append(str(Path(__file__).parents[1]))

from comixup.lab.evaluation import measure_run, merge_runs, write_runs
from what_to_train_with.page import FOLDER, write_page
from what_to_train_with.stages import RUNS, Task, collected, missing, tasks

OUT = Path("runs/what-to-train-with")


def show() -> None:
    """List all runs, with those that are collected marked."""
    left = set(missing())
    for task in tasks():
        print("   " if task in left else "ok ", *task.key)


def run(out: Path = OUT, jobs: int = 2) -> None:
    """Train what is missing.

    Args:
        out: folder of the runs.
        jobs: runs at a time, one thread each.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    failed: set[tuple[str, str, int]] = set()

    def train(task: Task) -> None:
        if task.folder(out) is not None:
            return
        log = out / task.condition / f"{task.arm}-{task.seed}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            code = subprocess.call(task.command(out), env=environment, stdout=file, stderr=file)
        if code:
            failed.add(task.key)
        print("done" if code == 0 else f"FAILED, see {log}:", *task.key, flush=True)

    while tried := [task for task in missing() if task.key not in failed]:
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(train, interleaved(tried, jobs)))
        collect(out)  # what is trained next depends on it


def interleaved(tasks: Sequence[Task], jobs: int) -> list[Task]:
    """Returns runs in such an order that those trained at the same time have different seeds.

    Runs of one seed share augmented images (train.py), but only with runs that begin later.
    """
    groups = {seed: k // jobs for k, seed in enumerate(dict.fromkeys(t.seed for t in tasks))}
    conditions = list(dict.fromkeys(task.condition for task in tasks))
    arms = list(dict.fromkeys(task.arm for task in tasks))
    return sorted(
        tasks,
        key=lambda t: (conditions.index(t.condition), groups[t.seed], arms.index(t.arm)),
    )


def collect(out: Path = OUT) -> None:
    """Add finished runs to runs.csv.

    Args:
        out: folder of the runs.
    """
    found = [
        dataclasses.replace(measure_run(folder), recipe=task.condition, method=task.arm)
        for task in missing()
        if (folder := task.folder(out)) is not None
    ]
    write_runs(merge_runs(collected(), found), RUNS)
    print(f"{len(found)} new runs in {RUNS}, {len(missing())} missing.")


def report() -> None:
    """Make the page and its figure from what was collected."""
    write_page()
    print(f"{FOLDER / 'what-to-train-with.md'}: {len(missing())} runs are missing.")


if __name__ == "__main__":
    commands = {"list": show, "run": run, "collect": collect, "report": report}
    tyro.extras.subcommand_cli_from_dict(commands)
