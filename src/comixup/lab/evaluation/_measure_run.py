"""Records of runs, from the files in their folders: the run's own, and that of an evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from comixup.lab._calibration import Bin
from comixup.lab._runs import RunRecord
from comixup.lab._weights_file import weights_digest
from comixup.lab.evaluation._metrics import fit_temperature, measure, predictions_of
from comixup.lab.training import read_logits, read_metrics
from comixup.lab.training._folder import RunFolder

FILE = "evaluation.json"
"""What `comixup evaluate` leaves in a run's folder and `comixup compare` reads."""
_MAX_BYTES = 10**7
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)
"""What is raised by JSON files with anything in them."""


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
    metrics = {
        "epochs": result["epochs"],
        "passes": result["passes"],
        "cpu_seconds": result["cpu_seconds"],
        "error": result["error"],
        "top5_error": test.top5_error,
        # From the run itself: its logits are kept in half precision.
        "nll": result["nll"],
        "ece": result["ece"],
        "train_error": read_metrics(folder)[-1].get("train_error", math.nan),
    }
    scaled = scaled_calibration(folder)
    if scaled is not None:
        metrics |= {
            "temperature": scaled.temperature,
            "scaled_nll": scaled.nll,
            "scaled_ece": scaled.ece,
            "validation_error": result["validation_error"],
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


def compute_of(run: Path) -> dict[str, float]:
    """Returns a run's passes over each training image and its CPU-seconds, where it tells them."""
    try:
        result = json.loads(RunFolder(Path(run)).result.read_text())
        found = {name: float(result[name]) for name in ("passes", "cpu_seconds")}
    except (OSError, *_DAMAGE):
        return {}  # weights alone: these columns stay empty
    return found if all(0 <= value < math.inf for value in found.values()) else {}  # NaN is not


# ---- Temperature scaling -------------------------------------------------------------------------


def scaled_calibration(run: Path) -> Scaled | None:
    """Returns the calibration of a run after temperature scaling; None without images held out."""
    logits = _logits_of(run)
    if not {"test", "validation"} <= set(logits):
        return None
    temperature = fit_temperature(*logits["validation"])
    values, targets = logits["test"]
    metrics = measure(predictions_of(values / temperature, targets))
    return Scaled(temperature, len(logits["validation"][1]), metrics.ece, metrics.nll)


def run_temperature(run: Path) -> float:
    """Returns the temperature that has the lowest NLL on a run's validation images.

    Args:
        run: the folder of a finished run that held images out.
    """
    logits = _logits_of(run)
    if "validation" not in logits:
        raise ValueError(
            f"`--calibrated` must be asked of a run that kept logits of validation images, but "
            f"{run} has none. Train with --validation, or leave --calibrated out."
        )
    if logits["validation"][1].ndim > 1:
        raise ValueError(
            f"`--calibrated` must be left out for {run}, whose images may have several labels: "
            "temperature scaling is for classes that exclude each other."
        )
    return fit_temperature(*logits["validation"])


def _logits_of(run: Path) -> Mapping[str, tuple[Tensor, Tensor]]:
    file = RunFolder(Path(run)).logits
    return read_logits(file) if file.is_file() else {}  # weights alone have none


# ---- JSON ----------------------------------------------------------------------------------------


def read_evaluation(folder: Path) -> RunRecord:
    """Returns what `write_evaluation` wrote of a run, as far as comparisons need it."""
    path = folder / FILE
    if not path.is_file():
        raise FileNotFoundError(
            f"`runs` must be evaluated before they are compared, but {folder} has no {FILE}. Run "
            f"comixup evaluate {folder} first."
        )
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES} bytes")
        saved = json.loads(path.read_text())
        run = RunRecord(
            _line(saved["method"]) or folder.name,
            None if saved["seed"] is None else _count(saved["seed"]),
            {_line(name): _number(value) for name, value in saved["summary"].items()},
            _line(saved["recipe"]) or "",
            _line(saved["test_digest"]),
            tuple(_bin(row) for row in saved["metrics"]["bins"]),
        )
        if sum(row.count for row in run.bins) != _count(saved["metrics"]["images"]):
            raise ValueError("its bins are not of its images")
        digest = _line(saved["weights_digest"])
    except _DAMAGE as why:
        text = f"{type(why).__name__}: {why}"[:200]
        raise ValueError(
            f"{path} must be what comixup evaluate writes, but it cannot be read ({text}). Run "
            f"comixup evaluate {folder} again."
        ) from None
    weights = RunFolder(folder).weights
    if digest is not None and weights.is_file() and weights_digest(weights) != digest:
        raise ValueError(
            f"`runs` must be evaluated after they are trained, but {path} is of other weights than "
            f"{weights}. Run comixup evaluate {folder} again."
        )
    return run


def _line(value: Any) -> Any:
    """Returns a line of text, or None, as it is; what a terminal would obey is rejected."""
    if value is not None and not (isinstance(value, str) and value.isprintable()):
        raise TypeError(f"{value!r:.40} is not a line of text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r:.40} is not an integer of at least 0")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"{value!r:.40} is not a number")
    return float(value)


def _bin(saved: Mapping[str, Any]) -> Bin:
    count = _count(saved["count"])
    confidence, accuracy = (
        math.nan if saved[name] is None else _number(saved[name])
        for name in ("confidence", "accuracy")
    )
    if count and not (0 <= confidence <= 1 and 0 <= accuracy <= 1):
        raise ValueError("a bin of its metrics has no confidence or accuracy from 0 to 1")
    return Bin(count, confidence, accuracy)


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
