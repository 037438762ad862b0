"""What to train with: the runs of the study, a queue that trains them, and their collection.

    python studies/what_to_train_with/study.py list          # every run, and whether it is there
    python studies/what_to_train_with/study.py run --jobs 2  # trains the rest, one thread each
    python studies/what_to_train_with/study.py collect       # finished runs into runs.csv
    python studies/what_to_train_with/study.py report        # tables of what was collected

Runs resume from their checkpoints; what runs.csv has is not trained again. The rules, written
before the runs, are in docs/results/rules.md. COMIXUP_DATA names the folder of the data sets.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from comixup.reproduce.cells import Cell, merged, read_cells, read_run, write_cells

HERE = Path(__file__).parent
CELLS = HERE / "runs.csv"
RECIPE = "cifar100-small-data"
CHOOSING = ("--classes", "70-89", "--width", "16")
"""Classes that are not reported, and a network small enough for 240 epochs in six CPU-minutes."""
OUT = Path("runs/what-to-train-with")


@dataclass(frozen=True)
class Task:
    """One run.

    Attributes:
        condition: stage, augmentation and epochs: what runs must share to be compared.
        method: of the recipe.
        seed: of the run.
        options: of `comixup train`.
    """

    condition: str
    method: str
    seed: int
    options: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells runs apart."""
        return self.condition, self.method, self.seed

    def folder(self, out: Path) -> Path:
        """Returns the folder of the run."""
        return out / self.condition / RECIPE / self.method / f"seed-{self.seed}"

    def command(self, out: Path) -> list[str]:
        """Returns the command that trains the run, or resumes it."""
        words = [sys.executable, "-m", "comixup", "train", RECIPE, "--method", self.method]
        words += ["--seeds", str(self.seed), "--workers", "0", *self.options]
        return [*words, "--out", str(out / self.condition)]


def tasks() -> Iterator[Task]:
    """Yields all runs, in the order in which they are trained."""
    yield from stage_0()


def stage_0() -> Iterator[Task]:
    """Yields the runs that choose augmentation and length."""
    for seed in (100, 101):
        for epochs in (120, 240):
            for augment in ("crop-flip", "trivial", "rand"):
                options = (*CHOOSING, "--epochs", str(epochs), "--augment", augment)
                for method in ("vanilla", "input-p0.5"):
                    yield Task(f"stage0/{augment}-{epochs}", method, seed, options)


def collected() -> list[Cell]:
    """Returns the runs that were collected; `recipe` is their condition."""
    return read_cells(CELLS) if CELLS.exists() else []


def missing() -> list[Task]:
    """Returns the runs that were not collected."""
    done = {(cell.recipe, cell.method, cell.seed) for cell in collected()}
    return [task for task in tasks() if task.key not in done]


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

    def train(task: Task) -> None:
        if (task.folder(out) / "result.json").exists():
            return
        log = out / task.condition / f"{task.method}-{task.seed}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            code = subprocess.call(task.command(out), env=environment, stdout=file, stderr=file)
        print("done" if code == 0 else f"FAILED, see {log}:", *task.key, flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(train, missing()))


def collect(out: Path = OUT) -> None:
    """Add finished runs to runs.csv.

    Args:
        out: folder of the runs.
    """
    found = [
        dataclasses.replace(read_run(task.folder(out)), recipe=task.condition)
        for task in missing()
        if (task.folder(out) / "result.json").exists()
    ]
    write_cells(merged(collected(), found), CELLS)
    print(f"{len(found)} new runs in {CELLS}, {len(missing())} missing.")


def report() -> None:
    """Print the mean error of each condition and method."""
    table = Table("condition", "method", "seeds", "error, %", "NLL", "training error, %", "CPU-min")
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in collected():
        groups.setdefault((cell.recipe, cell.method), []).append(cell)
    for (condition, method), cells in sorted(groups.items()):
        errors = [chosen_by(cell) for cell in cells]
        table.add_row(
            condition,
            method,
            str(len(cells)),
            f"{statistics.mean(errors):.2f}",
            f"{statistics.mean(cell.nll for cell in cells):.3f}",
            f"{statistics.mean(cell.train_error for cell in cells):.1f}",
            f"{statistics.mean(cell.cpu_seconds for cell in cells) / 60:.1f}",
        )
    Console(width=110).print(table)


def chosen_by(cell: Cell) -> float:
    """Returns what runs on classes that are not reported are judged by: both errors' mean."""
    return (cell.error + cell.validation_error) / 2


if __name__ == "__main__":
    commands = {"list": show, "run": run, "collect": collect, "report": report}
    tyro.extras.subcommand_cli_from_dict(commands)
