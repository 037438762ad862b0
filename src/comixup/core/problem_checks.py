"""What a problem must fulfil beyond the checks of its tensors one by one."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from comixup._checks import check_number, check_positive
from comixup.core.maps import MAX_LOCATIONS
from comixup.core.tensor_checks import Floats, floating, host_copy
from comixup.core.weights import Weights

PRIOR_FLOOR = 1e-8
"""Smallest mixing ratio: log(0) would forbid an input outright."""

MAX_LABELS = 2**28
"""Largest number of labels (outputs x locations) that is not a mistake."""

_SUM_TOLERANCE = 1e-3

_NEGLIGIBLE = 1e-35
"""Terms smaller than this, relative to the others, would be 0 in the kernel's single precision."""


def check_prior_settings(omega: float, alpha: float | None) -> None:
    """Rejects an `omega` or `alpha` with which no problem can be built."""
    check_number("omega", omega, high=1)
    if alpha is not None:
        check_positive("alpha", alpha, "Use None for no prior.")


def checked_prior(prior: Tensor, m: int) -> Floats:
    """Returns a copy of a distribution over m inputs, none of them impossible."""
    ratio = host_copy(floating("prior", prior))
    if ratio.shape != (m,):
        raise ValueError(f"`prior` must have shape ({m},), one ratio per input, got {ratio.shape}.")
    if not np.isfinite(ratio).all() or ratio.min() < 0:
        raise ValueError(f"`prior` must be finite and not negative, got {ratio.tolist()}.")
    if abs(ratio.sum() - 1) > _SUM_TOLERANCE:
        raise ValueError(f"`prior` must sum to 1, got {ratio.sum():g}. Divide it by its sum.")
    return np.maximum(ratio, PRIOR_FLOOR)


def check_size(n: int, num_outputs: int) -> None:
    """Rejects more locations or labels than the kernel takes."""
    if n > MAX_LOCATIONS or num_outputs * n > MAX_LABELS:
        raise ValueError(
            f"`cost` must have a grid of at most {MAX_LOCATIONS} locations and {MAX_LABELS} "
            f"labels in all, got {n} locations x {num_outputs} outputs. Use a coarser grid: "
            "the paper's is 4 x 4."
        )


def check_term_scale(
    cost: float, weights: Weights, n: int, largest_entry: float, *, has_prior: bool
) -> None:
    """Rejects terms that are not 0, but so small that the others leave nothing of them.

    Args:
        cost: how much the costs of a location differ.
        weights: of the other terms.
        n: locations.
        largest_entry: of the compatibility matrix.
        has_prior: whether `eta` weighs anything.
    """
    sizes = {
        "cost": cost,
        "beta": weights.beta / n,
        "eta": weights.eta / n if has_prior else 0.0,
        "gamma": weights.gamma / n * float(largest_entry),
    }
    # The penalty has no say in this: where it is large, costs decide between inputs without one.
    largest = max(sizes[name] for name in ("cost", "beta", "eta"))
    for name, size in sizes.items():
        if 0 < size < _NEGLIGIBLE * largest:
            raise ValueError(
                f"`{name}` must be 0, or at least {_NEGLIGIBLE:g} of the largest term, got "
                f"{size:g} per location where another term has {largest:g}. Scale it, or use 0."
            )
