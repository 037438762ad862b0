"""Error and calibration of predictions, for runs and evaluations alike."""

from __future__ import annotations

import math

from torch import Tensor
from torchmetrics.functional.classification import binary_calibration_error

from comixup._checks import check_count

BINS = 10
"""Of the expected calibration error, as in the paper."""


def calibration_error(confidences: Tensor, correct: Tensor, bins: int = BINS) -> float:
    """Returns the expected calibration error (Guo et al. 2017), from 0 to 1.

    The l1 norm of torchmetrics' calibration error: that of its multi-class form, which takes the
    logits of all classes only to find the confidences and hits that are given here.

    Args:
        confidences: (n,) in [0, 1].
        correct: (n,) bool.
        bins: of equal width; each holds its lower edge, the last one its upper edge too.

    >>> import torch
    >>> confidences, correct = torch.tensor([0.9, 0.9, 0.6]), torch.tensor([True, True, False])
    >>> round(calibration_error(confidences, correct), 4)
    0.2667
    """
    check_confidences(confidences, correct, bins)
    found = binary_calibration_error(
        below_one(confidences), correct.long(), n_bins=bins, norm="l1", validate_args=False
    )
    return float(found)


def error_and_calibration(correct: Tensor, losses: Tensor, confidences: Tensor) -> dict[str, float]:
    """Returns the error and the ECE in percent, and the mean negative log-likelihood.

    Args:
        correct: (n,) bool.
        losses: (n,) minus the logarithm of the true classes' probabilities.
        confidences: (n,) in [0, 1].
    """
    return {
        "error": 100 * int((~correct).sum()) / len(correct),
        "nll": float(losses.mean()),
        "ece": 100 * calibration_error(confidences, correct),
    }


def below_one(confidences: Tensor) -> Tensor:
    """Returns confidences in float64 with those of 1 a hair lower.

    torchmetrics would give them a bin of their own, which raises the error of networks that are
    very sure. In float32 it would also lose digits of the sums over tens of thousands of images.
    """
    # Paper: tfp.stats.expected_calibration_error puts 1 into the last bin, and so does this.
    return confidences.double().clamp(max=math.nextafter(1.0, 0.0))


def check_confidences(confidences: Tensor, correct: Tensor, bins: int) -> None:
    """Rejects what a calibration error or a reliability diagram cannot be made of."""
    check_count("bins", bins)
    if confidences.ndim != 1 or confidences.shape != correct.shape or not len(confidences):
        raise ValueError(
            "`confidences` and `correct` must have one shape (n,) with n of at least 1, got "
            f"{tuple(confidences.shape)} and {tuple(correct.shape)}."
        )
    if not ((confidences >= 0) & (confidences <= 1)).all():  # NaN is not
        raise ValueError(
            "`confidences` must be from 0 to 1, got "
            f"{confidences.min():g} to {confidences.max():g}. Give probabilities, not logits."
        )
