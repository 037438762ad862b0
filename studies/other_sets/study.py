"""Methods compared on Tiny-ImageNet and Google commands, by rules fixed beforehand.

    python studies/other_sets/study.py list                # every run, and whether it is there
    python studies/other_sets/study.py run --data data     # trains and measures the rest
    python studies/other_sets/study.py collect             # adds them to docs/results/runs.csv
    python studies/other_sets/study.py report              # tables of what is there

The rules are in docs/results/rules.md. Runs are those of `comixup reproduce`, whose tables at small
scale share some of them, and so are the folders.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import tyro

sys.path.append(str(Path(__file__).parents[1]))

from comixup._atomic_write import atomic_write
from comixup.lab import paper
from comixup.lab._cluster import HERE, Cluster
from comixup.lab._tables import markdown_table
from comixup.lab.evaluation import RunRecord
from comixup.lab.paper._report import spread
from run_tables import print_planned

SEEDS = (0, 1, 2)
ARMS = {
    "vanilla": "vanilla",
    "cutmix-p0.5": "CutMix, p = 0.5",
    "comixup-half": "Co-Mixup, half the epochs",
    "comixup-one-pass": "one-pass Co-Mixup",
    "comixup": "Co-Mixup, twice the passes",
}
"""All but the last make as many passes."""
SETS: dict[str, tuple[str, dict[str, str]]] = {
    "tiny-imagenet-small": (
        "Tiny-ImageNet",
        {
            "Top-1 error, %": "error",
            "ECE, %": "ece",
            "NLL": "nll",
            "Top-1 Loc, %": "top1_loc",
            "Top-1 Loc of the centre box, %": "centre_top1_loc",
            "GT-known Loc, %": "gt_known",
            "GT-known Loc of the centre box, %": "centre_gt_known",
            "MaxBoxAccV2, %": "max_box_acc_v2",
            "MaxBoxAccV2 of the centre box, %": "centre_max_box_acc_v2",
            "Error, background replaced, %": "replaced_error",
            "Error, background of noise, %": "noise_error",
            "Error, noise added, %": "added_noise_error",
            "CPU-seconds": "cpu_seconds",
        },
    ),
    "speech-small": (
        "Google commands",
        {"Top-1 error, %": "error", "ECE, %": "ece", "NLL": "nll", "CPU-seconds": "cpu_seconds"},
    ),
}
"""By recipe: the data set, and the metrics that are reported by their titles."""
_PAGE = """# Other data sets: all tables

Made from [runs](runs.csv), a row each, by `python studies/other_sets/study.py report`. [The
rules](rules.md) were written before the runs. Mean ± standard deviation (seeds).
"""


def planned() -> list[paper.Run]:
    """Returns all runs."""
    return [paper.Run(recipe, arm, seed) for recipe in SETS for arm in ARMS for seed in SEEDS]


def trained(results: Path, out: Path) -> dict[paper.Run, RunRecord]:
    """Returns the runs that are there: committed ones, and those of the output folder."""
    made = paper.read_all(results, out)
    return {run: RunRecord.from_row(made[run.key].rows[0]) for run in planned() if run.key in made}


def show(results: Path = paper.RESULTS, out: Path = paper.OUT) -> None:
    """List all runs, with those that are there marked."""
    print_planned(planned(), trained(results, out))


def run(
    results: Path = paper.RESULTS,
    out: Path = paper.OUT,
    data: Path | None = None,
    cluster: str = HERE,
) -> None:
    """Train and measure the runs that are not there.

    Args:
        results: folder of the committed runs.
        out: the output folder.
        data: folder of the data sets.
        cluster: what trains them, as of `comixup train`.
    """
    there = trained(results, out)
    jobs = [paper.training_job(each) for each in planned() if each not in there]
    done = paper.run_jobs(jobs, paper.Workspace(out, data), Cluster(cluster))
    for one in done:
        if one.error is not None:
            print(f"FAILED: {one.key}: {one.reason}")


def collect(results: Path = paper.RESULTS, out: Path = paper.OUT) -> None:
    """Add the output folder's runs to the committed ones, as `comixup reproduce --collect` does."""
    print(f"{results}: {paper.collect(results, out)} new results.")


def table(recipe: str, runs: Mapping[paper.Run, RunRecord]) -> str:
    """Returns the means of each arm, a row for each metric, as Markdown."""
    rows = []
    for title, metric in SETS[recipe][1].items():
        values = [
            [
                run.metrics[metric]
                for run in runs.values()
                if (run.recipe, run.method) == (recipe, arm) and metric in run.metrics
            ]
            for arm in ARMS
        ]
        rows.append([title, *map(spread, values)])
    return markdown_table(["", *ARMS.values()], rows)


def report(results: Path = paper.RESULTS, out: Path = paper.OUT, page: Path | None = None) -> None:
    """Make the tables from the runs that are there.

    Args:
        results: folder of the committed runs.
        out: the output folder, whose runs come before them.
        page: where to; other-sets.md in the folder of the committed runs if None.
    """
    runs, page = trained(results, out), page or results / "other-sets.md"
    parts = [f"## {title}\n\n{table(recipe, runs)}" for recipe, (title, _) in SETS.items()]
    atomic_write(page, "\n".join((_PAGE, *parts)))
    print(f"Tables are in {page}.")


if __name__ == "__main__":
    commands = {"list": show, "run": run, "collect": collect, "report": report}
    tyro.extras.subcommand_cli_from_dict(commands)
