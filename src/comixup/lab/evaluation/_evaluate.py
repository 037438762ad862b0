"""Everything that is measured of one trained network: the function behind `comixup evaluate`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from comixup._atomic_write import atomic_write, make_folder
from comixup.lab._limits import check_numbers
from comixup.lab._locks import locked
from comixup.lab._networks import check_finite
from comixup.lab._progress import progress_bar
from comixup.lab._runs import RunRecord
from comixup.lab.data import DataSet
from comixup.lab.evaluation._boxes import check_boxes
from comixup.lab.evaluation._cam import PROBED, ActivationMaps, CamMethod
from comixup.lab.evaluation._corruption import CORRUPTIONS, CorruptedLoader, Corruption
from comixup.lab.evaluation._localization import Localization, localize
from comixup.lab.evaluation._measure_run import FILE, Scaled, compute_of, scaled_calibration
from comixup.lab.evaluation._metrics import Metrics, measure, percent_and_interval, predict
from comixup.lab.evaluation._pictures import (
    draw_corruptions,
    draw_localization,
    draw_reliability,
)
from comixup.lab.evaluation._trained import Trained

BATCH = 250
RELIABILITY, LOCALIZATION, CORRUPTION = "reliability.png", "localization.png", "corruption.png"
_COLUMNS: Mapping[Corruption, str] = {
    "replace": "replaced",
    "noise": "noise",
    "added-noise": "added_noise",
}
"""How the names of metrics begin."""


@dataclass(frozen=True)
class CorruptedError:
    """The top-1 error with one kind of background, in percent.

    Attributes:
        images: how many have a box and so a background.
        error: theirs.
        interval: its confidence interval (Wilson's, 95 %).
        increment: by how much that exceeds the clean error of the same images, in percentage
            points: what the paper has in parentheses.
    """

    images: int
    error: float
    interval: tuple[float, float]
    increment: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What was measured of one network.

    Attributes:
        trained: the network.
        data: the data set whose test images were used.
        test_digest: of these images, see `Split.digest`.
        metrics: error, calibration and scores such as Brier's.
        localization: None without boxes.
        corruption: errors by kind of corruption; empty without boxes.
        scaled: calibration after temperature scaling; None for runs without images held out.
        compute: what training took, by name; empty for weights without a run's folder.
        maps_of: what objects were localized by; None without boxes.
        boxes: (n, k, 4) true boxes; None without.
        seed: of the corruption.
        image_size: pixels per side of the images; None for the data set's own.
    """

    trained: Trained
    data: DataSet
    test_digest: str
    metrics: Metrics
    localization: Localization | None = None
    corruption: Mapping[Corruption, CorruptedError] = field(default_factory=dict)
    scaled: Scaled | None = None
    compute: Mapping[str, float] = field(default_factory=dict)
    maps_of: ActivationMaps | None = None
    boxes: Tensor | None = None
    seed: int = 0
    image_size: int | None = None

    @property
    def summary(self) -> dict[str, float]:
        """All single numbers by their names."""
        found = {**self.metrics.summary, **self.compute}
        if self.scaled is not None:
            found |= {"scaled_ece": self.scaled.ece, "scaled_nll": self.scaled.nll}
        if self.localization is not None:
            found |= self.localization.summary
        for kind, corrupted in self.corruption.items():
            found[f"{_COLUMNS[kind]}_error"] = corrupted.error
            found[f"{_COLUMNS[kind]}_increment"] = corrupted.increment
        return found

    @property
    def record(self) -> RunRecord:
        """The run, for comparisons and reliability diagrams."""
        return RunRecord(
            self.trained.method or self.trained.path.name,
            self.trained.seed,
            self.summary,
            str((self.trained.recipe or {}).get("name", "")),
            self.test_digest,
            self.metrics.bins,
        )

    @property
    def text(self) -> str:
        """Everything but the metrics of single images, as JSON."""
        trained, recipe = self.trained, self.trained.recipe
        found = {
            "model": trained.name,
            "method": trained.method,
            "seed": trained.seed,
            "recipe": None if recipe is None else recipe.get("name"),
            "weights": str(trained.path),
            "weights_digest": trained.digest,
            "data": self.data.name,
            "test_digest": self.test_digest,
            "summary": self.summary,
            "metrics": _json(self.metrics),
            "localization": _json(self.localization),
            "corruption": _json(self.corruption),
            "scaled": _json(self.scaled),
        }
        return json.dumps(found, indent=2) + "\n"

    def table(self) -> Table:
        """Returns a table of the metrics, with their confidence intervals."""
        metrics, found, count = self.metrics, self.localization, self.metrics.images
        rows: list[tuple[str, str, tuple[float, float] | None, int]] = [
            ("top-1 error, %", f"{metrics.error:.2f}", metrics.error_interval, count),
            ("top-5 error, %", f"{metrics.top5_error:.2f}", metrics.top5_interval, count),
            ("ECE, % (10 bins)", f"{metrics.ece:.2f}", None, count),
            ("mean confidence, %", f"{metrics.confidence:.2f}", None, count),
            ("negative log-likelihood", f"{metrics.nll:.4f}", None, count),
            ("Brier score", f"{metrics.brier:.4f}", None, count),
        ]
        if self.scaled is not None:
            after = f"after temperature scaling (T = {self.scaled.temperature:.2f})"
            rows.append((f"ECE, %, {after}", f"{self.scaled.ece:.2f}", None, count))
            rows.append((f"NLL, {after}", f"{self.scaled.nll:.4f}", None, count))
        if found is not None:
            shown = [
                (row, f"{title}, % ({row.name})", name)
                for row in (found, *found.baselines)
                for title, name in (("Top-1 Loc", "top1_loc"), ("GT-known Loc", "gt_known"))
            ]
            shown.append((found, "MaxBoxAccV2, %", "max_box_acc_v2"))
            for row, title, name in shown:
                interval = getattr(row, f"{name}_interval")
                rows.append((title, f"{getattr(row, name):.2f}", interval, row.images))
        for kind, corrupted in self.corruption.items():
            value = f"{corrupted.error:.2f} ({corrupted.increment:+.2f})"
            title = f"error, %, background: {kind}"
            rows.append((title, value, corrupted.interval, corrupted.images))
        table = Table(title=Text(f"{self.trained.title} on {self.data.name}"))
        for column in ("", "value", "95 % interval", "images"):
            table.add_column(column, justify="left" if not column else "right", no_wrap=True)
        for title, value, interval, images in rows:
            between = "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"
            table.add_row(title, value, between, f"{images:,}")
        return table

    def draw(self, folder: Path) -> None:
        """Draws a reliability diagram and, with boxes, objects found and backgrounds corrupted."""
        title, data, size = self.trained.title, self.data, self.image_size
        draw_reliability({title: [self.record]}, folder / RELIABILITY)
        if self.boxes is None or self.maps_of is None or self.localization is None:
            return
        path, named = folder / LOCALIZATION, f"{title} on {data.name}"
        draw_localization(self.maps_of, data, self.boxes, self.localization, path, named, size)
        path = folder / CORRUPTION
        draw_corruptions(data, self.boxes, path, seed=self.seed, image_size=size)


def _json(value: Any) -> Any:
    """Returns a value as JSON types, without tensors; None for NaN, as of empty bins."""
    if dataclasses.is_dataclass(value):
        value = {name: own for name, own in vars(value).items() if not isinstance(own, Tensor)}
    if isinstance(value, Mapping):
        return {name: _json(own) for name, own in value.items()}
    if isinstance(value, tuple):
        return [_json(own) for own in value]
    return None if value != value else value  # noqa: PLR0124 - NaN


def evaluate(
    trained: Trained,
    data: DataSet,
    boxes: Tensor | None = None,
    *,
    device: torch.device | str = "cpu",
    image_size: int | None = None,
    workers: int = 0,
    maps: CamMethod = "cam",
    layer: str | None = None,
    seed: int = 0,
    console: Console | None = None,
) -> Evaluation:
    """Returns all that can be measured of a network on a data set's test images.

    Args:
        trained: the network.
        data: the data set.
        boxes: (n, k, 4) true boxes in the order of the test images, for localization and background
            corruption; None leaves both out.
        device: where to compute.
        image_size: pixels per side, for weights that do not say what their training ended with.
        workers: processes that read from disk.
        maps: "cam" or "grad-cam"; see `ActivationMaps`.
        layer: name of the module whose feature maps are used; None to find it.
        seed: of the corruption.
        console: where to show progress; None is silent.
    """
    check_numbers(workers=workers, seed=seed, image_size=image_size)
    trained.check_data(data)
    loading: dict[str, Any] = {
        "image_size": trained.image_size(data, image_size),
        "device": device,
        "workers": workers,
    }
    model = trained.model.to(device)
    size, name = len(data.test), trained.title
    loader = data.test.loader(BATCH, **loading)

    def corrupted(boxes: Tensor, kind: Corruption) -> CorruptedLoader:
        return CorruptedLoader(data, data.test, boxes, kind, BATCH, seed=seed, **loading)

    # Whatever can be rejected is, before the long computations: they would be lost.
    scaled, compute = scaled_calibration(trained.path), compute_of(trained.path)
    maps_of = None
    if boxes is not None:
        images, _ = next(iter(loader.epoch(0)))
        check_boxes(boxes, size, (images.shape[2], images.shape[3]))
        probed = images[:PROBED].to(device)
        with torch.no_grad():
            check_finite(model(probed).isfinite().all(1), trained.path)
        maps_of = ActivationMaps(model, probed, layer=layer, method=maps)
        corrupted(boxes, "noise")
    with progress_bar(console, f"{name}: predictions", size) as after:
        predictions = predict(model, loader.epoch(0), device, after, trained.path)
    measured = Evaluation(
        trained,
        data,
        data.test.digest(),
        measure(predictions),
        scaled=scaled,
        compute=compute,
        maps_of=maps_of,
        boxes=boxes,
        seed=seed,
        image_size=loading["image_size"],
    )
    if boxes is None or maps_of is None:
        return measured
    with progress_bar(console, f"{name}: localization", size) as after:
        found = localize(maps_of, loader.epoch(0), boxes, device=device, after=after)
    errors: dict[Corruption, CorruptedError] = {}
    for kind in CORRUPTIONS:
        batches = corrupted(boxes, kind)
        with progress_bar(console, f"{name}: {kind}", len(batches.kept)) as after:
            wrong = predict(model, batches.epoch(), device, after, trained.path).ranks > 0
        clean = predictions.ranks[batches.kept] > 0
        error, interval = percent_and_interval(int(wrong.sum()), len(wrong))
        increment = error - 100 * int(clean.sum()) / len(wrong)
        errors[kind] = CorruptedError(len(wrong), error, interval, increment)
    return dataclasses.replace(measured, localization=found, corruption=errors)


# ---- Files ---------------------------------------------------------------------------------------


def write_evaluation(evaluation: Evaluation, folder: Path) -> None:
    """Writes an evaluation into a folder, atomically."""
    make_folder(folder)
    atomic_write(folder / FILE, evaluation.text)


def output_folders(runs: Sequence[Path], out: Path | None = None) -> list[Path]:
    """Returns where each run's metrics go: its own folder, or one of its name; `out` for one run.

    What cannot be written there, or is in use, raises an error.
    """
    folders = [run if run.is_dir() else run.parent / run.stem for run in runs]
    if out is not None:
        folders = [out] * len(runs)
    if len({folder.resolve() for folder in folders}) < len(runs):
        raise ValueError(
            f"`runs` must have a folder each to write into, got {', '.join(map(str, folders))}. "
            "Evaluate them one by one, each with another --out."
        )
    for folder in folders:
        with locked(folder):
            for name in (FILE, RELIABILITY, LOCALIZATION, CORRUPTION):
                if (folder / name).is_dir():
                    raise IsADirectoryError(
                        f"`folder` must have no folders in the place of files, but {folder / name} "
                        "is one. Move it away, or choose another folder with --out."
                    )
    return folders
