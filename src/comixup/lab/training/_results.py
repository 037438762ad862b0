"""The result of a run, and tables of several."""

from __future__ import annotations

import csv
import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from comixup.lab.training._folder import RunFolder
from comixup.lab.training._recipe import Recipe

LAST_EPOCHS = 10
"""The paper's errors are medians over so many last epochs (as the official implementation does)."""

_ERRORS = {
    "median": ("median", "the median of the last ten epochs"),
    "last": ("last", "the last epoch's error"),
    "best": ("best", ""),
    "validation": ("best val.", "the error where validation accuracy was best"),
}
"""Columns of the table of results, by the word that a recipe has for them, and what they are."""
_NARROWEST = len("± 0.00 ")


@dataclass(frozen=True)
class Result:
    """The result of a run; errors are top-1 errors on the test images, in percent.

    Attributes:
        epochs: trained.
        last: the last epoch's error.
        best: the lowest of all epochs: chosen by the test images, so too good.
        median: over the last ten epochs that were evaluated.
        validation: median over the last ten epochs of the error on the validation images; None
            without any.
        at_best_validation: where validation accuracy was best; None without validation images.
        top5: the last epoch's top-5 error; None of images with any number of labels.
        seconds_per_epoch: median time of training, evaluation not counted.
        cpu_seconds: CPU time of all epochs' training, over all processes and threads.
        reported: which of them counts; see `Recipe`.
        final: what `measures` returns by split ("test" and perhaps "validation"), of the weights
            that the run keeps: the last, or the best by validation where these are reported.
        folder: of the run's files.
    """

    epochs: int
    last: float
    best: float
    median: float
    validation: float | None
    at_best_validation: float | None
    top5: float | None
    seconds_per_epoch: float
    cpu_seconds: float
    reported: str = "median"
    final: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    folder: Path | None = dataclasses.field(default=None, compare=False)

    @property
    def errors(self) -> dict[str, float]:
        """The errors that there are, by the words that a recipe has for them."""
        errors = {"median": self.median, "last": self.last, "best": self.best}
        if self.at_best_validation is not None:
            errors["validation"] = self.at_best_validation
        return errors

    @property
    def metric_name(self) -> str:
        """Which error to report: what the recipe says, or the median where there is no such."""
        return self.reported if self.reported in self.errors else "median"

    @property
    def error(self) -> float:
        """The error to report."""
        return self.errors[self.metric_name]

    def as_dict(self) -> dict[str, Any]:
        """Returns all numbers, with the error to report."""
        numbers = {**dataclasses.asdict(self), "error": self.error}
        return {name: value for name, value in numbers.items() if name != "folder"}


def result_of(
    history: Sequence[Mapping[str, float]],
    recipe: Recipe,
    final: Mapping[str, Mapping[str, float]] | None = None,
    folder: Path | None = None,
) -> Result:
    """Returns the result of a run from its history and the metrics of its final weights."""
    cpu_seconds = sum(row["cpu_seconds"] for row in history)
    seconds = statistics.median(row["seconds"] for row in history)
    epochs, history = len(history), [row for row in history if "test_error" in row]
    errors = [row["test_error"] for row in history]
    chosen = validation = None
    if all("validation_error" in row for row in history):
        chosen = min(history, key=lambda row: row["validation_error"])["test_error"]
        held_out = [row["validation_error"] for row in history[-LAST_EPOCHS:]]
        validation = statistics.median(held_out)
    return Result(
        epochs=epochs,
        last=errors[-1],
        best=min(errors),
        median=statistics.median(errors[-LAST_EPOCHS:]),
        validation=validation,
        at_best_validation=chosen,
        top5=history[-1].get("test_top5_error"),
        seconds_per_epoch=seconds,
        cpu_seconds=cpu_seconds,
        reported=recipe.reported,
        final=final or {},
        folder=folder,
    )


def spread(values: Sequence[float]) -> str:
    """Returns the mean with the standard deviation, if there are several.

    >>> spread([20.0, 21.0, 22.0]), spread([20.0])
    ('21.00 ± 1.00', '20.00')
    """
    if len(values) < 2:
        return f"{values[0]:.2f}"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def results_table(recipe: Recipe, results: Mapping[str, Mapping[int, Result]]) -> Table:
    """Returns a table of a recipe's results: a row per method, over its seeds.

    The error that the recipe reports is marked by a star.
    """
    everything = [result for by_seed in results.values() for result in by_seed.values()]
    reported = everything[0].metric_name
    what = "label error" if recipe.loss == "binary-cross-entropy" else "top-1 error"
    table = Table(
        title=Text(f"{recipe.name}: {what} on the test images, %"),
        caption=f"* what this recipe reports: {_ERRORS[reported][1]}",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("method", no_wrap=True)
    table.add_column("seeds")
    # Eighty columns have no room for errors that are not reported: result.json has them all.
    shown = [name for name in _ERRORS if name != "validation" or name == reported]
    for name in shown:
        star, style = ("*", "bold") if name == reported else ("", "")
        header = f"{_ERRORS[name][0]}{star}"
        table.add_column(header, justify="right", style=style, min_width=_NARROWEST)
    printed = any(recipe.choose(method).paper is not None for method in results)
    for column in ("s/epoch", *(["paper"] if printed else [])):
        table.add_column(column, justify="right", no_wrap=True)
    for method, by_seed in results.items():
        rows = list(by_seed.values())
        paper = recipe.choose(method).paper
        table.add_row(
            Text(method),
            " ".join(map(str, by_seed)),
            *(spread([row.errors[name] for row in rows]) for name in shown),
            f"{statistics.mean(row.seconds_per_epoch for row in rows):.1f}",
            *(["" if paper is None else f"{paper:.2f}"] if printed else []),
        )
    return table


MOST_CLASSES = 30
"""Rows of the table; of more classes those with the largest errors are shown."""
_OVERALL = {
    "balanced_error": "balanced error",
    "mean_average_precision": "mean average precision",
}
"""Measures over all classes that the last rows show, where a run has them."""


def classes_table(recipe: Recipe, results: Mapping[str, Mapping[int, Result]]) -> Table:
    """Returns a table of the error of each class, the largest first, a column per method.

    Its last row is the balanced error, in which all classes count alike; of images with several
    labels, the mean average precision.
    """
    rows: dict[str, list[dict[str, dict[str, str]]]] = {}
    for method, by_seed in results.items():
        for result in by_seed.values():
            with RunFolder(result.folder or Path()).classes.open(newline="") as file:
                tables = rows.setdefault(method, [])
                tables.append({row["class"]: row for row in csv.DictReader(file)})
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


def _mean(values: Iterable[str | float | None]) -> float | None:
    """Returns the mean of the numbers that there are; None if there are none."""
    numbers = [float(value) for value in values if value not in (None, "")]
    return statistics.mean(numbers) if numbers else None
