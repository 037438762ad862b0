"""What to train with: the runs of the study, a queue that trains them, and their collection.

    python studies/what_to_train_with/study.py list          # every run, and whether it is there
    python studies/what_to_train_with/study.py run --jobs 2  # trains the rest, one thread each
    python studies/what_to_train_with/study.py collect       # finished runs into runs.csv
    python studies/what_to_train_with/study.py report        # tables of what was collected

Runs resume from their checkpoints; what runs.csv has is not trained again. The rules, written
before the runs, are in docs/results/rules.md. COMIXUP_DATA names the folder of the data sets;
COMIXUP_AUGMENTED one where augmented images are kept, if runs shall share them (see train.py).
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from comixup.lab.evaluation import RunRecord, measure_run, merge_runs, read_runs, write_runs

HERE = Path(__file__).parent
RUNS = HERE / "runs.csv"
RECIPE = "cifar100-small-data"
CHOOSING = ("--classes", "70-89", "--width", "16")
"""Classes that are not reported, and a network small enough for 240 epochs in six CPU-minutes."""
OUT = Path("runs/what-to-train-with")
_ONE_PASS = "comixup-one-pass"
OURS: dict[str, tuple[str, ...]] = {
    "one-pass": (_ONE_PASS,),
    "one-pass-recycle": (_ONE_PASS, "--memory", "recycle=true"),
    "one-pass-third": (_ONE_PASS, "--memory", "rate=0.3333"),
    "one-pass-annealed": (_ONE_PASS, "--schedule", "annealed"),
    "one-pass-off": (_ONE_PASS, "--schedule", "off-last-tenth"),
    "one-pass-input": (f"{_ONE_PASS}+input",),
    "one-pass-cutmix": (f"{_ONE_PASS}+cutmix",),
    "one-pass-both": (f"{_ONE_PASS}+input+cutmix",),
    "one-pass-saliency-targets": (_ONE_PASS, "--set", "target_weight=saliency"),
    "one-pass-tau-1": (_ONE_PASS, "--set", "tau=1.0"),
    "one-pass-grid-8": (_ONE_PASS, "--set", "grid=8"),
    "one-pass-ema": (_ONE_PASS, "--ema", "0.995"),
}
"""Stage 1, our candidates: the method or methods, and options."""
RIVALS: dict[str, tuple[str, ...]] = {
    "no-mixing": ("vanilla",),
    "input-0.2": ("input-p0.5", "--set", "alpha=0.2"),
    "input-1": ("input-p0.5", "--set", "alpha=1.0"),
    "input-2": ("input-p0.5", "--set", "alpha=2.0"),
    "cutmix-0.2": ("cutmix-p0.5", "--set", "alpha=0.2"),
    "cutmix-1": ("cutmix-p0.5", "--set", "alpha=1.0"),
    "coin-half": ("input+cutmix", "--set", "p=0.5"),
    "coin": ("input+cutmix",),
    "coin-annealed": ("input+cutmix", "--schedule", "annealed"),
    "coin-off": ("input+cutmix", "--schedule", "off-last-tenth"),
    "input-smoothed": ("input-p0.5", "--label-smoothing", "0.1"),
}
"""Stage 1, the simple rivals; the twelfth is the best of them with averaged weights."""
_AVERAGED = {f"{arm}-ema": (*words, "--ema", "0.995") for arm, words in RIVALS.items()}
ARMS = {**OURS, **RIVALS, **_AVERAGED}


@dataclass(frozen=True)
class Task:
    """One run.

    Attributes:
        condition: stage, augmentation and epochs: what runs must share to be compared.
        arm: what is compared; a method, or one with options.
        seed: of the run.
        options: of `comixup train`, those of the arm among them.
    """

    condition: str
    arm: str
    seed: int
    options: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells runs apart."""
        return self.condition, self.arm, self.seed

    @property
    def method(self) -> str:
        """The method of the recipe, or several joined, that the arm trains."""
        return ARMS.get(self.arm, (self.arm,))[0]

    def parent(self, out: Path) -> Path:
        """Returns the folder that `comixup train` is given; arms may share a method."""
        return out / self.condition / (self.arm if self.arm in ARMS else "")

    def folder(self, out: Path) -> Path:
        """Returns the folder of the run."""
        return self.parent(out) / RECIPE / self.method / f"seed-{self.seed}"

    def command(self, out: Path) -> list[str]:
        """Returns the command that trains the run, or resumes it."""
        train = ["-m", "comixup", "train"]
        if "COMIXUP_AUGMENTED" in os.environ:  # the same runs, in less time
            train = [str(HERE / "train.py")]
        words = [sys.executable, *train, RECIPE, "--method", self.method]
        words += ["--seeds", str(self.seed), "--workers", "0", *self.options]
        return [*words, "--out", str(self.parent(out))]


def tasks() -> Iterator[Task]:
    """Yields all runs that the collected ones ask for, in the order in which they are trained."""
    yield from stage_0()
    if all(task.key in results() for task in stage_0()):
        yield from stage_1(*condition())


def results() -> dict[tuple[str, str, int], RunRecord]:
    """Returns the collected runs by condition, arm and seed.

    Two arms of stage 1 are methods of stage 0: their runs are not trained twice.
    """
    found = {run.key: run for run in collected()}
    same = {"vanilla": "no-mixing", "input-p0.5": "input-1"}
    for (where, method, seed), run in list(found.items()):
        if method in same:
            found[where.replace("stage0", "stage1"), same[method], seed] = run
    return found


def stage_0() -> Iterator[Task]:
    """Yields the runs that choose augmentation and length."""
    for seed in (100, 101):
        for epochs in (120, 240):
            for augment in ("crop-flip", "trivial", "rand"):
                options = (*CHOOSING, "--epochs", str(epochs), "--augment", augment)
                for method in ("vanilla", "input-p0.5"):
                    yield Task(f"stage0/{augment}-{epochs}", method, seed, options)


def condition() -> tuple[str, int]:
    """Returns augmentation and epochs with the lowest error in stage 0: the study's condition."""
    groups: dict[str, list[float]] = {}
    for run in collected():
        if run.recipe.startswith("stage0/"):
            groups.setdefault(run.recipe, []).append(chosen_by(run))
    best = min(groups, key=lambda name: statistics.mean(groups[name]))
    augment, _, epochs = best.removeprefix("stage0/").rpartition("-")
    return augment, int(epochs)


def stage_1(augment: str, epochs: int) -> Iterator[Task]:
    """Yields the runs of the search: both pools are halved twice, each by itself."""
    shared = (*CHOOSING, "--epochs", str(epochs), "--augment", augment)
    where, found = f"stage1/{augment}-{epochs}", results()

    def round_of(arms: Iterable[str], seeds: Iterable[int]) -> Iterator[Task]:
        for seed in seeds:
            for arm in arms:
                yield Task(where, arm, seed, (*shared, *ARMS[arm][1:]))

    def decided(arms: Iterable[str], seeds: Iterable[int]) -> bool:
        return all(task.key in found for task in round_of(arms, seeds))

    def best(arms: Iterable[str], seeds: Iterable[int], count: int) -> list[str]:
        means = {
            arm: statistics.mean(chosen_by(found[where, arm, seed]) for seed in seeds)
            for arm in arms
        }
        return sorted(means, key=lambda arm: means[arm])[:count]

    ours, rivals = list(OURS), list(RIVALS)
    yield from round_of([*ours, *rivals], [100])
    if not decided([*ours, *rivals], [100]):
        return
    twelfth = best(rivals, [100], 1)[0] + "-ema"
    yield from round_of([twelfth], [100])
    if not decided([twelfth], [100]):
        return
    ours, rivals = best(ours, [100], 6), best([*rivals, twelfth], [100], 6)
    yield from round_of([*ours, *rivals], [101, 102])
    if not decided([*ours, *rivals], [101, 102]):
        return
    ours, rivals = best(ours, [100, 101, 102], 3), best(rivals, [100, 101, 102], 3)
    yield from round_of([*ours, *rivals], [103, 104, 105])


def collected() -> list[RunRecord]:
    """Returns the runs that were collected; `recipe` is their condition."""
    return read_runs(RUNS) if RUNS.exists() else []


def missing() -> list[Task]:
    """Returns the runs that were not collected."""
    done = results()
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
    failed: set[tuple[str, str, int]] = set()

    def train(task: Task) -> None:
        if (task.folder(out) / "result.json").exists():
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
        collect(out)  # what is trained next may depend on it


def collect(out: Path = OUT) -> None:
    """Add finished runs to runs.csv.

    Args:
        out: folder of the runs.
    """
    found = [
        dataclasses.replace(measure_run(task.folder(out)), recipe=task.condition, method=task.arm)
        for task in missing()
        if (task.folder(out) / "result.json").exists()
    ]
    write_runs(merge_runs(collected(), found), RUNS)
    print(f"{len(found)} new runs in {RUNS}, {len(missing())} missing.")


def report() -> None:
    """Print the mean error of each condition and method."""
    table = Table("condition", "method", "seeds", "error, %", "NLL", "training error, %", "CPU-min")
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for run in collected():
        groups.setdefault((run.recipe, run.method), []).append(run)
    for (condition, method), own in sorted(groups.items()):
        errors = [chosen_by(run) for run in own]
        table.add_row(
            condition,
            method,
            str(len(own)),
            f"{statistics.mean(errors):.2f}",
            f"{statistics.mean(run.metrics['nll'] for run in own):.3f}",
            f"{statistics.mean(run.metrics['train_error'] for run in own):.1f}",
            f"{statistics.mean(run.metrics['cpu_seconds'] for run in own) / 60:.1f}",
        )
    Console(width=110).print(table)


def chosen_by(run: RunRecord) -> float:
    """Returns what runs on classes that are not reported are judged by: both errors' mean."""
    return (run.metrics["error"] + run.metrics["validation_error"]) / 2


if __name__ == "__main__":
    commands = {"list": show, "run": run, "collect": collect, "report": report}
    tyro.extras.subcommand_cli_from_dict(commands)
