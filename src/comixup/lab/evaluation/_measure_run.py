"""Records of runs, from the files in their folders: the run's own, and that of an evaluation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
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
        saved = _checked("the file", json.loads(path.read_text()), "an object")
        summary = _checked("summary", saved["summary"], "an object")
        metrics = _checked("metrics", saved["metrics"], "an object")
        run = RunRecord(
            _checked("method", saved["method"], "a line of text") or folder.name,
            None if saved["seed"] is None else _checked("seed", saved["seed"], _COUNT),
            {name: float(_checked(name, value, "a number")) for name, value in summary.items()},
            _checked("recipe", saved["recipe"], "a line of text") or "",
            _checked("test_digest", saved["test_digest"], "a line of text"),
            tuple(_bin(_checked("bins", row, "an object")) for row in metrics["bins"]),
        )
        if sum(row.count for row in run.bins) != _checked("images", metrics["images"], _COUNT):
            raise ValueError("its bins are not of its images")
        digest = _checked("weights_digest", saved["weights_digest"], "a line of text")
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


_COUNT = "an integer of at least 0"
_RULES: Mapping[str, Callable[[Any], bool]] = {
    "an object": lambda value: isinstance(value, dict),
    "a number": lambda value: type(value) in (int, float),
    _COUNT: lambda value: type(value) is int and value >= 0,
    "a line of text": lambda value: (
        value is None or (isinstance(value, str) and value.isprintable())
    ),
}


def _checked(name: str, value: Any, rule: str) -> Any:
    if not _RULES[rule](value):
        kind = "absent" if value is None else f"{value!r}"[:40]
        raise TypeError(f"{name} is {kind}, not {rule}")
    return value


def _bin(saved: Mapping[str, Any]) -> Bin:
    count = _checked("count", saved["count"], _COUNT)
    confidence, accuracy = (
        math.nan if saved[name] is None else float(_checked(name, saved[name], "a number"))
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
