"""Decoupled mixup: a loss in which a mixture's classes do not compete."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from comixup._checks import check_number

ETA = 0.1
"""Default weight of the decoupled term; it was not tuned here."""
_NOTHING = -1e30
"""A logit that adds nothing to a sum of exponentials, with a finite gradient."""


def decoupled_cross_entropy(logits: Tensor, targets: Tensor, eta: float = ETA) -> Tensor:
    """Returns cross-entropy plus a term in which a mixture's classes do not compete (scalar).

    Under cross-entropy the classes of a mixture compete for probability. The decoupled loss (Liu et
    al., NeurIPS 2023) adds, for an output whose target has the classes M with shares w, eta times
    the sum over i in M of w_i times the cross-entropy of class i among i and all classes outside of
    M. Each output has its own M and w. For a target of one class it is 1 + eta times the
    cross-entropy.

    Do not use label smoothing: every class would be in M and the term 0.

    Args:
        logits: (m, classes).
        targets: (m, classes) class probabilities, such as mixers return, or (m,) class indices.
        eta: weight of the decoupled term.

    >>> logits, targets = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[0.5, 0.5, 0.0]])
    >>> both = decoupled_cross_entropy(logits, targets) - F.cross_entropy(logits, targets)
    >>> one, other = F.softplus(torch.tensor([-2.0, -1.0])).tolist()
    >>> abs(float(both) - 0.1 * (0.5 * one + 0.5 * other)) < 1e-6
    True
    """
    check_number("eta", eta)
    logits = logits.float() if logits.dtype.itemsize < torch.float32.itemsize else logits
    if targets.ndim == 1:
        targets = F.one_hot(targets, logits.shape[1])
    targets = targets.to(logits.dtype)
    others = logits.masked_fill(targets > 0, _NOTHING).logsumexp(1, keepdim=True)
    # Of two classes the cross-entropy is log(1 + exp(other - own)).
    decoupled = (targets * F.softplus(others - logits)).sum(1).mean()
    return F.cross_entropy(logits, targets) + eta * decoupled
