"""Small data: methods compared on 20 classes of CIFAR-100, by rules fixed beforehand.

    python studies/small_data/study.py list                  # every run, and whether it is there
    python studies/small_data/study.py run --data data       # trains the rest, and collects them
    python studies/small_data/study.py collect RUN ...       # finished runs into the table
    python studies/small_data/study.py report                # tables and figures from the table

The table is docs/results/small-data.csv, and the rules, written before the runs, are in
docs/results/rules.md. What the table has is not trained again: to train everything anew, name
another one by `--runs`, for all four commands.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tyro

sys.path.append(str(Path(__file__).parents[1]))

from comixup._atomic_write import atomic_write
from comixup.lab import paper
from comixup.lab._cluster import HERE, Cluster
from comixup.lab.evaluation import read_runs
from run_tables import add_finished, collected, print_planned
from small_data.arms import RECIPE, RUNS, seeds_of_arms
from small_data.figures import write_figures
from small_data.tables import report

OUT = Path("runs/small-data")
_PAGE = """# Small data: all tables

Made from [its runs](small-data.csv), a row each, by `python studies/small_data/study.py report`.
[The rules](rules.md#small-data) were written before the runs.

![Error and ECE against compute](figures/small-data.compute.png)

Points of the same number of passes stand beside each other; bars are 95 % intervals of the mean.

![Reliability diagrams of the headline arms](figures/small-data.reliability.png)

{report}"""


def missing(runs: Path) -> list[paper.Run]:
    """Returns the runs that the rules ask for and the table has not."""
    there = {run.key for run in collected(runs)}
    planned = [
        paper.Run(RECIPE, arm, seed) for arm, seeds in seeds_of_arms().items() for seed in seeds
    ]
    return [run for run in planned if run not in there]


def show(runs: Path = RUNS) -> None:
    """List all runs, with those that are collected marked."""
    planned = [(arm, seed) for arm, seeds in seeds_of_arms().items() for seed in seeds]
    print_planned(planned, {run.key[1:] for run in collected(runs) if run.recipe == RECIPE})


def run(runs: Path = RUNS, out: Path = OUT, data: Path | None = None, cluster: str = HERE) -> None:
    """Train what is missing, and add it to the table.

    Args:
        runs: the table.
        out: folder of the runs.
        data: folder of the data sets.
        cluster: what trains them, as of `comixup train`.
    """
    left = missing(runs)
    workspace = paper.Workspace(out, data)
    jobs = [paper.training_job(each) for each in left]
    done = paper.run_jobs(jobs, workspace, Cluster(cluster))
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


def write_report(runs: Path = RUNS, out: Path = RUNS.parent) -> None:
    """Make the tables and figures from the table of runs.

    Args:
        runs: the table.
        out: where to.
    """
    found = read_runs(runs)
    write_figures(found, out / "figures")
    atomic_write(out / "small-data.md", _PAGE.format(report=report(found).replace("### ", "## ")))
    print(f"Tables and figures are in {out}.")


if __name__ == "__main__":
    commands = {"list": show, "run": run, "collect": collect, "report": write_report}
    tyro.extras.subcommand_cli_from_dict(commands)
