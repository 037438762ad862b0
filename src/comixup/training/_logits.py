"""The logits that a finished run leaves, so that later measurements need no training again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor
from torchmetrics.functional.classification import multiclass_calibration_error

from comixup.training._tensors import safetensors_bytes

BINS = 10
"""Of the expected calibration error, as in the paper."""

Logits = tuple[Tensor, Tensor]
"""(n, classes) logits and (n,) classes."""


def measures(logits: Tensor, targets: Tensor) -> dict[str, float]:
    """Returns error and ECE in percent, NLL, and the number of images.

    Args:
        logits: (n, classes).
        targets: (n,) class indices.

    >>> measures(torch.tensor([[9.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1]))["error"]
    50.0
    """
    logits = logits.double()
    ece = multiclass_calibration_error(
        logits.softmax(1), targets, num_classes=logits.shape[1], n_bins=BINS, norm="l1"
    )
    return {
        "images": len(targets),
        "error": 100 * (logits.argmax(1) != targets).double().mean().item(),
        "nll": F.cross_entropy(logits, targets).item(),
        "ece": 100 * ece.item(),
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
            if values.ndim != 2 or targets.shape != values.shape[:1] or not len(values):
                raise ValueError("its logits and classes do not belong together")
            if not values.isfinite().all() or not 0 <= int(targets.min()) <= int(targets.max()):
                raise ValueError("its logits or classes are no numbers")
            if int(targets.max()) >= values.shape[1]:
                raise ValueError("its classes have no logits")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"`path` must be a file that a finished run left, but there is no {path}. Runs of "
            "older versions have none: evaluate their weights instead."
        ) from None
    except (SafetensorError, OSError, ValueError, KeyError) as why:
        raise ValueError(
            f"`path` must be a file of logits that comixup wrote, but {path} is damaged or "
            f"something else ({str(why)[:200]}). Put back a good copy."
        ) from None
    return found
