"""Calibration after temperature scaling, and compute, from what a run's folder keeps."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from comixup.lab.evaluation._metrics import measure
from comixup.lab.evaluation._predictions import predictions_of
from comixup.lab.evaluation._temperature import fit_temperature
from comixup.lab.training import RunFolder, passes_per_image, read_logits


@dataclass(frozen=True)
class Scaled:
    """Calibration once the logits are divided by a temperature.

    Attributes:
        temperature: with the lowest NLL on the validation images.
        images: validation images that it was fitted on.
        ece: on the test images, in percent.
        nll: on the test images.
    """

    temperature: float
    images: int
    ece: float
    nll: float


def scaled_calibration(run: Path) -> Scaled | None:
    """Returns the calibration of a run after temperature scaling.

    None for runs without images held out, or of a version that kept no logits.
    """
    file = RunFolder(Path(run)).logits
    if not file.is_file():
        return None
    logits = read_logits(file)
    if not {"test", "validation"} <= set(logits):
        return None
    temperature = fit_temperature(*logits["validation"])
    values, targets = logits["test"]
    metrics = measure(predictions_of(values / temperature, targets))
    return Scaled(temperature, len(logits["validation"][1]), metrics.ece, metrics.nll)


def compute_of(run: Path) -> dict[str, float]:
    """Returns a run's passes over each training image and its CPU-seconds, where it tells them."""
    found: dict[str, float] = {}
    folder = RunFolder(Path(run))
    try:
        about = json.loads(folder.metadata.read_text())
        result = json.loads(folder.result.read_text())
        method = about["recipe"]["methods"][about["method"]]
        found["passes"] = float(result["epochs"] * passes_per_image(method))
        found["cpu_seconds"] = float(result["cpu_seconds"])
        if not all(0 <= value < math.inf for value in found.values()):  # NaN is not
            raise ValueError("no amounts of compute")
    except (
        *(OSError, ValueError, LookupError, TypeError, AttributeError),
        *(OverflowError, RecursionError),
    ):
        return {}  # weights alone: these columns stay empty
    return found
