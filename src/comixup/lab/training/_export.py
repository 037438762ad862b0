"""What a finished run leaves in its folder: weights, logits, curves and results."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor
from torchmetrics.functional.classification import binary_average_precision

from comixup._atomic_write import atomic_write
from comixup._figures import write_figure
from comixup.lab._calibration import error_and_calibration
from comixup.lab._tables import csv_table
from comixup.lab.data import DataSet
from comixup.lab.models import Header
from comixup.lab.training._folder import DIGITS, RunFolder, State, write_metrics
from comixup.lab.training._pictures import curves_figure
from comixup.lab.training._results import result_of
from comixup.lab.training._run import Run
from comixup.lab.training._setup import Loaders, Setup, preprocessing_of, shape_of
from comixup.lab.training._trainer import logits_of

_LENGTH_BYTES = 8
_ALIGNMENT = 8
"""Bytes: tensors begin at a multiple of it, so the header is filled up with spaces."""


def safetensors_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Returns a safetensors file; equal tensors and metadata give equal bytes.

    The library writes the header's entries in an order that changes from call to call. Here they
    are sorted; the tensors' own order, which the library decides by type and name, stays.

    Args:
        tensors: by name, contiguous and in host memory.
        metadata: text by name.
    """
    content = save(dict(tensors), metadata=dict(metadata))
    size = int.from_bytes(content[:_LENGTH_BYTES], "little")
    begin = _LENGTH_BYTES + size
    header = json.dumps(
        json.loads(content[_LENGTH_BYTES:begin]), sort_keys=True, separators=(",", ":")
    ).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return len(header).to_bytes(_LENGTH_BYTES, "little") + header + content[begin:]


Logits = tuple[Tensor, Tensor]
"""(n, classes) logits, and (n,) classes or (n, classes) labels of 0 and 1."""


def measures(logits: Tensor, targets: Tensor) -> dict[str, float]:
    """Returns error, balanced error and ECE in percent, NLL, and the number of images.

    The balanced error is the mean over the classes that have images. Of images with any number of
    labels, the error is that of all yes-or-no answers, and the mean average precision of the labels
    that some image has is returned in place of balanced error and ECE.

    Args:
        logits: (n, classes).
        targets: (n,) class indices, or (n, classes) of 0 and 1.

    >>> measures(torch.tensor([[9.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1]))["error"]
    50.0
    """
    logits = logits.double()
    if targets.ndim > 1:
        return _multi_label_measures(logits, targets)
    errors = [e for _, e in class_errors(logits, targets) if e is not None]
    # Of the logits: confidences of different ones may round to the same, and the first would win.
    correct = logits.argmax(1) == targets
    losses, confidences = (
        F.cross_entropy(logits, targets, reduction="none"),
        logits.softmax(1).amax(1),
    )
    return {
        "images": len(targets),
        **error_and_calibration(correct, losses, confidences),
        "balanced_error": sum(errors) / len(errors),
    }


def class_errors(logits: Tensor, targets: Tensor) -> list[tuple[int, float | None]]:
    """Returns the images and the error in percent of each class; None where it has no images.

    Of images with any number of labels, those that have the class count as its images, and those
    of them as errors for which it is not predicted.

    Args:
        logits: (n, classes).
        targets: (n,) class indices, or (n, classes) of 0 and 1.

    >>> class_errors(torch.tensor([[9.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1]))
    [(1, 0.0), (1, 100.0)]
    """
    num_classes = logits.shape[1]
    if targets.ndim > 1:
        members, wrong = targets > 0, (targets > 0) & (logits <= 0)
    else:
        members = F.one_hot(targets, num_classes) > 0
        wrong = members & (logits.argmax(1) != targets)[:, None]
    counts, errors = members.sum(0).tolist(), wrong.sum(0).tolist()
    return [(n, 100 * e / n if n else None) for n, e in zip(counts, errors, strict=True)]


def _multi_label_measures(logits: Tensor, targets: Tensor) -> dict[str, float]:
    precisions = [
        binary_average_precision(scores, answers).item()
        for scores, answers in zip(logits.sigmoid().T, targets.long().T, strict=True)
        if answers.any()
    ]
    # Test images without a single label have no precision.
    found = {"mean_average_precision": 100 * statistics.mean(precisions)} if precisions else {}
    return {
        "images": len(targets),
        "error": 100 * ((logits > 0) != (targets > 0)).double().mean().item(),
        **found,
        "nll": F.binary_cross_entropy_with_logits(logits, targets.double()).item(),
    }


def logits_bytes(logits: Mapping[str, Logits]) -> bytes:
    """Returns a safetensors file of logits (float16) and classes (int32) by split.

    Args:
        logits: by split; finite, as a run's numbers are checked to be.
    """
    largest = torch.finfo(torch.float16).max
    tensors = {}
    for name, (values, targets) in logits.items():
        tensors[f"{name}_logits"] = values.clamp(-largest, largest).half().contiguous()
        tensors[f"{name}_targets"] = targets.int().contiguous()
    return safetensors_bytes(tensors, {"splits": ",".join(logits)})


def read_logits(path: Path) -> dict[str, Logits]:
    """Returns the logits (float32) and classes (int64) by split that a run left in a file."""
    try:
        tensors = load(path.read_bytes())
        splits = [name.removesuffix("_logits") for name in tensors if name.endswith("_logits")]
        found = {
            name: (tensors[f"{name}_logits"].float(), tensors[f"{name}_targets"].long())
            for name in sorted(splits)
        }
        for values, targets in found.values():
            _check(values, targets)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"`path` must be a file that a finished run left, but there is no {path}. Finish it "
            "with the command that began it."
        ) from None
    except (SafetensorError, OSError, ValueError, KeyError) as why:
        raise ValueError(
            f"`path` must be a file of logits that comixup wrote, but {path} is damaged or "
            f"something else ({str(why)[:200]}). Put back a good copy."
        ) from None
    return found


def _check(logits: Tensor, targets: Tensor) -> None:
    """Raises `ValueError` unless logits and targets belong together."""
    if logits.ndim != 2 or not len(logits) or targets.shape not in (logits.shape[:1], logits.shape):
        raise ValueError("its logits and classes do not belong together")
    if not logits.isfinite().all() or not 0 <= int(targets.min()) <= int(targets.max()):
        raise ValueError("its logits or classes are no numbers")
    if int(targets.max()) >= (logits.shape[1] if targets.ndim == 1 else 2):
        raise ValueError("its classes have no logits")


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
    write_figure(curves_figure(state.history, run.title), folder.curves)
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
