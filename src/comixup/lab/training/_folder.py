"""The files of a run's folder: metadata, metrics, checkpoint."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from importlib import metadata as packages
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import torch
from torch import Tensor

from comixup._atomic_write import atomic_write
from comixup._checks import reason_of
from comixup.lab._networks import kind_of
from comixup.lab._source_commit import source_commit
from comixup.lab._tables import csv_table
from comixup.lab._weights_file import CHECKPOINT, WEIGHTS, check_archive
from comixup.lab.training._run import Run, difference, settings_of

METADATA = "run.json"
LOGITS = "logits.safetensors"
METRICS = "metrics.csv"
RESULT = "result.json"
VARIANTS = "variants.txt"
DIGITS = 6
"""Significant digits of numbers in tables."""


class RunFolder:
    """The paths of the files in a run's folder.

    Args:
        path: the folder.

    Attributes:
        metadata: recipe, versions, machine and start times: JSON.
        checkpoint: the state to resume from.
        metrics: a row of metrics for each epoch: CSV.
        events: the folder of TensorBoard's files.
        first_batch: figure of the first batch with mixtures.
        weights: the final weights, safetensors; only finished runs have them and the files below.
        logits: the final logits of the images not trained on; see `read_logits`.
        classes: number of images and error of each class: CSV.
        curves: figure of the learning curves.
        last_batch: figure of a batch of the last mixed epoch.
        result: the metrics of `RunRecord.as_row`: JSON, written last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata, self.checkpoint = path / METADATA, path / CHECKPOINT
        self.metrics, self.events = path / METRICS, path / "tensorboard"
        self.first_batch, self.last_batch = path / "first_batch.png", path / "last_batch.png"
        self.weights, self.logits = path / WEIGHTS, path / LOGITS
        self.classes, self.curves = path / "classes.csv", path / "curves.png"
        self.result = path / RESULT


def run_folder(out: Path, run: Run) -> tuple[RunFolder, str]:
    """Returns the folder of a run, and how its settings differ from those in the usual folder.

    The folder is OUT/RECIPE/METHOD/seed-N, or OUT/RECIPE/METHOD-VARIANT/seed-N (`Run.variant`) if
    the former has runs with other settings.
    """
    recipe, seed = out / run.recipe.name, f"seed-{run.seed}"
    usual, own = recipe / run.method, recipe / f"{run.method}-{run.variant}"
    begun = {}
    for path in sorted(usual.glob(f"seed-*/{METADATA}")):
        about = read_metadata(path)
        with contextlib.suppress(LookupError, TypeError):  # damaged
            begun[about["variant"]] = settings_of(about["recipe"], run.method)
    if not own.exists() and (not begun or run.variant in begun):
        return RunFolder(usual / seed), ""
    differs = "; ".join(difference(other, run.settings) for other in list(begun.values())[:1])
    return RunFolder(own / seed), differs


def read_metadata(path: Path) -> dict[str, Any]:
    """Returns a run's METADATA; empty if the file is missing, damaged or not a run's."""
    try:
        about = json.loads(path.read_text())
        json.dumps(about, indent=2)  # it writes less nesting than it reads
        return about if isinstance(about, dict) else {}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}


_PACKAGES = ("comixup", "torch", "torchvision", "lightning-fabric", "numpy", "timm")


def write_metadata(folder: Path, recipe: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """Writes recipe, versions and machine; each start adds an entry with its time."""
    path = folder / METADATA
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(packages.PackageNotFoundError):
            versions[package] = packages.version(package)
    here = {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "versions": versions,
        "commit": source_commit(),
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpus": [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())],
        },
    }
    starts = read_metadata(path).get("starts")
    starts = starts if isinstance(starts, list) else []
    metadata = {**run, "recipe": recipe, "starts": [*starts, here]}
    atomic_write(path, json.dumps(metadata, indent=2) + "\n")


def note_variant(folder: Path, differs: str) -> None:
    """Adds a variant's differences to its recipe's list, VARIANTS, next to its folder."""
    path, name = folder.parents[1] / VARIANTS, folder.parent.name
    lines = path.read_text().splitlines() if path.exists() else []
    if not any(line.startswith(f"{name}: ") for line in lines):
        atomic_write(path, "\n".join([*lines, f"{name}: {differs}"]) + "\n")


def write_metrics(folder: Path, history: Sequence[Mapping[str, float]]) -> None:
    """Writes the whole history as a table, so that it agrees with the checkpoint."""
    atomic_write(folder / METRICS, csv_table(history, DIGITS))


def read_metrics(folder: Path) -> list[dict[str, float]]:
    """Returns the rows written by `write_metrics`."""
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


CHECKPOINT_VERSION = 4
"""Increment it when the fields of `State` change: other versions are rejected."""


@dataclass
class State:
    """The state of a run, as saved in checkpoints.

    All generators are reseeded for each micro-batch from the run's seed and the counters below:
    `epoch` and `step` are their whole state.

    Attributes:
        identity: recipe, method, seed and data, equal for equal runs.
        epoch: the current or next epoch, from 0.
        step: number of its completed steps.
        model: the network's weights and buffers; their averages if the recipe has `ema`.
        optimizer: state of the optimizer.
        precision: state of the precision plugin (the scale of half-precision losses).
        totals: sums over the current epoch.
        history: one row per completed epoch.
        finished: whether the run is complete.
        final: metrics of the final weights, by split; empty before the end.
        memory: remembered saliency maps of one-pass methods; rank 0's last batch, for methods that
            mix it into the next.
        best: weights and buffers after the epoch with the lowest validation error, if the recipe
            reports that epoch.
        trained: weights and buffers in training, if `model` holds their averages; else empty.
        averaged_steps: number of averaged steps.
    """

    identity: dict[str, Any]
    epoch: int = 0
    step: int = 0
    model: dict[str, Any] = field(default_factory=dict)
    optimizer: dict[str, Any] = field(default_factory=dict)
    precision: dict[str, Any] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    finished: bool = False
    final: dict[str, dict[str, float]] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    best: dict[str, Any] = field(default_factory=dict)
    trained: dict[str, Any] = field(default_factory=dict)
    averaged_steps: int = 0

    @property
    def is_best(self) -> bool:
        """Whether the last epoch has the lowest validation error so far, without ties."""
        errors = [row["validation_error"] for row in self.history if "validation_error" in row]
        just_now = bool(self.history) and "validation_error" in self.history[-1]
        return just_now and errors.index(min(errors)) == len(errors) - 1


def save_state(state: State, path: Path) -> None:
    """Writes a checkpoint atomically."""
    buffer = io.BytesIO()
    torch.save({"format": CHECKPOINT_VERSION, **vars(state)}, buffer)
    atomic_write(path, buffer.getvalue())


def load_state(path: Path, identity: dict[str, Any]) -> State | None:
    """Returns the state of a checkpoint, without running code in it; None if there is none.

    Args:
        path: the checkpoint.
        identity: identity of the run to resume; checkpoints of other runs are rejected.
    """
    if not path.exists():
        return None
    content = io.BytesIO(path.read_bytes())
    try:
        with zipfile.ZipFile(content) as archive:
            check_archive(archive, content.getbuffer().nbytes)
            damaged = archive.testzip()  # verifies checksums, which torch writes but does not check
        if damaged is not None:
            raise ValueError(f"the checksum of its record {damaged} is wrong")
        content.seek(0)
        raw = torch.load(content, map_location="cpu", weights_only=True)
    except Exception as why:  # a damaged file can raise anything
        raise ValueError(
            f"`checkpoint` must be one that comixup wrote, but {path} is damaged or holds "
            f"objects other than tensors and plain data ({reason_of(why)}). Nothing was "
            "changed: put back a good copy, or move the file away to train from the start."
        ) from None
    names = {f.name for f in fields(State)}
    if (
        not isinstance(raw, dict)
        or raw.get("format") != CHECKPOINT_VERSION
        or not names <= set(raw)
    ):
        found = raw.get("format") if isinstance(raw, dict) else type(raw).__name__
        raise ValueError(
            f"`checkpoint` must be of format {CHECKPOINT_VERSION}, but {path} has {found!r}. "
            "Nothing was changed: use the version of comixup that wrote it, or move the file away."
        )
    state = State(**{name: raw[name] for name in names})
    wrong = [
        name
        for name, hint in get_type_hints(State).items()
        if not isinstance(getattr(state, name), get_origin(hint) or hint)
    ]
    if not wrong and not (
        len(state.history) == state.epoch
        and all(isinstance(row, dict) for row in state.history)
        and all(
            isinstance(value, (int, float))
            for row in [*state.history, state.totals]
            for value in row.values()
        )
    ):
        wrong = ["history"]
    if wrong:
        raise ValueError(
            f"`checkpoint` must hold what comixup writes, but {', '.join(wrong)} of {path} is "
            "something else. Nothing was changed: put back a good copy, or move the file away."
        )
    check_identity(state, identity, path.parent)
    return state


def check_identity(state: State, identity: dict[str, Any], folder: Path) -> None:
    """Rejects the state of another run."""
    changes = difference(state.identity, identity)
    if changes:
        raise ValueError(
            f"`folder` must be this run's own, but {folder} holds another: {changes}. Nothing was "
            "changed: choose another folder with --out, or go back to the previous settings."
        )


def load_optimizer(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Loads an optimizer's state from a checkpoint; its settings stay the recipe's."""
    groups = optimizer.state_dict()["param_groups"]
    order = [group["params"] for group in groups]
    if [group["params"] for group in saved["param_groups"]] != order:
        raise ValueError("the optimizer's weights are others")
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for index, values in saved["state"].items():
        for name, value in values.items():
            # Step counts are 0-d tensors.
            if isinstance(value, Tensor) and value.ndim and value.shape != weights[index].shape:
                raise ValueError(
                    f"the optimizer's {name} must be {kind_of(weights[index])}, but is "
                    f"{kind_of(value)}"
                )
    optimizer.load_state_dict({"state": saved["state"], "param_groups": groups})
