"""What the studies share: a table of runs, a row each, that grows as runs are finished."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from comixup.lab.evaluation import RunRecord, measure_run, merge_runs, read_runs, write_runs


def collected(runs: Path) -> list[RunRecord]:
    """Returns the runs of a table; none if there is no such file."""
    return read_runs(runs) if runs.exists() else []


def add_finished(folders: Iterable[Path], runs: Path) -> None:
    """Adds those runs to a table whose folders are finished."""
    new = [measure_run(folder) for folder in folders if (folder / "result.json").exists()]
    both = merge_runs(collected(runs), new)
    write_runs(both, runs)
    print(f"{runs}: {len(both)} runs, {len(new)} of them from these folders")


def print_planned(
    planned: Iterable[tuple[object, ...]], there: Collection[tuple[object, ...]]
) -> None:
    """Prints what is to be trained, with what is there marked."""
    for run in planned:
        print("ok " if run in there else "   ", *run)
