"""Everything that is measured of one trained network: the function behind `comixup evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from comixup._checks import check_count
from comixup.lab._limits import MAX_SEED, MAX_SIDE
from comixup.lab._networks import check_finite
from comixup.lab._progress import progress_bar
from comixup.lab.data import DataSet
from comixup.lab.evaluation._boxes import check_boxes, with_background
from comixup.lab.evaluation._cam import PROBED, ActivationMaps, CamMethod
from comixup.lab.evaluation._corruption import CORRUPTIONS, CorruptedLoader, Corruption
from comixup.lab.evaluation._localisation import Localisation, localise
from comixup.lab.evaluation._measure_run import Scaled, compute_of, scaled_calibration
from comixup.lab.evaluation._metrics import Metrics, measure, predict, wilson_interval
from comixup.lab.evaluation._pictures import draw_corruptions, draw_localisation
from comixup.lab.evaluation._reliability import draw_reliability
from comixup.lab.evaluation._runs import RunRecord
from comixup.lab.evaluation._trained import Trained, check_data
from comixup.lab.training._hardware import MAX_WORKERS

BATCH = 250
RELIABILITY, LOCALISATION, CORRUPTION = "reliability.png", "localisation.png", "corruption.png"
COLUMN_OF: Mapping[Corruption, str] = {
    "replace": "replaced_error",
    "noise": "noise_error",
    "added-noise": "added_noise_error",
}


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
        data: name of the data set whose test images were used.
        test_digest: of these images, see `Split.digest`.
        metrics: error, calibration and scores such as Brier's.
        localisation: None without boxes.
        corruption: errors by kind of corruption; empty without boxes.
        scaled: calibration after temperature scaling; None for runs without images held out.
        compute: what training took, by name; empty for weights without a run's folder.
    """

    trained: Trained
    data: str
    test_digest: str
    metrics: Metrics
    localisation: Localisation | None = None
    corruption: Mapping[Corruption, CorruptedError] = field(default_factory=dict)
    scaled: Scaled | None = None
    compute: Mapping[str, float] = field(default_factory=dict)

    @property
    def summary(self) -> dict[str, float]:
        """All single numbers by their names."""
        found = {**self.metrics.summary, **self.compute}
        if self.scaled is not None:
            found |= {"scaled_ece": self.scaled.ece, "scaled_nll": self.scaled.nll}
        if self.localisation is not None:
            found |= self.localisation.summary
        for kind, corrupted in self.corruption.items():
            found[COLUMN_OF[kind]] = corrupted.error
            found[COLUMN_OF[kind].replace("error", "increment")] = corrupted.increment
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

    def as_dict(self) -> dict[str, Any]:
        """Returns everything but the metrics of single images, as JSON types."""
        trained, recipe = self.trained, self.trained.recipe
        return {
            "model": trained.name,
            "method": trained.method,
            "seed": trained.seed,
            "recipe": None if recipe is None else recipe.get("name"),
            "weights": str(trained.path),
            "weights_digest": trained.digest,
            "data": self.data,
            "test_digest": self.test_digest,
            "summary": self.summary,
            "metrics": self.metrics.as_dict(),
            "localisation": None if self.localisation is None else self.localisation.as_dict(),
            "corruption": {kind: vars(found) for kind, found in self.corruption.items()},
            "scaled": None if self.scaled is None else vars(self.scaled),
        }


def check_options(*, workers: int = 0, seed: int = 0, image_size: int | None = None) -> None:
    """Raises `ValueError` for numbers that no evaluation can have; see `evaluate`."""
    check_count("workers", workers, low=0, high=MAX_WORKERS)
    check_count("seed", seed, low=0, high=MAX_SEED)
    if image_size is not None:
        check_count("image_size", image_size, high=MAX_SIDE)


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
        boxes: (n, k, 4) true boxes in the order of the test images, for localisation and background
            corruption; None leaves both out.
        device: where to compute.
        image_size: pixels per side, for weights that do not say what their training ended with.
        workers: processes that read from disk.
        maps: "cam" or "grad-cam"; see `class_activation_maps`.
        layer: name of the module whose feature maps are used; None to find it.
        seed: of the corruption.
        console: where to show progress; None is silent.
    """
    check_options(workers=workers, seed=seed, image_size=image_size)
    check_data(trained, data)
    image_size = trained.image_size(data, image_size)
    model = trained.model.to(device)
    size, name = len(data.test), trained.title
    loader = data.test.loader(BATCH, image_size=image_size, device=device, workers=workers)

    def corrupted(boxes: Tensor, kind: Corruption) -> CorruptedLoader:
        return CorruptedLoader(
            data,
            data.test,
            boxes,
            kind,
            BATCH,
            seed=seed,
            image_size=image_size,
            device=device,
            workers=workers,
        )

    # Whatever can be rejected is, before the long computations: they would be lost.
    scaled, compute = scaled_calibration(trained.path), compute_of(trained.path)
    if boxes is not None:
        check_boxes(boxes, size)
        images, _ = next(iter(loader.epoch(0)))
        probed = images[:PROBED].to(device)
        with torch.no_grad():
            check_finite(model(probed).isfinite().all(1), trained.path)
        ActivationMaps(model, probed, layer=layer, method=maps)
        corrupted(boxes, "noise")
    with progress_bar(console, f"{name}: predictions", size) as after:
        predictions = predict(model, loader.epoch(0), device, after, trained.path)
    whole = Evaluation(
        trained,
        data.name,
        data.test.digest(),
        measure(predictions),
        scaled=scaled,
        compute=compute,
    )
    if boxes is None:
        return whole
    with progress_bar(console, f"{name}: localisation", size) as after:
        found = localise(
            model, loader.epoch(0), boxes, device=device, layer=layer, method=maps, after=after
        )
    corruption: dict[Corruption, CorruptedError] = {}
    for kind in CORRUPTIONS:
        batches = corrupted(boxes, kind)
        with progress_bar(console, f"{name}: {kind}", len(batches.kept)) as after:
            wrong = predict(model, batches.epoch(), device, after, trained.path).ranks > 0
        clean = predictions.ranks[batches.kept] > 0
        corruption[kind] = _corrupted_error(wrong, clean)
    return replace(whole, localisation=found, corruption=corruption)


def _corrupted_error(wrong: Tensor, clean: Tensor) -> CorruptedError:
    count, misses = len(wrong), int(wrong.sum())
    low, high = wilson_interval(misses, count)
    error = 100 * misses / count
    increment = error - 100 * int(clean.sum()) / count
    return CorruptedError(count, error, (100 * low, 100 * high), increment)


def evaluation_table(evaluation: Evaluation) -> Table:
    """Returns a table of the metrics of one network, with their confidence intervals."""
    metrics, found = evaluation.metrics, evaluation.localisation
    table = Table(title=Text(f"{evaluation.trained.title} on {evaluation.data}"))
    for column in ("", "value", "95 % interval", "images"):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)

    def add(
        name: str, value: str, interval: tuple[float, float] | None = None, images: int = 0
    ) -> None:
        between = "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}"
        table.add_row(name, value, between, f"{images:,}" if images else "")

    add("top-1 error, %", f"{metrics.error:.2f}", metrics.error_interval, metrics.images)
    add("top-5 error, %", f"{metrics.top5_error:.2f}", metrics.top5_interval, metrics.images)
    add("ECE, % (10 bins)", f"{metrics.ece:.2f}", images=metrics.images)
    add("mean confidence, %", f"{metrics.confidence:.2f}", images=metrics.images)
    add("negative log-likelihood", f"{metrics.nll:.4f}", images=metrics.images)
    add("Brier score", f"{metrics.brier:.4f}", images=metrics.images)
    if evaluation.scaled is not None:
        scaled = evaluation.scaled
        after = f"after temperature scaling (T = {scaled.temperature:.2f})"
        add(f"ECE, %, {after}", f"{scaled.ece:.2f}", images=metrics.images)
        add(f"NLL, {after}", f"{scaled.nll:.4f}", images=metrics.images)
    if found is not None:
        for row in (found, *found.baselines):
            add(
                f"Top-1 Loc, % ({row.name})",
                f"{row.top1_loc:.2f}",
                row.top1_loc_interval,
                row.images,
            )
            add(
                f"GT-known Loc, % ({row.name})",
                f"{row.gt_known:.2f}",
                row.gt_known_interval,
                row.images,
            )
        add("MaxBoxAcc, %", f"{found.max_box_acc:.2f}", found.max_box_acc_interval, found.images)
        add(
            "MaxBoxAccV2, %",
            f"{found.max_box_acc_v2:.2f}",
            found.max_box_acc_v2_interval,
            found.images,
        )
    for kind, corrupted in evaluation.corruption.items():
        value = f"{corrupted.error:.2f} ({corrupted.increment:+.2f})"
        add(f"error, %, background: {kind}", value, corrupted.interval, corrupted.images)
    return table


def draw_evaluation(
    evaluation: Evaluation,
    data: DataSet,
    boxes: Tensor | None,
    folder: Path,
    *,
    maps: CamMethod = "cam",
    layer: str | None = None,
    image_size: int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> None:
    """Draws the reliability diagram and, with boxes, objects found and backgrounds corrupted.

    Args:
        evaluation: what `evaluate` found.
        data: the data set, as for `evaluate`, like everything below.
        boxes: the true boxes.
        folder: where to.
        maps: how objects were found.
        layer: whose maps were used.
        image_size: pixels per side.
        seed: of the corruption.
        device: where the network is.
    """
    title = evaluation.trained.title
    image_size = evaluation.trained.image_size(data, image_size)
    draw_reliability({title: [evaluation.record]}, folder / RELIABILITY)
    if boxes is None or evaluation.localisation is None:
        return
    draw_localisation(
        evaluation.trained.model,
        data,
        data.test,
        boxes,
        evaluation.localisation,
        folder / LOCALISATION,
        f"{title} on {data.name}",
        layer=layer,
        method=maps,
        image_size=image_size,
        device=device,
    )
    size = (image_size, image_size) if image_size else data.shape[1:]
    if int(with_background(boxes, size).sum()) < 2:
        return  # Boxes as large as the images leave no background, and so nothing to draw.
    draw_corruptions(
        data,
        data.test,
        boxes,
        folder / CORRUPTION,
        f"Background corruption of {data.name}",
        seed=seed,
        image_size=image_size,
    )
