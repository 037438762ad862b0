"""What is measured of a finished run, from the files of its folder: the one place that does so."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comixup.lab.evaluation._metrics import fit_temperature, measure, predictions_of
from comixup.lab.evaluation._runs import RunRecord
from comixup.lab.training import RunFolder, read_logits, read_metrics
from comixup.lab.training._mixers import passes_per_image


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


def measure_run(folder: Path) -> RunRecord:
    """Returns the record of a finished run, from the files in its folder.

    Its metrics are:

    - epochs, and passes: forward and backward passes over a training image, in all epochs;
    - error: the top-1 error that the recipe reports (the median of the last ten epochs in the
      paper's recipes, the final weights' in ours), in percent;
    - top5_error, nll, ece: of the final weights;
    - temperature, scaled_nll, scaled_ece, validation_error: of the final weights, where images
      were held out; the temperature is fitted on these;
    - train_error: in the last epoch, on augmented training images; NaN if no unmixed image was
      predicted;
    - cpu_seconds: of training.
    """
    files = RunFolder(folder)
    run, result = _read_json(files.metadata), _read_json(files.result)
    test = measure(predictions_of(*read_logits(files.logits)["test"]))
    final = result["final"]
    metrics = {
        "epochs": result["epochs"],
        "passes": result["epochs"] * passes_per_image(run["recipe"]["methods"][run["method"]]),
        "error": result["error"],
        "top5_error": test.top5_error,
        # From the run itself: its logits are kept in half precision.
        "nll": final["test"]["nll"],
        "ece": final["test"]["ece"],
        "train_error": read_metrics(folder)[-1].get("train_error", math.nan),
        "cpu_seconds": result["cpu_seconds"],
    }
    scaled = scaled_calibration(folder)
    if scaled is not None:
        metrics |= {
            "temperature": scaled.temperature,
            "scaled_nll": scaled.nll,
            "scaled_ece": scaled.ece,
            "validation_error": final["validation"]["error"],
        }
    commits = {start.get("commit") or "unknown" for start in run["starts"]}
    return RunRecord(
        run["method"],
        run["seed"],
        metrics,
        run["recipe"]["name"],
        run["test_digest"],
        test.bins,
        " ".join(sorted(commits)),
    )


def scaled_calibration(run: Path) -> Scaled | None:
    """Returns the calibration of a run after temperature scaling; None without images held out."""
    file = RunFolder(Path(run)).logits
    if not file.is_file():  # weights alone
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


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        raise FileNotFoundError(
            f"`folder` must be that of a finished run, but there is no {path}. Train it to its end."
        ) from None
    except (ValueError, RecursionError) as why:
        raise ValueError(
            f"{path} must be a file that comixup wrote, but is damaged: {why}."
        ) from None
    if not isinstance(found, dict):
        raise ValueError(
            f"{path} must be a file that comixup wrote, but holds {type(found).__name__}."
        )
    return found
