"""What a finished run leaves in its folder: weights, logits, curves and results."""

from __future__ import annotations

import json

from comixup._atomic_write import atomic_write
from comixup.lab._tables import csv_table
from comixup.lab.data import DataSet
from comixup.lab.models import Header
from comixup.lab.training._checkpoint import State
from comixup.lab.training._curves import draw_curves
from comixup.lab.training._folder import DIGITS, RunFolder, write_metrics
from comixup.lab.training._loaders import Loaders
from comixup.lab.training._logits import Logits, class_errors, logits_bytes
from comixup.lab.training._preprocessing import preprocessing_of, shape_of
from comixup.lab.training._results import result_of
from comixup.lab.training._run import Run
from comixup.lab.training._setup import Setup
from comixup.lab.training._tensors import safetensors_bytes
from comixup.lab.training._validate import logits_of


def final_logits(setup: Setup, data: DataSet, loaders: Loaders) -> dict[str, Logits]:
    """Returns the logits of all images not trained on, with their classes, by split."""
    return {
        name: logits_of(setup.fabric, setup.evaluated, loaders.whole(split))
        for name, split in data.splits.items()
        if name != "train"
    }


def export(
    run: Run,
    data: DataSet,
    setup: Setup,
    state: State,
    logits: dict[str, Logits],
    folder: RunFolder,
) -> None:
    """Writes everything that a finished run leaves; what is there is written again.

    Args:
        run: which is finished.
        data: what it was trained on.
        setup: with its final weights.
        state: with its history and final metrics.
        logits: from `final_logits`.
        folder: where to.
    """
    write_metrics(folder.path, state.history)
    atomic_write(folder.weights, _weights_bytes(run, data, setup))
    atomic_write(folder.logits, logits_bytes(logits))
    atomic_write(folder.classes, _classes_table(data, logits["test"]))
    draw_curves(state.history, folder.curves, run.title)
    result = result_of(state.history, run.trained, state.final)
    # Last: where this file is, everything is.
    atomic_write(folder.result, json.dumps(result.as_dict(), indent=2) + "\n")


def _classes_table(data: DataSet, logits: Logits) -> str:
    """Returns a CSV table of the classes: their images and their errors in percent."""
    targets = data.train.targets
    trained_on = (
        targets.sum(0) if targets.ndim > 1 else targets.bincount(minlength=len(data.classes))
    )
    counts = zip(data.classes, trained_on.tolist(), class_errors(*logits), strict=True)
    rows = [
        {"class": name, "training_images": int(images), "test_images": tested, "error": error}
        for name, images, (tested, error) in counts
    ]
    return csv_table(rows, DIGITS)


def _weights_bytes(run: Run, data: DataSet, setup: Setup) -> bytes:
    recipe = run.trained
    weights = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in setup.evaluated.state_dict().items()
    }
    header = Header(
        model=recipe.model,
        num_classes=data.num_classes,
        shape=shape_of(data, run.final_image_size),
        width=recipe.width,
        data=recipe.data,
        classes=data.classes,
        preprocessing=preprocessing_of(data, run.final_image_size),
        multi_label=data.multi_label,
    )
    return safetensors_bytes(weights, header.as_metadata())
