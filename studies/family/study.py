"""Six more methods beside those of the small-data study, at equal compute: exploratory.

    python studies/family/study.py list                # every run, and whether it is there
    python studies/family/study.py run --data data     # trains the rest, and collects them
    python studies/family/study.py collect RUN ...     # finished runs into the table
    python studies/family/study.py report              # the table of errors, from the runs

Nothing has been run yet. Recipe, network and length are the small-data study's, whose runs of the
same compute stand beside in the report; settings are the papers', and nothing was tuned. It has no
rules written before, and decides nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tyro

sys.path.append(str(Path(__file__).parents[1]))

from comixup.lab import paper
from comixup.lab._cluster import HERE, Cluster
from comixup.lab._tables import markdown_table
from comixup.lab.paper._report import spread
from run_tables import add_finished, collected, print_planned
from small_data.arms import RECIPE
from small_data.arms import RUNS as SMALL_DATA

RUNS = Path("studies/family/runs.csv")
OUT = Path("runs/family")
SEEDS = range(5)
ARMS = {
    "resizemix": "ResizeMix",
    "fmix": "FMix",
    "recursivemix": "RecursiveMix",
    "saliencymix-spectral": "SaliencyMix, spectral residual",
    "saliencymix-one-pass": "SaliencyMix, remembered maps",
    "guidedmixup-spectral": "GuidedMixup, spectral residual, half of the batches",
    "guidedmixup-one-pass": "GuidedMixup, remembered maps",
    "guidedmixup-clean": "GuidedMixup, gradients and clean loss, p = 0.8, fewer epochs",
    "rmix-half": "R-Mix, gradients, half the epochs",
    "rmix-one-pass": "R-Mix, remembered maps",
}
"""All make as many passes over images as one-pass training of the recipe's epochs."""
BESIDE = {
    "vanilla": "Vanilla",
    "input-p0.5": "Input mixup, p = 0.5",
    "cutmix-p0.5": "CutMix, p = 0.5",
    "comixup-one-pass": "One-pass Co-Mixup",
}
"""Of the small-data study."""


def planned() -> list[paper.Run]:
    """Returns all runs."""
    return [paper.Run(RECIPE, arm, seed) for arm in ARMS for seed in SEEDS]


def show(runs: Path = RUNS) -> None:
    """List all runs, with those that are collected marked."""
    there = {run.key for run in collected(runs)}
    print_planned(planned(), {run for run in planned() if run in there})


def run(runs: Path = RUNS, out: Path = OUT, data: Path | None = None, cluster: str = HERE) -> None:
    """Train what is missing, and add it to the table.

    Args:
        runs: the table.
        out: folder of the runs.
        data: folder of the data sets.
        cluster: what trains them, as of `comixup train`.
    """
    there = {each.key for each in collected(runs)}
    left = [each for each in planned() if each not in there]
    workspace = paper.Workspace(out, data)
    done = paper.run_jobs([paper.training_job(each) for each in left], workspace, Cluster(cluster))
    collect(*(workspace.run_folder(each) for each in left), runs=runs)
    for one in done:
        if one.error is not None:
            print(f"FAILED: {one.key}: {one.reason}")


def collect(*folders: tyro.conf.Positional[Path], runs: Path = RUNS) -> None:
    """Add finished runs to the table.

    Args:
        folders: of runs; those that are not finished are left out.
        runs: the table.
    """
    add_finished(folders, runs)


def report(runs: Path = RUNS, beside: Path = SMALL_DATA) -> None:
    """Print the table of errors, with the small-data study's runs of the same seeds.

    Args:
        runs: the table.
        beside: that of the small-data study.
    """
    found = [*collected(beside), *collected(runs)]
    rows = []
    for arm, title in {**BESIDE, **ARMS}.items():
        own = [each for each in found if each.key in {(RECIPE, arm, seed) for seed in SEEDS}]
        rows.append([title, *(spread([each.metrics[m] for each in own]) for m in ("error", "ece"))])
    print(markdown_table(["", "error, %", "ECE, %"], rows))


if __name__ == "__main__":
    commands = {"list": show, "run": run, "collect": collect, "report": report}
    tyro.extras.subcommand_cli_from_dict(commands)
