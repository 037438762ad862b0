"""Error and calibration of predictions, for runs and evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

BINS = 10
"""Number of bins of the expected calibration error and of reliability diagrams, as in the paper."""


@dataclass(frozen=True)
class Bin:
    """The predictions in one of ten equal intervals of confidence.

    Attributes:
        count: number of predictions.
        confidence: their mean confidence, from 0 to 1; NaN if there are none.
        accuracy: fraction of them that is correct; NaN if there are none.
    """

    count: int
    confidence: float
    accuracy: float


def reliability_bins(confidences: Tensor, correct: Tensor) -> tuple[Bin, ...]:
    """Returns the ten bins [0, 0.1), [0.1, 0.2), ..., [0.9, 1] of predictions.

    Calibration error and reliability diagrams use them. The edges are the float64 numbers nearest
    to 0.1, 0.2 and so on: a confidence of 0.3 is in the bin that begins there. float32 confidences
    are not rounded: 0.7, slightly less in float32 than in float64, is in the bin below.

    >>> import torch
    >>> found = reliability_bins(torch.tensor([0.3, 0.6, 1.0]).double(), torch.ones(3) > 0)
    >>> [bin_.count for bin_ in found]
    [0, 0, 0, 1, 0, 0, 1, 0, 0, 1]
    """
    import torch  # noqa: PLC0415 - records of runs, which have bins, are read without it

    if confidences.ndim != 1 or confidences.shape != correct.shape or not len(confidences):
        raise ValueError(
            "`confidences` and `correct` must have one shape (n,) with n of at least 1, got "
            f"{tuple(confidences.shape)} and {tuple(correct.shape)}."
        )
    if not ((confidences >= 0) & (confidences <= 1)).all():  # rejects NaN too
        raise ValueError(
            "`confidences` must be from 0 to 1, got "
            f"{confidences.min():g} to {confidences.max():g}. Give probabilities, not logits."
        )
    # float32 sums over tens of thousands of images would lose digits.
    confidences = confidences.double().cpu()
    # Division rounds to the nearest number; linspace has 0.30000000000000004.
    edges = torch.arange(1, BINS, dtype=torch.float64) / BINS
    # Paper: like tfp.stats.expected_calibration_error, this puts 1 into the last bin.
    indices = torch.bucketize(confidences, edges, right=True)
    counts = torch.bincount(indices, minlength=BINS)
    sure = torch.bincount(indices, weights=confidences, minlength=BINS) / counts
    hits = torch.bincount(indices, weights=correct.double().cpu(), minlength=BINS) / counts
    return tuple(map(Bin, counts.tolist(), sure.tolist(), hits.tolist()))


def calibration_error(confidences: Tensor, correct: Tensor) -> float:
    """Returns the expected calibration error (Guo et al. 2017), from 0 to 1.

    The mean over predictions of |confidence - accuracy| of their bin; see `reliability_bins`.

    >>> import torch
    >>> confidences, correct = torch.tensor([0.9, 0.9, 0.6]), torch.tensor([True, True, False])
    >>> round(calibration_error(confidences, correct), 4)
    0.2667
    """
    import torch  # noqa: PLC0415 - as above

    gaps = torch.zeros(BINS + 1, dtype=torch.float64)  # one more, to sum in torchmetrics' order
    for index, found in enumerate(reliability_bins(confidences, correct)):
        if found.count:
            share = found.count / len(confidences)
            gaps[index] = abs(found.accuracy - found.confidence) * share
    return float(gaps.sum())


def error_and_calibration(correct: Tensor, losses: Tensor, confidences: Tensor) -> dict[str, float]:
    """Returns the error and the ECE in percent, and the mean negative log-likelihood."""
    return {
        "error": 100 * int((~correct).sum()) / len(correct),
        "nll": float(losses.mean()),
        "ece": 100 * calibration_error(confidences, correct),
    }
