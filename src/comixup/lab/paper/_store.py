"""Finished cells: a JSON file each in the output folder, rows of CSV files once committed."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from comixup._atomic_write import atomic_write, make_folder
from comixup.lab.paper._small_recipes import SMALL
from comixup.lab.paper._trained_tables import Run

Value: TypeAlias = float | str
Row: TypeAlias = dict[str, Value]
RESULTS = Path("docs/results")
"""Where committed cells lie in the source tree."""
OUT = Path("reproduced")
"""The usual output folder."""
_FILE = "cell.json"
_INDEX = "cells.csv"
_STUDY = "small-data.csv"
_ABOUT = ("seconds", "date", "machine", "versions", "commit")
_TEXT = ("cell", "recipe", "method", "date", "machine", "versions", "commit", "bins")
"""Columns that are no numbers, even where they look like one (a commit such as 12e4567)."""


@dataclass(frozen=True)
class Made:
    """A finished cell.

    Attributes:
        rows: what was measured.
        about: its seconds, date, machine, versions and commit, as far as they are known.
    """

    rows: tuple[Row, ...]
    about: Mapping[str, Value]


def cell_folder(out: Path, key: str) -> Path:
    """Returns the folder that a cell is locked by and written to."""
    return out / "cells" / key


def is_made(out: Path, key: str) -> bool:
    """Returns whether a cell is finished in an output folder."""
    return (cell_folder(out, key) / _FILE).is_file()


def write_cell(out: Path, key: str, made: Made) -> None:
    """Writes a finished cell, atomically."""
    content = {"cell": key, "about": dict(made.about), "rows": list(made.rows)}
    atomic_write(cell_folder(out, key) / _FILE, json.dumps(content, indent=1) + "\n")


def read_out(out: Path) -> dict[str, Made]:
    """Returns the finished cells of an output folder, by key."""
    return dict(_read_cell(path) for path in sorted((out / "cells").rglob(_FILE)))


def _read_cell(path: Path) -> tuple[str, Made]:
    try:
        content = json.loads(path.read_text())
        return str(content["cell"]), Made(tuple(content["rows"]), dict(content["about"]))
    except (ValueError, LookupError, TypeError, RecursionError) as why:
        raise ValueError(
            f"{path} must be a cell that comixup wrote, but is damaged: {str(why)[:200]}. Delete "
            "it, and run the same command again."
        ) from None


def read_committed(results: Path) -> dict[str, Made]:
    """Returns the cells that are committed, by key; those of the study on small data too."""
    found = _read_study(results / _STUDY)
    for line in _read_csv(results / _INDEX):
        key = str(line.pop("cell"))
        found[key] = Made((), line)
    groups = dict.fromkeys(_group(key) for key in found)
    for group in groups:
        rows: dict[str, list[Row]] = {}
        for line in _read_csv(results / f"{group}.csv"):
            rows.setdefault(str(line.pop("cell")), []).append(line)
        found |= {key: Made(tuple(rows[key]), found[key].about) for key in rows if key in found}
    return found


def read_all(results: Path, out: Path) -> dict[str, Made]:
    """Returns committed cells and those of the output folder, which come before them."""
    return {**read_committed(results), **read_out(out)}


def commit_cells(results: Path, made: Mapping[str, Made]) -> int:
    """Adds cells to the committed ones; returns how many were new or had other numbers.

    Runs of the study on small data stay where they are: it has a table of its own.
    """
    old = read_committed(results)
    study = _read_study(results / _STUDY)
    new = {key: cell for key, cell in made.items() if key not in study}
    kept = {key: cell for key, cell in old.items() if key not in study} | new
    make_folder(results)
    index = [
        {"cell": key, **{name: cell.about.get(name, "") for name in _ABOUT}}
        for key, cell in sorted(kept.items())
    ]
    atomic_write(results / _INDEX, _csv_text(index))
    for group in dict.fromkeys(map(_group, sorted(kept))):
        rows = [
            {"cell": key, **row}
            for key, cell in sorted(kept.items())
            for row in cell.rows
            if _group(key) == group
        ]
        if rows:
            atomic_write(results / f"{group}.csv", _csv_text(rows))
    now = read_committed(results)
    return sum(key not in old or old[key].rows != now[key].rows for key in new)


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows as CSV, with the columns of all of them."""
    make_folder(path.parent)
    atomic_write(path, _csv_text(list(rows)))


def _group(key: str) -> str:
    """Returns the name of the CSV file that a committed cell's rows are in."""
    return key.partition("/")[0]


def _read_study(path: Path) -> dict[str, Made]:
    """Returns the runs of the study on small data, as `comixup.lab.paper.cells` keeps them."""
    found = {}
    for line in _read_csv(path):
        run = Run(str(line["recipe"]), str(line["method"]), int(float(line["seed"])))
        if run.recipe == SMALL:
            key = f"runs/{run.recipe}/{run.method}/seed-{run.seed}"
            found[key] = Made((line,), {"commit": str(line.get("commit", ""))})
    return found


def _read_csv(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [
            {name: text if name in _TEXT else _value(text) for name, text in line.items() if text}
            for line in csv.DictReader(file)
        ]


def _value(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text


def _csv_text(rows: list[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _written(value) for name, value in row.items()})
    return text.getvalue()


def _written(value: Any) -> Any:
    """Returns a number with as many digits as it is worth."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.7g}"
    return value
