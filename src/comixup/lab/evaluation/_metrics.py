"""Error and calibration of a classifier, from what it made of each image."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from comixup._checks import check_count
from comixup.lab._calibration import BINS, below_one, calibration_error, check_confidences
from comixup.lab.evaluation._predictions import Predictions

TOP = 5
LEVEL = 0.95
"""Of confidence intervals."""


@dataclass(frozen=True)
class Bin:
    """The predictions whose confidence is in one tenth of the way from 0 to 1.

    Attributes:
        count: predictions in it.
        confidence: their mean confidence, from 0 to 1; NaN if there are none.
        accuracy: fraction of them that is correct; NaN if there are none.
    """

    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Metrics:
    """How good, and how sure, a classifier is. Fractions are in percent, except in `bins`.

    Attributes:
        images: how many it was measured on.
        error: top-1 error.
        error_interval: its confidence interval (Wilson's, 95 %): for other images of this kind,
            not for other seeds.
        top5_error: fraction of images whose class is not among the five first; 0 with five classes.
        top5_interval: its confidence interval.
        ece: expected calibration error: ten bins, mean absolute difference of confidence and
            accuracy, weighted by the bins' counts.
        nll: mean negative log-likelihood, in nats.
        brier: mean Brier score, summed over the classes: from 0 to 2.
        confidence: mean confidence. Above the accuracy the classifier is too sure of itself.
        bins: for reliability diagrams.
    """

    images: int
    error: float
    error_interval: tuple[float, float]
    top5_error: float
    top5_interval: tuple[float, float]
    ece: float
    nll: float
    brier: float
    confidence: float
    bins: tuple[Bin, ...]

    @property
    def summary(self) -> dict[str, float]:
        """The single numbers by their names: what a table of comparisons is made of."""
        names = ("error", "top5_error", "ece", "nll", "brier", "confidence")
        return {name: getattr(self, name) for name in names}

    def as_dict(self) -> dict[str, Any]:
        """Returns all metrics as JSON types; those that empty bins do not have are None."""
        plain = dataclasses.asdict(self)
        plain["bins"] = [
            {name: None if math.isnan(value) else value for name, value in row.items()}
            for row in plain["bins"]
        ]
        return plain


def measure(predictions: Predictions) -> Metrics:
    """Returns the metrics of predictions."""
    count = len(predictions)
    correct = predictions.ranks == 0
    wrong = count - int(correct.sum())
    far = int((predictions.ranks >= TOP).sum())
    error, error_interval = percent_and_interval(wrong, count)
    top5_error, top5_interval = percent_and_interval(far, count)
    return Metrics(
        images=count,
        error=error,
        error_interval=error_interval,
        top5_error=top5_error,
        top5_interval=top5_interval,
        ece=100 * calibration_error(predictions.confidences, correct),
        nll=float(predictions.losses.mean()),
        brier=float(predictions.briers.mean()),
        confidence=100 * float(predictions.confidences.mean()),
        bins=reliability_bins(predictions.confidences, correct),
    )


def wilson_interval(hits: int, count: int, level: float = LEVEL) -> tuple[float, float]:
    """Returns Wilson's confidence interval of a fraction, valid at 0 and 1 too.

    Args:
        hits: how many of them.
        count: how many in all.
        level: probability that intervals made so hold the true fraction.

    >>> [round(end, 3) for end in wilson_interval(0, 10)]
    [0.0, 0.278]
    """
    check_count("count", count)
    check_count("hits", hits, low=0)
    if hits > count:
        raise ValueError(f"`hits` must be at most `count`, {count}, got {hits}.")
    if not 0 < level < 1:
        raise ValueError(f"`level` must be between 0 and 1, got {level!r}.")
    z = NormalDist().inv_cdf((1 + level) / 2)
    fraction = hits / count
    middle = (fraction + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(fraction * (1 - fraction) / count + (z / (2 * count)) ** 2)
    half /= 1 + z * z / count
    # At the ends the two terms are equal, but for rounding.
    low = 0.0 if hits == 0 else middle - half
    return low, 1.0 if hits == count else middle + half


def reliability_bins(confidences: Tensor, correct: Tensor, bins: int = BINS) -> tuple[Bin, ...]:
    """Returns what a reliability diagram shows, in the bins of `calibration_error`.

    Args:
        confidences: (n,) in [0, 1].
        correct: (n,) bool.
        bins: of equal width.
    """
    check_confidences(confidences, correct, bins)
    confidences = below_one(confidences)
    edges = torch.linspace(0, 1, bins + 1, dtype=confidences.dtype)
    bins_of = torch.bucketize(confidences, edges, right=True) - 1
    counts = torch.bincount(bins_of, minlength=bins)
    sure = torch.bincount(bins_of, weights=confidences, minlength=bins)
    hits = torch.bincount(bins_of, weights=correct.double(), minlength=bins)
    rows = zip(counts.tolist(), (sure / counts).tolist(), (hits / counts).tolist(), strict=True)
    return tuple(Bin(*row) for row in rows)


def percent_and_interval(hits: int, count: int) -> tuple[float, tuple[float, float]]:
    """Returns a fraction and Wilson's interval of it, in percent.

    >>> fraction, (low, high) = percent_and_interval(5, 10)
    >>> round(low, 1), fraction, round(high, 1)
    (23.7, 50.0, 76.3)
    """
    low, high = wilson_interval(hits, count)
    return 100 * hits / count, (100 * low, 100 * high)
