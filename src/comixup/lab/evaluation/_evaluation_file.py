"""The file that `comixup evaluate` leaves in a run's folder and `comixup compare` reads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comixup._atomic_write import atomic_write, make_folder
from comixup.lab._calibration import Bin
from comixup.lab._weights_file import weights_digest
from comixup.lab.evaluation._evaluate import CORRUPTION, LOCALISATION, RELIABILITY, Evaluation
from comixup.lab.evaluation._runs import RunRecord
from comixup.lab.training import RunFolder

FILE = "evaluation.json"
_MAX_BYTES = 10**7


def evaluation_text(evaluation: Evaluation) -> str:
    """Returns an evaluation as the text of its file."""
    return json.dumps(evaluation.as_dict(), indent=2) + "\n"


def write_evaluation(evaluation: Evaluation, folder: Path) -> None:
    """Writes an evaluation into a folder, atomically."""
    make_folder(folder)
    atomic_write(folder / FILE, evaluation_text(evaluation))


def check_replaceable(folder: Path) -> None:
    """Raises `OSError` if a folder has something that an evaluation's files cannot replace."""
    for name in (FILE, RELIABILITY, LOCALISATION, CORRUPTION):
        if (folder / name).is_dir():
            raise IsADirectoryError(
                f"`folder` must have no folders in the place of files, but {folder / name} is one. "
                "Move it away, or choose another folder with --out."
            )


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
        saved = _mapping("the file", json.loads(path.read_text()))
        summary = _mapping("summary", saved["summary"])
        metrics = _mapping("metrics", saved["metrics"])
        run = RunRecord(
            _word("method", saved["method"]) or folder.name,
            None if saved["seed"] is None else _count("seed", saved["seed"]),
            {name: _number(name, value) for name, value in summary.items()},
            _word("recipe", saved["recipe"]) or "",
            _word("test_digest", saved["test_digest"]),
            tuple(_bin(_mapping("bins", row)) for row in metrics["bins"]),
        )
        if sum(row.count for row in run.bins) != _count("images", metrics["images"]):
            raise ValueError("its bins are not of its images")
        digest = _word("weights_digest", saved["weights_digest"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as why:
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


def _bin(saved: Mapping[str, Any]) -> Bin:
    count = _count("count", saved["count"])
    confidence, accuracy = (
        math.nan if saved[name] is None else _number(name, saved[name])
        for name in ("confidence", "accuracy")
    )
    if count and not (0 <= confidence <= 1 and 0 <= accuracy <= 1):
        raise ValueError("a bin of its metrics has no confidence or accuracy from 0 to 1")
    return Bin(count, confidence, accuracy)


def _mapping(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name} is {_kind(value)}, not an object")
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} is {_kind(value)}, not a number")
    return float(value)


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{name} is {_kind(value)}, not an integer of at least 0")
    return value


def _word(name: str, value: object) -> str | None:
    if value is not None and not (isinstance(value, str) and value.isprintable()):
        raise TypeError(f"{name} is {_kind(value)}, not a line of text")
    return value


def _kind(value: object) -> str:
    return "absent" if value is None else f"{value!r}"[:40]
