"""Runs measured again with batch-norm statistics of clean images.

    python studies/batch_norm/study.py collect runs/cifar100-small-data/*/seed-*
    python studies/batch_norm/study.py report        # means of each method, before and after

Running means and variances are averages over the batches of training, which methods mix in
different proportions; an evaluation sees unmixed images alone. This measures how much of a method's
error and calibration is due to that: the statistics are estimated once more, on the run's own
training images, augmented but unmixed, and everything else stays.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.optim.swa_utils import update_bn

from comixup._atomic_write import atomic_write, make_folder
from comixup.lab._progress import track
from comixup.lab._tables import csv_table, read_csv
from comixup.lab.data import DataSet, load
from comixup.lab.evaluation import load_trained, measure, predictions_of, trained_on

TABLE = Path("docs/results/small-data-batch-norm.csv")
BATCH = 100
EVALUATION_BATCH = 250
_METRICS = ("error", "ece", "clean_error", "clean_ece")
_DIGITS = 6


@dataclass(frozen=True)
class Reestimated:
    """Error and ECE of a run in percent, with its own statistics and with those of clean images."""

    method: str
    seed: int
    error: float
    ece: float
    clean_error: float
    clean_ece: float


def reestimate(folder: Path) -> Reestimated:
    """Returns a finished run's test metrics before and after the statistics are estimated anew.

    Args:
        folder: of the run; its data are looked for where they lay when it was trained.
    """
    trained = load_trained(folder)
    if trained.recipe is None or trained.method is None or trained.seed is None:
        raise ValueError(
            f"`folder` must be that of a finished run, got {folder}, which has no run.json."
        )
    data = _data_of(trained.recipe, trained.seed, trained_on(folder).root)
    stated = trained.stated_preprocessing
    if stated is not None:
        data = data.with_normalization(stated.mean, stated.std)
    before = _metrics(trained.model, data)
    loader = data.train.loader(BATCH, seed=trained.seed, augment=trained.recipe["augment"])
    trained.model.train()
    update_bn((images for images, _ in loader.epoch(0)), trained.model)
    after = _metrics(trained.model, data)
    return Reestimated(trained.method, trained.seed, *before, *after)


def collect(*folders: tyro.conf.Positional[Path], table: Path = TABLE) -> None:
    """Measure runs with batch-norm statistics of clean images, and add them to a table.

    Args:
        folders: of finished runs.
        table: the CSV file.
    """
    rows = {(row.method, row.seed): row for row in read_rows(table)}
    for folder in track(folders, len(folders), "runs"):
        row = reestimate(folder)
        rows[row.method, row.seed] = row
    make_folder(table.parent)
    atomic_write(table, csv_table([asdict(rows[key]) for key in sorted(rows)], _DIGITS))
    print(f"{table}: {len(rows)} runs")


def report(table: Path = TABLE) -> None:
    """Print each method's means, before and after.

    Args:
        table: the CSV file.
    """
    shown = Table("method", "seeds", *(name for name in _METRICS))
    found = read_rows(table)
    for method in dict.fromkeys(row.method for row in found):
        own = [row for row in found if row.method == method]
        means = (statistics.fmean(getattr(row, name) for row in own) for name in _METRICS)
        shown.add_row(method, str(len(own)), *(f"{mean:.2f}" for mean in means))
    Console().print(shown)


def read_rows(table: Path) -> list[Reestimated]:
    """Returns the rows of a table; none if there is no such file."""
    return [
        Reestimated(str(row["method"]), int(row["seed"]), *(float(row[name]) for name in _METRICS))
        for row in read_csv(table, ("method",))
    ]


def _data_of(recipe: Mapping[str, Any], seed: int, root: Path | None) -> DataSet:
    """Returns the very images that a run was trained and tested on."""
    names = ("classes", "images_per_class", "validation", "validation_seed", "test_fraction")
    return load(recipe["data"], root, seed=seed, **{name: recipe[name] for name in names})


@torch.no_grad()
def _metrics(model: nn.Module, data: DataSet) -> tuple[float, float]:
    """Returns the error and the ECE on the test images."""
    model.eval()
    pairs = [
        (model(images), targets) for images, targets in data.test.loader(EVALUATION_BATCH).epoch(0)
    ]
    logits, targets = (torch.cat(tensors) for tensors in zip(*pairs, strict=True))
    found = measure(predictions_of(logits, targets))
    return found.error, found.ece


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"collect": collect, "report": report})
