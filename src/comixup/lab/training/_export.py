"""Writes a finished run's files: weights, logits, curves and results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from comixup._atomic_write import atomic_write
from comixup._figures import write_figure
from comixup.lab._tables import csv_table
from comixup.lab.data import DataSet
from comixup.lab.models import Header
from comixup.lab.training._folder import DIGITS, RunFolder, State, write_metrics
from comixup.lab.training._measures import Logits, class_errors
from comixup.lab.training._report import curves_figure
from comixup.lab.training._results import record_of
from comixup.lab.training._run import Run
from comixup.lab.training._setup import preprocessing_of, shape_of

_LENGTH_BYTES = 8
_ALIGNMENT = 8
"""Alignment of tensors in bytes; the header is padded with spaces to a multiple of it."""


def safetensors_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Returns a safetensors file; equal tensors and metadata give equal bytes.

    The library's order of header entries differs from call to call. Here they are sorted; the order
    of the tensors, by dtype and name, stays the library's.
    """
    content = save(dict(tensors), metadata=dict(metadata))
    size = int.from_bytes(content[:_LENGTH_BYTES], "little")
    begin = _LENGTH_BYTES + size
    header = json.dumps(
        json.loads(content[_LENGTH_BYTES:begin]), sort_keys=True, separators=(",", ":")
    ).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return len(header).to_bytes(_LENGTH_BYTES, "little") + header + content[begin:]


def logits_bytes(logits: Mapping[str, Logits]) -> bytes:
    """Returns a safetensors file of finite logits (float16) and classes (int32) by split."""
    largest = torch.finfo(torch.float16).max
    tensors = {}
    for name, (values, targets) in logits.items():
        tensors[f"{name}_logits"] = values.clamp(-largest, largest).half().contiguous()
        tensors[f"{name}_targets"] = targets.int().contiguous()
    return safetensors_bytes(tensors, {"splits": ",".join(logits)})


def read_logits(path: Path) -> dict[str, Logits]:
    """Returns the logits (float32) and classes (int64) by split from a run's file."""
    try:
        tensors = load(path.read_bytes())
        splits = [name.removesuffix("_logits") for name in tensors if name.endswith("_logits")]
        found = {
            name: (tensors[f"{name}_logits"].float(), tensors[f"{name}_targets"].long())
            for name in sorted(splits)
        }
        for values, targets in found.values():
            shapes = (values.shape[:1], values.shape)
            if values.ndim != 2 or not len(values) or targets.shape not in shapes:
                raise ValueError("its logits and classes do not belong together")
            if not values.isfinite().all() or not 0 <= int(targets.min()) <= int(targets.max()):
                raise ValueError("its logits or classes are no numbers")
            if int(targets.max()) >= (values.shape[1] if targets.ndim == 1 else 2):
                raise ValueError("its classes have no logits")
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


def export(
    run: Run,
    data: DataSet,
    network: nn.Module,
    state: State,
    logits: Mapping[str, Logits],
    folder: RunFolder,
) -> None:
    """Writes all files of a finished run, overwriting existing ones."""
    recipe, side = run.trained, run.final_image_size
    weights = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in network.state_dict().items()
    }
    header = Header(
        model=recipe.model,
        num_classes=data.num_classes,
        shape=shape_of(data, side),
        width=recipe.width,
        data=recipe.data,
        classes=data.classes,
        preprocessing=preprocessing_of(data, side),
        multi_label=data.multi_label,
    )
    counts = zip(
        data.classes, data.class_counts("train"), class_errors(*logits["test"]), strict=True
    )
    classes = [
        {"class": name, "training_images": images, "test_images": tested, "error": error}
        for name, images, (tested, error) in counts
    ]
    write_metrics(folder.path, state.history)
    atomic_write(folder.weights, safetensors_bytes(weights, header.as_metadata()))
    atomic_write(folder.logits, logits_bytes(logits))
    atomic_write(folder.classes, csv_table(classes, DIGITS))
    write_figure(curves_figure(state.history, run.title), folder.curves)
    record = record_of(run, state, folder.path, data.test.digest())
    # Last: if this file exists, all others do.
    atomic_write(folder.result, json.dumps(record.as_row(), indent=2) + "\n")
