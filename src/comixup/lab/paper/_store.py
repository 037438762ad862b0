"""Finished jobs: a JSON file each in the output folder, rows of CSV files once committed.

A job that trains has one row, that of its run (`comixup.lab.evaluation.RunRecord`). Committed runs
lie in `runs.csv`, those of the recipe `cifar100-small-data` in `small-data.csv`, which its study
shares; the rows of other jobs lie in a file for each table or figure. `jobs.csv` tells when, where
and with what jobs were run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from comixup._atomic_write import atomic_write, make_folder
from comixup.lab._tables import csv_table, read_csv
from comixup.lab.evaluation import RunRecord, read_runs, write_runs
from comixup.lab.paper._trained_tables import SMALL, Run

Row: TypeAlias = dict[str, float | str]
RESULTS = Path("docs/results")
"""Where committed results lie in the source tree."""
OUT = Path("reproduced")
"""The usual output folder."""
_FILE = "job.json"
_INDEX = "jobs.csv"
_RUNS = "runs"
_RUN_TABLES = ("runs.csv", "small-data.csv")
_ABOUT = ("seconds", "date", "machine", "versions", "commit")
_TEXT = ("job", "method", *_ABOUT[1:])
"""Columns that are no numbers."""
_DIGITS = 7


@dataclass(frozen=True)
class JobResult:
    """What a job measured; its seconds, date, machine, versions and commit, if they are known."""

    rows: tuple[Row, ...]
    about: Mapping[str, float | str]


def job_folder(out: Path, key: str) -> Path:
    """Returns the folder that a job is locked by and that its result is written to."""
    return out / "jobs" / key


def is_done(out: Path, key: str) -> bool:
    """Returns whether a job is finished in an output folder."""
    return (job_folder(out, key) / _FILE).is_file()


def write_result(out: Path, key: str, result: JobResult) -> None:
    """Writes what a finished job leaves, atomically."""
    content = {"job": key, "about": dict(result.about), "rows": list(result.rows)}
    atomic_write(job_folder(out, key) / _FILE, json.dumps(content, indent=1) + "\n")


def read_out(out: Path) -> dict[str, JobResult]:
    """Returns the finished jobs of an output folder, by key."""
    found = {}
    for path in sorted((out / "jobs").rglob(_FILE)):
        try:
            content = json.loads(path.read_text())
            made = JobResult(tuple(content["rows"]), dict(content["about"]))
            found[str(content["job"])] = made
        except (ValueError, LookupError, TypeError, RecursionError) as why:
            raise ValueError(
                f"{path} must be a result that comixup wrote, but is damaged: {str(why)[:200]}. "
                "Delete it, and run the same command again."
            ) from None
    return found


def read_committed(results: Path) -> dict[str, JobResult]:
    """Returns the jobs whose results are committed, by key."""
    about = {str(line.pop("job")): line for line in read_csv(results / _INDEX, _TEXT)}
    rows: dict[str, list[Row]] = {}
    for table in _RUN_TABLES:
        for run in read_runs(results / table) if (results / table).is_file() else ():
            key = Run(run.recipe, run.method, run.seed or 0).key
            rows[key] = [run.as_row()]
            about.setdefault(key, {"commit": run.commit})
    for group in dict.fromkeys(map(_group, about)):
        if group != _RUNS:
            for line in read_csv(results / f"{group}.csv", _TEXT):
                rows.setdefault(str(line.pop("job")), []).append(line)
    return {key: JobResult(tuple(rows.get(key, ())), own) for key, own in about.items()}


def read_all(results: Path, out: Path) -> dict[str, JobResult]:
    """Returns committed jobs and those of the output folder, which come before them."""
    return {**read_committed(results), **read_out(out)}


def commit_results(results: Path, new: Mapping[str, JobResult]) -> int:
    """Adds finished jobs to the committed ones; returns how many were new or had other numbers."""
    old = read_committed(results)
    kept = dict(sorted({**old, **new}.items()))
    make_folder(results)
    index = [
        {"job": key, **{name: job.about.get(name, "") for name in _ABOUT}}
        for key, job in kept.items()
        if set(job.about) - {"commit"}
    ]
    tables: dict[str, list[Row]] = {_INDEX: index}
    runs: dict[str, list[RunRecord]] = {}
    for key, job in kept.items():
        if _group(key) == _RUNS:
            for run in map(RunRecord.from_row, job.rows):
                runs.setdefault(_RUN_TABLES[run.recipe == SMALL], []).append(run)
        else:
            own = ({"job": key, **row} for row in job.rows)
            tables.setdefault(f"{_group(key)}.csv", []).extend(own)
    for name, rows in tables.items():
        if rows:
            atomic_write(results / name, csv_table(rows, _DIGITS))
    for name, own_runs in runs.items():
        write_runs(own_runs, results / name)
    now = read_committed(results)
    return sum(key not in old or old[key].rows != now[key].rows for key in new)


def _group(key: str) -> str:
    """Returns the first word of a job's key: the name of the CSV file of its rows."""
    return key.partition("/")[0]
