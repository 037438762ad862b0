"""Temperature scaling (Guo et al., ICML 2017): confidence corrected by one number.

Logits are divided by a temperature T, fitted on images that were neither trained nor tested on.
The predicted classes stay, so does the error; what changes is how sure the classifier is.
"""

from __future__ import annotations

import math

from torch import Tensor

LOWEST, HIGHEST = 0.01, 100.0
"""Bounds of the temperature: where every prediction is correct, none is low enough."""
_STEPS = 100
"""Halvings of the interval on a logarithmic scale: more than float64 can tell apart."""


def fit_temperature(logits: Tensor, targets: Tensor) -> float:
    """Returns the temperature with the lowest NLL, from 0.01 to 100.

    The NLL is convex in 1 / T, so its slope has one zero, which is found by bisection.

    Args:
        logits: (n, classes), finite.
        targets: (n,) class indices.

    >>> import torch
    >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [4.0, 0.0]])
    >>> print(f"{fit_temperature(logits, torch.tensor([0, 0, 0, 1])):.3f}")  # log 3 = 4 / T
    3.641
    """
    if logits.ndim != 2 or targets.shape != logits.shape[:1] or not len(logits):
        raise ValueError(
            "`logits` must have shape (n, classes) and `targets` (n,), with one image at least, "
            f"got {tuple(logits.shape)} and {tuple(targets.shape)}."
        )
    if not logits.isfinite().all():
        raise ValueError("`logits` must be finite, got NaN or infinite ones.")
    scores = logits.double()
    own = scores.gather(1, targets.long()[:, None])[:, 0]

    def slope(inverse: float) -> float:
        """Returns the derivative of the NLL by 1 / T."""
        expected = ((scores * inverse).softmax(1) * scores).sum(1)
        return float((expected - own).mean())

    low, high = 1 / HIGHEST, 1 / LOWEST
    if slope(low) >= 0:
        return HIGHEST
    if slope(high) <= 0:
        return LOWEST
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return 1 / math.sqrt(low * high)
