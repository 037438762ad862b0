"""What came out of runs: one, and several seeds together."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from comixup.training._recipe import Recipe

LAST_EPOCHS = 10
"""The paper's errors are medians over so many last epochs (the released code's habit)."""

_REPORTED = {"median": "median of 10", "last": "last", "validation": "best validation"}


@dataclass(frozen=True)
class Result:
    """How a run ended; errors are top-1 errors on the test images, in percent.

    Attributes:
        epochs: trained.
        last: the last epoch's error.
        best: the lowest of all epochs: chosen by the test images, so too good.
        median: over the last ten epochs.
        validation: median over the last ten epochs of the error on the validation part; None
            without one.
        at_best_validation: where validation accuracy was best; None without a validation part.
        top5: the last epoch's top-5 error.
        seconds_per_epoch: median time of training, evaluation not counted.
        reported: which of them counts; see `Recipe`.
    """

    epochs: int
    last: float
    best: float
    median: float
    validation: float | None
    at_best_validation: float | None
    top5: float
    seconds_per_epoch: float
    reported: str = "median"

    @property
    def error(self) -> float:
        """The figure to report: the one that the recipe says."""
        if self.reported == "validation" and self.at_best_validation is not None:
            return self.at_best_validation
        return self.last if self.reported == "last" else self.median

    def as_dict(self) -> dict[str, float | str | None]:
        """Returns the figures, with the one to report."""
        return {"error": self.error, **dataclasses.asdict(self)}


def summarise(history: Sequence[Mapping[str, float]], recipe: Recipe) -> Result:
    """Returns the result of a run's epochs."""
    errors = [row["test_error"] for row in history]
    chosen = validation = None
    if all("validation_error" in row for row in history):
        chosen = min(history, key=lambda row: row["validation_error"])["test_error"]
        held_out = [row["validation_error"] for row in history[-LAST_EPOCHS:]]
        validation = statistics.median(held_out)
    return Result(
        epochs=len(history),
        last=errors[-1],
        best=min(errors),
        median=statistics.median(errors[-LAST_EPOCHS:]),
        validation=validation,
        at_best_validation=chosen,
        top5=history[-1]["test_top5_error"],
        seconds_per_epoch=statistics.median(row["seconds"] for row in history),
        reported=recipe.reported,
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

    Args:
        recipe: what was trained.
        results: by method, then by seed.
    """
    table = Table(title=f"{recipe.name}: top-1 error on the test images, %")
    figure = f"error ({_REPORTED[recipe.reported]})"
    columns = ["method", "seeds", figure, "median", "last", "best", "top-5", "s/epoch", "paper"]
    for column in columns:
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, by_seed in results.items():
        rows = list(by_seed.values())
        paper = recipe.methods[method].paper
        table.add_row(
            method,
            " ".join(map(str, by_seed)),
            spread([r.error for r in rows]),
            spread([r.median for r in rows]),
            spread([r.last for r in rows]),
            spread([r.best for r in rows]),
            spread([r.top5 for r in rows]),
            f"{statistics.mean(r.seconds_per_epoch for r in rows):.1f}",
            "" if paper is None else f"{paper:.2f}",
        )
    return table
