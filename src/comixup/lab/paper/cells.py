"""Cells of a result table: what is measured of one finished run, small enough to be committed.

A study trains many runs; their folders stay where they were trained. What tables and figures need
of them is a row of numbers each, in a CSV file that is kept with the docs, so that every table can
be made again without training.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comixup._atomic_write import atomic_write
from comixup.lab.evaluation import Bin, Metrics, fit_temperature, measure, predictions_of
from comixup.lab.training import passes_per_image, read_logits


@dataclass(frozen=True)
class Cell:
    """What was measured of one run, on its test images, with its last weights.

    Attributes:
        recipe: its name.
        method: its name in the recipe.
        seed: of the run.
        epochs: that it was trained for.
        passes: forward and backward passes over a training image, in all epochs.
        error: top-1 error, in percent.
        top5_error: in percent.
        nll: mean negative log-likelihood.
        ece: expected calibration error, in percent.
        temperature: fitted on the validation images.
        scaled_nll: after temperature scaling.
        scaled_ece: after temperature scaling, in percent.
        train_error: in the last epoch, on augmented training images, in percent; NaN if no unmixed
            image was predicted.
        validation_error: in percent.
        cpu_seconds: of training.
        commit: of the source that trained it.
        bins: (count, mean confidence, accuracy) of each tenth of the confidence.
    """

    recipe: str
    method: str
    seed: int
    epochs: int
    passes: float
    error: float
    top5_error: float
    nll: float
    ece: float
    temperature: float
    scaled_nll: float
    scaled_ece: float
    train_error: float
    validation_error: float
    cpu_seconds: float
    commit: str
    bins: tuple[tuple[int, float, float], ...]

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers that a comparison can have as columns, by name."""
        names = ("error", "top5_error", "nll", "ece", "scaled_nll", "scaled_ece", "passes")
        return {name: getattr(self, name) for name in (*names, "cpu_seconds")}

    def as_metrics(self, images: int) -> Metrics:
        """Returns what a reliability diagram needs of the cell."""
        bins = tuple(Bin(*row) for row in self.bins)
        nothing = (math.nan, math.nan)
        return Metrics(
            images, self.error, nothing, self.top5_error, nothing, self.ece, self.nll, math.nan,
            math.nan, bins,
        )  # fmt: skip


def read_run(folder: Path) -> Cell:
    """Returns the cell of a finished run's folder."""
    run, result = (_read_json(folder / name) for name in ("run.json", "result.json"))
    logits = read_logits(folder / "logits.safetensors")
    if not {"test", "validation"} <= set(logits):
        raise ValueError(
            f"`folder` must hold logits of test and validation images, got {sorted(logits)} in "
            f"{folder}. Train the recipe with images held out."
        )
    temperature = fit_temperature(*logits["validation"])
    test, targets = logits["test"]
    plain = measure(predictions_of(test, targets))
    scaled = measure(predictions_of(test / temperature, targets))
    with (folder / "metrics.csv").open(newline="") as file:
        last = list(csv.DictReader(file))[-1]
    method = run["recipe"]["methods"][run["method"]]
    commits = {start.get("commit") or "unknown" for start in run["starts"]}
    return Cell(
        recipe=run["recipe"]["name"],
        method=run["method"],
        seed=run["seed"],
        epochs=result["epochs"],
        passes=result["epochs"] * passes_per_image(method),
        # From the run itself: its logits are kept in half precision.
        error=result["final"]["test"]["error"],
        top5_error=plain.top5_error,
        nll=result["final"]["test"]["nll"],
        ece=result["final"]["test"]["ece"],
        temperature=temperature,
        scaled_nll=scaled.nll,
        scaled_ece=scaled.ece,
        train_error=float(last.get("train_error") or math.nan),
        validation_error=result["final"]["validation"]["error"],
        cpu_seconds=result["cpu_seconds"],
        commit=" ".join(sorted(commits)),
        bins=tuple((b.count, b.confidence, b.accuracy) for b in plain.bins),
    )


def write_cells(cells: Iterable[Cell], path: Path) -> None:
    """Writes cells to a CSV file, sorted, atomically."""
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(Cell)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for cell in sorted(cells, key=lambda c: (c.recipe, c.method, c.seed)):
        row = {name: _text(getattr(cell, name)) for name in names}
        writer.writerow(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, text.getvalue())


def read_cells(path: Path) -> list[Cell]:
    """Returns the cells of a CSV file that `write_cells` wrote."""
    try:
        with path.open(newline="") as file:
            return [_cell(row) for row in csv.DictReader(file)]
    except (KeyError, TypeError, ValueError) as why:
        raise ValueError(
            f"`path` must be a table of cells that comixup wrote, but {path} is not one: {why}."
        ) from None


def merged(old: Iterable[Cell], new: Iterable[Cell]) -> list[Cell]:
    """Returns all cells, the new ones in place of old ones of the same run."""
    by_run = {(c.recipe, c.method, c.seed): c for c in (*old, *new)}
    return list(by_run.values())


def _cell(row: Mapping[str, str]) -> Cell:
    values: dict[str, Any] = {}
    for field in dataclasses.fields(Cell):
        text = row[field.name]
        if field.name == "bins":
            rows = [part.split(":") for part in text.split()]
            values["bins"] = tuple((int(n), float(c), float(a)) for n, c, a in rows)
        else:
            kind = {"int": int, "float": float}.get(str(field.type), str)
            values[field.name] = kind(text)
    return Cell(**values)


def _text(value: str | float | Sequence[tuple[int, float, float]]) -> str:
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return " ".join(
        f"{count}:{confidence:.5g}:{accuracy:.5g}" for count, confidence, accuracy in value
    )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(
            f"`folder` must be that of a finished run, but there is no {path}. Train it to its end."
        ) from None
    except (ValueError, RecursionError) as why:
        raise ValueError(
            f"{path} must be a file that comixup wrote, but is damaged: {why}."
        ) from None
    if not isinstance(found, dict):
        raise ValueError(
            f"{path} must be a file that comixup wrote, but holds {type(found).__name__}."
        )
    return found
