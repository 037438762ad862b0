"""What to train with: a queue that trains the runs of the study, and their collection.

    python studies/what_to_train_with/study.py list          # every run, and whether it is there
    python studies/what_to_train_with/study.py run --jobs 2  # trains the rest, one thread each
    python studies/what_to_train_with/study.py collect       # finished runs into runs.csv
    python studies/what_to_train_with/study.py report        # tables of what was collected

Runs resume from their checkpoints; what runs.csv has is not trained again, and what is trained next
follows from it (stages.py). COMIXUP_DATA names the folder of the data sets; COMIXUP_AUGMENTED one
where augmented images are kept, if runs shall share them (train.py).
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

sys.path.append(str(Path(__file__).parents[1]))

from comixup.lab.evaluation import (
    RunRecord,
    holm,
    measure_run,
    merge_runs,
    paired_interval,
    paired_test,
    write_runs,
)
from what_to_train_with.stages import RUNS, Task, chosen_mode, collected, error_of, missing, tasks

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
            list(pool.map(train, tried))
        collect(out)  # what is trained next depends on it


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
    """Print the mean error of each condition and arm, and how they differ from the chosen mode."""
    groups: dict[str, dict[str, list[RunRecord]]] = {}
    for run in collected():
        groups.setdefault(run.recipe, {}).setdefault(run.method, []).append(run)
    for condition, arms in sorted(groups.items()):
        reported = condition.startswith(("stage2/", "fine-tuning/"))
        reference = chosen_mode() if condition.startswith("stage2/") else None
        if condition.startswith("fine-tuning/"):
            reference = "trivial-one-pass"
        table = Table(
            *("arm", "seeds", "error, %", "NLL", "ECE, %", "scaled ECE, %", "training error, %"),
            *(f"minus {reference}", "Holm's p") if reported else (),
            title=condition,
        )
        rows = sorted(arms, key=lambda arm: _mean(arms[arm], reported))
        pairs = {arm: _differences(arms[reference], arms[arm]) for arm in rows if reference in arms}
        tests = {arm: paired_test(each) for arm, each in pairs.items() if arm != reference}
        known = {arm: p for arm, p in tests.items() if p is not None}
        adjusted = dict(zip(known, holm(list(known.values())), strict=True))
        for arm in rows:
            own = arms[arm]
            metrics = ("nll", "ece", "scaled_ece", "train_error")
            means = [statistics.mean(run.metrics[name] for run in own) for name in metrics]
            row = [arm, str(len(own)), f"{_mean(own, reported):.2f}", f"{means[0]:.3f}"]
            row += [f"{mean:.1f}" for mean in means[1:]]
            if reported and arm in tests:
                interval = paired_interval(pairs[arm]) or (float("nan"),) * 2
                mean = statistics.mean(pairs[arm])
                row.append(f"{mean:+.2f} [{interval[0]:+.2f}, {interval[1]:+.2f}]")
                row.append(f"{adjusted[arm]:.3f}" if arm in adjusted else "")
            table.add_row(*row)
        Console(width=120).print(table)


def _mean(runs: list[RunRecord], reported: bool) -> float:
    return statistics.mean(run.metrics["error"] if reported else error_of(run) for run in runs)


def _differences(reference: list[RunRecord], arm: list[RunRecord]) -> list[float]:
    """Returns the arm's error minus the reference's, of the seeds that both have."""
    theirs = {run.seed: run.metrics["error"] for run in reference}
    return [run.metrics["error"] - theirs[run.seed] for run in arm if run.seed in theirs]


if __name__ == "__main__":
    commands = {"list": show, "run": run, "collect": collect, "report": report}
    tyro.extras.subcommand_cli_from_dict(commands)
