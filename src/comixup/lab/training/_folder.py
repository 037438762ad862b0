"""The files of a run's folder: what was trained, with what, where, and how it went."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata as packages
from pathlib import Path
from typing import Any

import torch

from comixup._atomic_write import atomic_write
from comixup.lab._source_commit import source_commit
from comixup.lab._tables import csv_table
from comixup.lab._weights_file import CHECKPOINT, WEIGHTS

METADATA = "run.json"
LOGITS = "logits.safetensors"
METRICS = "metrics.csv"
RESULT = "result.json"
CURVES = "curves.png"
CLASSES = "classes.csv"
FIRST_BATCH = "first_batch.png"
EVENTS = "tensorboard"
DIGITS = 6
"""Significant ones of numbers in tables."""


@dataclass(frozen=True)
class RunFolder:
    """The files that a run leaves in its folder.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def metadata(self) -> Path:
        """What is trained, with what versions, where, and when it was started: JSON."""
        return self.path / METADATA

    @property
    def checkpoint(self) -> Path:
        """The state that a run resumes from."""
        return self.path / CHECKPOINT

    @property
    def metrics(self) -> Path:
        """A row of metrics for each epoch: CSV."""
        return self.path / METRICS

    @property
    def weights(self) -> Path:
        """The final weights: safetensors. A finished run has them, and the files below."""
        return self.path / WEIGHTS

    @property
    def logits(self) -> Path:
        """The final logits of the images not trained on; see `read_logits`."""
        return self.path / LOGITS

    @property
    def classes(self) -> Path:
        """The images and the error of each class: CSV."""
        return self.path / CLASSES

    @property
    def curves(self) -> Path:
        """The learning curves, drawn."""
        return self.path / CURVES

    @property
    def first_batch(self) -> Path:
        """The first mixed batch, drawn."""
        return self.path / FIRST_BATCH

    @property
    def events(self) -> Path:
        """The folder of TensorBoard's files."""
        return self.path / EVENTS

    @property
    def result(self) -> Path:
        """The numbers to report, as `Result.as_dict` has them: JSON, and written last."""
        return self.path / RESULT


def run_folder(out: Path, recipe: str, method: str, seed: int) -> RunFolder:
    """Returns the folder of a run: OUT/RECIPE/METHOD/seed-N."""
    return RunFolder(out / recipe / method / f"seed-{seed}")


_PACKAGES = ("comixup", "torch", "torchvision", "lightning-fabric", "numpy", "timm")


def write_metadata(folder: Path, recipe: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """Writes what is trained, with what, where and since when; each start adds an entry."""
    path = folder / METADATA
    here = {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "versions": {**_versions(), "python": platform.python_version()},
        "commit": source_commit(),
        "machine": _machine(),
    }
    metadata = {**run, "recipe": recipe, "starts": [*_earlier_starts(path), here]}
    atomic_write(path, json.dumps(metadata, indent=2) + "\n")


def _earlier_starts(path: Path) -> list[Any]:
    """Returns the starts that a run's metadata lists; none if the file is absent or damaged."""
    try:
        starts = list(json.loads(path.read_text())["starts"])
        json.dumps(starts, indent=2)  # writes less deeply nested lists than it reads
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []
    return starts


def write_metrics(folder: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Writes the whole history as a table: what a checkpoint holds and what it shows agree."""
    atomic_write(folder / METRICS, csv_table(history, DIGITS))


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """Returns the rows that `write_metrics` wrote."""
    path = folder / METRICS
    try:
        with path.open(newline="") as file:
            return [
                {name: float(value) for name, value in row.items() if value}
                for row in csv.DictReader(file, strict=True)
            ]
    except (ValueError, TypeError, AttributeError, csv.Error) as why:
        raise ValueError(
            f"`folder` must have the table that comixup wrote, but {path} is damaged "
            f"({str(why)[:200]}). Run the command that trained it again: it writes the table anew."
        ) from None


def _versions() -> dict[str, str]:
    versions = {}
    for package in _PACKAGES:
        with contextlib.suppress(packages.PackageNotFoundError):
            versions[package] = packages.version(package)
    return versions


def _machine() -> dict[str, Any]:
    gpus = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
    }
