"""The record of a trained run, and tables of them as CSV files.

Training returns records and writes each to its run's folder, evaluation adds to them, comparisons
and tables read them. A study's runs are kept with the docs as rows of a CSV file, from which every
table and figure can be reproduced without the run folders.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from comixup._atomic_write import atomic_write, make_folder
from comixup.lab._calibration import Bin
from comixup.lab._tables import csv_table, read_csv

DIGITS = 7
"""Significant digits of numbers in tables."""
TEXT_COLUMNS = ("recipe", "method", "commit", "bins")
_FIRST = (
    "epochs",
    "passes",
    "error",
    "top5_error",
    "nll",
    "ece",
    "temperature",
    "scaled_nll",
    "scaled_ece",
    "train_error",
    "validation_error",
    "cpu_seconds",
)
"""Metrics of a recipe's runs, the first columns of tables."""


@dataclass(frozen=True)
class RunRecord:
    """The measurements of one run on its test images.

    Attributes:
        method: name of the method in the recipe.
        seed: seed of the run; None if unknown: such runs cannot be paired with others.
        metrics: metrics by name, such as error, ece, passes and cpu_seconds, from `train` or
            `measure_run`.
        recipe: name of the recipe, or of a study's condition. Runs of different recipes are never
            combined.
        test_digest: digest of the test images, see `Split.digest`; None if unknown. It must be
            equal for all runs of a recipe.
        bins: its predictions by confidence, for reliability diagrams.
        commit: commit of the source that trained it; empty if unknown.
        folder: folder of the run's files; None if not available.
    """

    method: str
    seed: int | None
    metrics: Mapping[str, float]
    recipe: str = ""
    test_digest: str | None = None
    bins: tuple[Bin, ...] = ()
    commit: str = ""
    folder: Path | None = field(default=None, compare=False)

    @property
    def error(self) -> float:
        """The top-1 error in percent that its recipe reports."""
        return self.metrics["error"]

    @property
    def key(self) -> tuple[str, str, int]:
        """The key of a run: recipe, method and seed."""
        return self.recipe, self.method, -1 if self.seed is None else self.seed

    def as_row(self) -> dict[str, float | str]:
        """Returns the record as a row of a table.

        >>> RunRecord("vanilla", 3, {"brier": 0.5, "error": 20.0}, "digits").as_row()
        {'recipe': 'digits', 'method': 'vanilla', 'seed': 3, 'error': 20.0, 'brier': 0.5}
        """
        row: dict[str, float | str] = {"recipe": self.recipe, "method": self.method}
        row |= {} if self.seed is None else {"seed": self.seed}
        row |= {name: self.metrics[name] for name in _FIRST if name in self.metrics}
        row |= self.metrics
        row |= {"commit": self.commit} if self.commit else {}
        bins = (f"{b.count}:{b.confidence:.5g}:{b.accuracy:.5g}" for b in self.bins)
        return row | ({"bins": " ".join(bins)} if self.bins else {})

    @classmethod
    def from_row(cls, row: Mapping[str, float | str]) -> RunRecord:
        """Returns the record of a table's row."""
        numbers = {name: value for name, value in row.items() if name not in TEXT_COLUMNS}
        seed = numbers.pop("seed", None)
        bins = (text.split(":") for text in str(row.get("bins", "")).split())
        return cls(
            str(row["method"]),
            None if seed is None else int(seed),
            {name: float(value) for name, value in numbers.items()},
            str(row["recipe"]),
            bins=tuple(Bin(int(count), float(c), float(a)) for count, c, a in bins),
            commit=str(row.get("commit", "")),
        )


def read_runs(path: Path) -> list[RunRecord]:
    """Returns the runs of a CSV file written by `write_runs`."""
    if not path.is_file():
        raise FileNotFoundError(f"`path` must be a table of runs, but there is no {path}.")
    rows = read_csv(path, TEXT_COLUMNS)
    try:
        if not all("error" in row and "seed" in row for row in rows):
            raise ValueError("some of its rows have no seed or no error")
        return [RunRecord.from_row(row) for row in rows]
    except (KeyError, TypeError, ValueError) as why:
        raise ValueError(
            f"`path` must be a table of runs that comixup wrote, but {path} is not one: {why}."
        ) from None


def write_runs(runs: Iterable[RunRecord], path: Path) -> None:
    """Writes runs to a CSV file, sorted by recipe, method and seed, atomically."""
    rows = [run.as_row() for run in sorted(runs, key=lambda run: run.key)]
    columns = dict.fromkeys(name for row in rows for name in row)
    last = [name for name in ("commit", "bins") if name in columns]
    order = [*(name for name in columns if name not in last), *last]
    # NaN is kept: an undefined metric, such as the training error of mixed images.
    table = [{name: _cell(row.get(name)) for name in order} for row in rows]
    make_folder(path.parent)
    atomic_write(path, csv_table(table, DIGITS))


def _cell(value: float | str | None) -> float | str | None:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def merge_runs(old: Iterable[RunRecord], new: Iterable[RunRecord]) -> list[RunRecord]:
    """Returns all runs; new ones replace old ones with the same recipe, method and seed."""
    return list({run.key: run for run in (*old, *new)}.values())
