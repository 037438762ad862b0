"""Records of runs from their metrics, and tables of several runs."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from comixup.lab._runs import RunRecord
from comixup.lab.training._folder import RunFolder, State
from comixup.lab.training._mixers import passes_per_image
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._run import Run

LAST_EPOCHS = 10
"""Epochs of the paper's median errors (as in the official implementation)."""

_ERRORS = {
    "median": ("median_error", "median", "the median of the last ten epochs"),
    "last": ("last_error", "last", "the last epoch's error"),
    "best": ("best_error", "best", ""),
    "validation": ("selected_error", "best val.", "the error where validation accuracy was best"),
}
"""Metric, column and description of an error, by its name in `Recipe.reported`."""
_NARROWEST = len("± 0.00 ")


def record_of(run: Run, state: State, folder: Path, test_digest: str | None = None) -> RunRecord:
    """Returns the record of a finished run.

    Its metrics are those of `run_metrics`, and the total passes per training image.
    """
    metrics = run_metrics(state.history, state.final, run.recipe.reported)
    metrics["passes"] = metrics["epochs"] * passes_per_image(run.chosen)
    name = run.recipe.name
    return RunRecord(run.method, run.seed, metrics, name, test_digest, folder=folder)


def paused_record(run: Run, history: Sequence[Mapping[str, float]], folder: Path) -> RunRecord:
    """Returns the record of a run's first epochs: `validation_error` is that of the last one."""
    errors = [row["validation_error"] for row in history if "validation_error" in row]
    final = {"validation": {"error": errors[-1]}} if errors else {}
    metrics = run_metrics(history, final, run.recipe.reported)
    return RunRecord(run.method, run.seed, metrics, run.recipe.name, folder=folder)


def run_metrics(
    history: Sequence[Mapping[str, float]],
    final: Mapping[str, Mapping[str, float]],
    reported: str,
) -> dict[str, float]:
    """Returns the metrics of a finished run; errors are top-1 errors in percent.

    - epochs: number of trained epochs;
    - error: the one of the following that the recipe reports;
    - last_error, best_error, median_error: on the test images, of the last epoch, of the best one
      (selected on the test images, so too low), over the last ten evaluated ones;
    - selected_error: of the epoch with the best validation accuracy; median_validation_error: of
      the validation images, over the last ten epochs. Both require held-out images;
    - top5_error: of the last epoch; not for multi-label data;
    - seconds_per_epoch: median training time, without evaluation;
    - cpu_seconds: training time over all epochs, processes and threads;
    - final_error, nll, ece, images and the other metrics of `measures` on the test images,
      validation_error, validation_nll, ... on the validation images: of the saved weights, the last
      or, if reported, the best by validation.

    Args:
        history: a row for each epoch.
        final: metrics of `measures` by split, of the saved weights.
        reported: see `Recipe`; the median if there is no such error.
    """
    rows = [row for row in history if "test_error" in row]
    errors = [row["test_error"] for row in rows]
    metrics = {
        "epochs": len(history),
        "last_error": errors[-1],
        "best_error": min(errors),
        "median_error": statistics.median(errors[-LAST_EPOCHS:]),
        "seconds_per_epoch": statistics.median(row["seconds"] for row in history),
        "cpu_seconds": sum(row["cpu_seconds"] for row in history),
    }
    if all("validation_error" in row for row in rows):
        metrics["selected_error"] = min(rows, key=lambda r: r["validation_error"])["test_error"]
        held_out = [row["validation_error"] for row in rows[-LAST_EPOCHS:]]
        metrics["median_validation_error"] = statistics.median(held_out)
    if "test_top5_error" in rows[-1]:
        metrics["top5_error"] = rows[-1]["test_top5_error"]
    for split, measured in final.items():
        prefix = "" if split == "test" else f"{split}_"
        metrics |= {f"{prefix}{name}": value for name, value in measured.items()}
    if "test" in final:
        metrics["final_error"] = final["test"]["error"]
    return metrics | {"error": metrics[_ERRORS[_counting(reported, metrics)][0]]}


def _counting(reported: str, metrics: Mapping[str, float]) -> str:
    """Returns the name of the reported error: the recipe's, or the median if missing."""
    return reported if _ERRORS[reported][0] in metrics else "median"


def spread(values: Sequence[float]) -> str:
    """Returns the mean, with the standard deviation for several values.

    >>> spread([20.0, 21.0, 22.0]), spread([20.0])
    ('21.00 ± 1.00', '20.00')
    """
    if len(values) < 2:
        return f"{values[0]:.2f}"
    return f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}"


def results_table(recipe: Recipe, results: Mapping[str, Mapping[int, RunRecord]]) -> Table:
    """Returns a table of a recipe's results: a row per method, over its seeds.

    A star marks the error that the recipe reports.
    """
    everything = [result for by_seed in results.values() for result in by_seed.values()]
    reported = _counting(recipe.reported, everything[0].metrics)
    what = "label error" if recipe.loss == "binary-cross-entropy" else "top-1 error"
    table = Table(
        title=Text(f"{recipe.name}: {what} on the test images, %"),
        caption=f"* what this recipe reports: {_ERRORS[reported][2]}",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("method", no_wrap=True)
    table.add_column("seeds")
    # 80 columns have no room for all errors: result.json has them.
    shown = [name for name in _ERRORS if name != "validation" or name == reported]
    for name in shown:
        star, style = ("*", "bold") if name == reported else ("", "")
        header = f"{_ERRORS[name][1]}{star}"
        table.add_column(header, justify="right", style=style, min_width=_NARROWEST)
    printed = any(recipe.choose(method).paper is not None for method in results)
    for column in ("s/epoch", *(["paper"] if printed else [])):
        table.add_column(column, justify="right", no_wrap=True)
    for method, by_seed in results.items():
        rows = list(by_seed.values())
        seconds = statistics.mean(row.metrics["seconds_per_epoch"] for row in rows)
        paper = recipe.choose(method).paper
        table.add_row(
            Text(method),
            " ".join(map(str, by_seed)),
            *(spread([row.metrics[_ERRORS[name][0]] for row in rows]) for name in shown),
            f"{seconds:.1f}",
            *(["" if paper is None else f"{paper:.2f}"] if printed else []),
        )
    return table


MOST_CLASSES = 30
"""Most rows of the table, those of the classes with the largest errors."""
_OVERALL = {
    "balanced_error": "balanced error",
    "mean_average_precision": "mean average precision",
}
"""Metrics over all classes in the last rows, if a run has them."""


def classes_table(recipe: Recipe, results: Mapping[str, Mapping[int, RunRecord]]) -> Table:
    """Returns a table of the error of each class, the largest first, a column per method.

    Its last row is the balanced error, the mean over classes; for multi-label data, the mean
    average precision.
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
        values = [[r.metrics.get(measure) for r in of.values()] for of in results.values()]
        shown_values = [[value for value in row if value is not None] for row in values]
        if all(shown_values):
            table.add_row(title, "", "", *map(spread, shown_values))
    return table


def _mean(values: Iterable[str | float | None]) -> float | None:
    """Returns the mean of the numbers among values; None if there are none."""
    numbers = [float(value) for value in values if value not in (None, "")]
    return statistics.mean(numbers) if numbers else None
