"""The errors of each class, over the seeds of some methods."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from comixup.lab.training._folder import RunFolder, run_folder
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._results import Result, spread

MOST_CLASSES = 30
"""Rows of the table; of more classes those with the largest errors are shown."""
_OVERALL = {
    "balanced_error": "balanced error",
    "mean_average_precision": "mean average precision",
}
"""Measures over all classes that the last rows show, where a run has them."""


def classes_table(recipe: Recipe, results: Mapping[str, Mapping[int, Result]], out: Path) -> Table:
    """Returns a table of the error of each class, the largest first, a column per method.

    Its last row is the balanced error, in which all classes count alike; of images with several
    labels, the mean average precision.

    Args:
        recipe: what was trained.
        results: by method, then by seed.
        out: the folder of all runs.
    """
    rows = {
        method: [_read(run_folder(out, recipe.name, method, seed)) for seed in by_seed]
        for method, by_seed in results.items()
    }
    first = next(iter(rows.values()))[0]
    errors = {
        method: {key: _mean(table[key]["error"] for table in tables) for key in first}
        for method, tables in rows.items()
    }
    table = Table(
        title=Text(f"{recipe.name}: error of each class, %"), box=box.SIMPLE_HEAD, pad_edge=False
    )
    table.add_column("class")
    for column in ("training images", "test images"):
        table.add_column(column, justify="right")
    for method in errors:
        table.add_column(Text(method), justify="right", no_wrap=True)
    order = sorted(first, key=lambda key: -(_mean(errors[m][key] for m in errors) or 0.0))
    for key in order[:MOST_CLASSES]:
        shown = (errors[method][key] for method in errors)
        counts = (first[key]["training_images"], first[key]["test_images"])
        table.add_row(Text(key), *counts, *("" if e is None else f"{e:.1f}" for e in shown))
    if len(order) > MOST_CLASSES:
        table.add_row(f"... and {len(order) - MOST_CLASSES} more, in classes.csv of the runs")
    table.add_section()
    for measure, title in _OVERALL.items():
        values = [[r.final["test"].get(measure) for r in of.values()] for of in results.values()]
        shown_values = [[value for value in row if value is not None] for row in values]
        if all(shown_values):
            table.add_row(title, "", "", *map(spread, shown_values))
    return table


def _read(folder: RunFolder) -> dict[str, dict[str, str]]:
    """Returns the rows of a run's table of classes, by the class's name."""
    with folder.classes.open(newline="") as file:
        return {row["class"]: row for row in csv.DictReader(file)}


def _mean(values: Iterable[str | float | None]) -> float | None:
    """Returns the mean of the numbers that there are; None if there are none."""
    numbers = [float(value) for value in values if value not in (None, "")]
    return statistics.mean(numbers) if numbers else None
