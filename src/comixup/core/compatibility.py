"""A of Eq. (1): how unwelcome two inputs are in different outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from torch import Tensor

from comixup._checks import warn_caller
from comixup.core.maps import location_distances
from comixup.core.tensors import Floats, check_finite, floating, host_copy

CompatibilityFn: TypeAlias = Callable[[Tensor], Tensor]

_SYMMETRY_TOLERANCE = 1e-5


def paper_compatibility(locations: Floats, omega: float) -> Floats:
    """Returns A = (1 - omega) I + omega A_c, (..., m, m), from the inputs' most salient locations.

    Args:
        locations: (..., m, dimensions), of one or more sets of m inputs.
        omega: weight of the distances.
    """
    matrix: Floats = omega * location_distances(locations)
    m = matrix.shape[-1]
    matrix.reshape(-1, m * m)[:, :: m + 1] += 1 - omega
    return matrix


def partition_compatibility(
    compatibility: Tensor | CompatibilityFn, saliency: Tensor, part: slice
) -> Floats:
    """Returns the matrix of a partition that the caller gave, or whose function was given."""
    m = part.stop - part.start
    if not isinstance(compatibility, Tensor):
        if not callable(compatibility):
            floating("compatibility", compatibility)  # raises
        return checked_compatibility(compatibility(saliency[part]), m)
    batch = len(saliency)
    if compatibility.shape != (batch, batch):
        raise ValueError(
            f"`compatibility` must have shape ({batch}, {batch}), a row and a column per input of "
            f"the batch, got {tuple(compatibility.shape)}. A function of the saliency works for "
            "batches of any size."
        )
    return checked_compatibility(compatibility[part, part], m)


def checked_compatibility(compatibility: Tensor, m: int) -> Floats:
    """Returns a copy of a matrix that can be the compatibility of m inputs."""
    matrix = host_copy(floating("compatibility", compatibility))
    if matrix.shape != (m, m):
        raise ValueError(
            f"`compatibility` must have shape ({m}, {m}), a row and a column per input, got "
            f"{matrix.shape}."
        )
    check_finite("compatibility", matrix)
    if matrix.min() < 0:
        raise ValueError(
            f"`compatibility` must not be negative, got {matrix.min():g}. Shift or clamp it."
        )
    asymmetry = np.abs(matrix - matrix.T).max()
    if asymmetry > _SYMMETRY_TOLERANCE * max(1.0, matrix.max()):
        raise ValueError(
            f"`compatibility` must be symmetric, got entries that differ by {asymmetry:g} from "
            "their mirror. Use (A + A.T) / 2."
        )
    return matrix


def warn_if_indefinite(matrix: Floats) -> None:
    """Warns of a matrix with which Proposition 1 does not hold."""
    # Diagonal dominance proves the matrix positive semi-definite (Gershgorin) at no cost; the
    # paper's matrix always is, so the eigenvalues are only for matrices that users bring.
    if (2 * matrix.diagonal() < matrix.sum(1)).any():
        smallest = np.linalg.eigvalsh(matrix)[0]
        if smallest < -_SYMMETRY_TOLERANCE * matrix.max():
            warn_caller(
                "`compatibility` is not positive semi-definite (smallest eigenvalue "
                f"{smallest:.3g}), so the penalty is not pairwise supermodular (Proposition 1). "
                "The solver still works; add to the diagonal to make it so."
            )
