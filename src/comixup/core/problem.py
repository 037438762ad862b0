"""The discrete problem of a batch: the validated inputs of Eq. (1)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from comixup._checks import check_count, warn_caller
from comixup._random import dirichlet, numpy_generator
from comixup.core.grid import MAX_DIMENSIONS
from comixup.core.maps import MAX_LOCATIONS, Maps, grid_sides, location_distances, pool_maps
from comixup.core.tensors import Floats, check_finite, floating, host_copy
from comixup.core.weights import (
    ALPHA,
    GRID,
    OMEGA,
    Clip,
    Smoothness,
    Weights,
    check_prior_settings,
)

CompatibilityFn: TypeAlias = Callable[[Tensor], Tensor]

PRIOR_FLOOR = 1e-8
"""Smallest mixing ratio: log(0) would forbid an input outright."""

MAX_LABELS = 2**28
"""Largest accepted number of labels (outputs x locations): more are a mistake."""

_SUM_TOLERANCE, _SYMMETRY_TOLERANCE = 1e-3, 1e-5

_NEGLIGIBLE = 1e-35
"""Terms smaller than this, relative to the others, would be 0 in the kernel's single precision."""

_HOST = torch.device("cpu")

_weights_of = attrgetter(*Weights.__dataclass_fields__)


class HostArrays(NamedTuple):
    """A problem's tensors as float64 arrays in host memory, which checks and solver read."""

    cost: Floats
    """(m, n)."""
    compatibility: Floats
    prior: Floats | None


class Partition(NamedTuple):
    """Inputs that are mixed together, and how many outputs are made of them."""

    num_inputs: int
    num_outputs: int


class Problem(Weights):
    """Eq. (1) for m inputs and m' outputs on a grid of n locations.

    A problem is a snapshot: its tensors are copied to host memory, and reading one returns a copy,
    so that later writes cannot change what was validated.

    The weights are the paper's values. They act per location, so the objective uses beta / n,
    gamma / n and eta / n.

    Args:
        cost: c, (m, *grid): cost of filling a location from an input; minus its saliency.
        compatibility: A, (m, m), symmetric and not negative: penalty on two inputs in *different*
            outputs. The identity penalizes outputs that share an input.
        num_outputs: m'; None means m.
        beta: weight of smoothness.
        gamma: weight of the compatibility penalty between outputs.
        tau: clip level of the compatibility penalty, relative to the mean load of an input.
        eta: weight of the prior.
        prior: lambda, (m,), the mixing ratio's distribution; None means no prior.
        clip: "soft" (Eq. (2)) penalizes the load above the clip level, "hard" (the official
            implementation) the whole load if above it, None (the appendix's tables) any load.
        smoothness: pairwise cost of two neighbors z, z': "squared" is |z - z'|^2 / 2, "inner" is
            1 - z.z' (Eq. (1) to the letter), "official" the table of the official implementation.
            They are equal for one-hot labels.

    Attributes:
        grid: the sides of the grid of locations.
        num_inputs: m, the number of inputs.
        num_locations: n, the number of locations.
        clip_level: tau' = 2 tau n m'/m, where Eq. (2) clips the load v_-j on an input.
        total_clip: tau n^2 m'^2 / m, where Eq. (1) clips the sum over all pairs of outputs.
        device: of `cost`; labellings are returned there.
        host: the tensors as arrays in host memory.

    >>> problem = Problem(cost=-torch.eye(2), compatibility=torch.eye(2))
    >>> problem.num_inputs, problem.num_outputs, problem.grid, problem.beta
    (2, 2, (2,), 0.32)
    """

    _remedy = "Use problem.replace({name}=...) for another one."

    num_inputs: int
    num_outputs: int
    num_locations: int
    clip_level: float
    total_clip: float
    grid: tuple[int, ...]
    device: torch.device
    dtype: torch.dtype
    host: HostArrays

    def __init__(
        self,
        cost: Tensor,
        compatibility: Tensor,
        num_outputs: int | None = None,
        beta: float = Weights.beta,
        gamma: float = Weights.gamma,
        tau: float = Weights.tau,
        eta: float = Weights.eta,
        prior: Tensor | None = None,
        clip: Clip = Weights.clip,
        smoothness: Smoothness = Weights.smoothness,
    ) -> None:
        weights = Weights(
            beta=beta, gamma=gamma, tau=tau, eta=eta, clip=clip, smoothness=smoothness
        )
        cost = floating("cost", cost)
        if not 2 <= cost.ndim <= 1 + MAX_DIMENSIONS or cost.numel() == 0:
            raise ValueError(
                "`cost` must have shape (inputs, *grid) with at least one input and a grid of 1 to "
                f"{MAX_DIMENSIONS} dimensions, got {tuple(cost.shape)}."
            )
        m, n = cost.shape[0], cost[0].numel()
        host_cost = host_copy(cost).reshape(m, n)
        check_finite("cost", host_cost)
        matrix = checked_compatibility(compatibility, m)
        warn_if_indefinite(matrix)
        if num_outputs is None:
            num_outputs = m
        check_count("num_outputs", num_outputs)
        check_size(n, num_outputs)
        ratio = None if prior is None else checked_prior(prior, m)
        spread = float(np.ptp(host_cost, axis=0).max())
        check_term_scale(spread, weights, n, matrix.max(), has_prior=ratio is not None)
        host = HostArrays(host_cost, matrix, ratio)
        grid = tuple(cost.shape[1:])
        self._hold(host, weights, grid, int(num_outputs), cost.device, cost.dtype)

    def _hold(
        self,
        host: HostArrays,
        weights: Weights,
        grid: tuple[int, ...],
        num_outputs: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        for array in host:
            if array is not None:
                array.setflags(write=False)
        m, n = host.cost.shape
        vars(self).update(
            zip(Weights.__dataclass_fields__, _weights_of(weights), strict=True),
            host=host,
            grid=grid,
            num_inputs=m,
            num_outputs=num_outputs,
            num_locations=n,
            clip_level=2 * weights.tau * n * num_outputs / m,
            total_clip=weights.tau * (n * num_outputs) ** 2 / m,
            device=device,
            dtype=dtype,
        )

    def _is_fixed(self, name: str) -> bool:
        return True

    def __repr__(self) -> str:
        return (
            f"{Problem.__name__}({self.num_inputs} inputs, {self.num_outputs} outputs, grid "
            f"{self.grid}, beta={self.beta:g}, gamma={self.gamma:g}, tau={self.tau:g}, "
            f"eta={self.eta:g}, clip={self.clip!r}, smoothness={self.smoothness!r})"
        )

    def replace(self, **changes: Any) -> Problem:
        """Returns a problem with other values of some arguments.

        >>> problem = Problem(cost=-torch.eye(2), compatibility=torch.eye(2))
        >>> problem.replace(tau=0.5).tau, problem.tau
        (0.5, 0.83)
        """
        own = {
            "cost": self.cost,
            "compatibility": self.compatibility,
            "num_outputs": self.num_outputs,
            "prior": self.prior,
            **dict(zip(Weights.__dataclass_fields__, _weights_of(self), strict=True)),
        }
        return Problem(**{**own, **changes})

    @property
    def cost(self) -> Tensor:
        """c, (m, *grid), a copy."""
        return self._tensor(self.host.cost).view(-1, *self.grid)

    @property
    def compatibility(self) -> Tensor:
        """A, (m, m), a copy."""
        return self._tensor(self.host.compatibility)

    @property
    def prior(self) -> Tensor | None:
        """lambda, (m,), a copy, at least `PRIOR_FLOOR` everywhere; None means no prior."""
        return None if self.host.prior is None else self._tensor(self.host.prior)

    def _tensor(self, array: Floats) -> Tensor:
        return torch.tensor(array, dtype=self.dtype, device=self.device)

    @classmethod
    def from_saliency(
        cls,
        saliency: Tensor,
        *,
        grid: int | Sequence[int] = GRID,
        num_outputs: int | None = None,
        beta: float = Weights.beta,
        gamma: float = Weights.gamma,
        tau: float = Weights.tau,
        eta: float = Weights.eta,
        omega: float = OMEGA,
        alpha: float | None = ALPHA,
        compatibility: Tensor | CompatibilityFn | None = None,
        clip: Clip = Weights.clip,
        smoothness: Smoothness = Weights.smoothness,
        generator: torch.Generator | None = None,
    ) -> Problem:
        """Returns the problem of a batch, given the saliency map of each input.

        Pools each map to the grid, normalizes it to sum 1 and uses it as minus the cost; builds A =
        (1 - omega) I + omega A_c from the distances between the most salient locations; draws the
        prior's lambda ~ Dirichlet(alpha, ..., alpha). `CoMixup` builds its problems the same way,
        in float64, but replaces unusable maps by uniform ones, where this raises.

        Args:
            saliency: (m, *size), not negative, with 1 to 3 spatial dimensions of any size.
            grid: cells per side (a number, or one per side); at most one per pixel.
            num_outputs: m'; None means m.
            beta: weight of smoothness.
            gamma: weight of the compatibility penalty.
            tau: clip level of the compatibility penalty, relative to the mean load of an input.
            eta: weight of the prior.
            omega: weight of the distances in A, from 0 to 1.
            alpha: parameter of the prior's Dirichlet distribution; None means no prior.
            compatibility: A itself, as an (m, m) tensor or a function of the (m, *size) saliency
                that returns it; `omega` is then ignored.
            clip: see `Problem`.
            smoothness: see `Problem`.
            generator: random generator for the prior; None means torch's global one.

        >>> problem = Problem.from_saliency(torch.rand(6, 32, 48))
        >>> problem.grid, round(float(problem.cost.sum()), 4)
        ((4, 4), -6.0)
        """
        weights = Weights(
            beta=beta, gamma=gamma, tau=tau, eta=eta, clip=clip, smoothness=smoothness
        )
        check_prior_settings(omega, alpha)
        saliency = floating("saliency", saliency)
        if not 2 <= saliency.ndim <= 1 + MAX_DIMENSIONS or saliency.numel() == 0:
            raise ValueError(
                "`saliency` must have shape (inputs, *size) with 1 to "
                f"{MAX_DIMENSIONS} spatial dimensions and none empty, got {tuple(saliency.shape)}."
            )
        m = len(saliency)
        if num_outputs is None:
            num_outputs = m
        check_count("num_outputs", num_outputs)
        maps = pool_maps(saliency, grid_sides(grid, tuple(saliency.shape[1:])))
        maps.check_usable()
        check_size(maps.cells[0].size, num_outputs)
        (problem,) = build_problems(
            maps,
            [Partition(m, int(num_outputs))],
            weights=weights,
            omega=omega,
            alpha=alpha,
            compatibility=compatibility,
            generator=generator,
            device=saliency.device,
            dtype=saliency.dtype,
        )
        if compatibility is None:  # a large omega can; the caller's own matrix was checked
            warn_if_indefinite(problem.host.compatibility)
        return problem


def build_problems(
    maps: Maps,
    partitions: Sequence[Partition],
    *,
    weights: Weights,
    omega: float,
    alpha: float | None,
    compatibility: Tensor | CompatibilityFn | None,
    generator: torch.Generator | None,
    device: torch.device = _HOST,
    dtype: torch.dtype = torch.float64,
) -> list[Problem]:
    """Returns the problem of each partition of a batch, of consecutive inputs.

    The settings are those of `Problem.from_saliency`; a compatibility matrix covers the whole
    batch. Labellings are returned on `device`; the problems' tensors have `dtype`.
    """
    random = None if alpha is None else numpy_generator(generator)
    cost = -maps.cells.reshape(len(maps.cells), -1)
    n, grid = cost.shape[1], maps.cells.shape[1:]
    problems: list[Problem] = []
    first = 0
    for m, run in itertools.groupby(partitions, key=attrgetter("num_inputs")):
        alike = list(run)  # vectorized: five small arrays cost five times one large array
        rows = slice(first, first + m * len(alike))
        matrices = _compatibilities(compatibility, maps, rows, m, omega)
        # The costs of an input sum to one: their scale is known.
        largest = 1.0 if compatibility is None else float(matrices.max())
        check_term_scale(1.0, weights, n, largest, has_prior=random is not None)
        costs = cost[rows].reshape(-1, m, n)
        priors = _draw_priors(alpha, m, len(alike), random)
        for host, partition in zip(map(HostArrays, costs, matrices, priors), alike, strict=True):
            # Valid by construction: checks would take longer than the rest.
            problem = Problem.__new__(Problem)
            problem._hold(host, weights, grid, partition.num_outputs, device, dtype)
            problems.append(problem)
        first = rows.stop
    return problems


def _compatibilities(
    compatibility: Tensor | CompatibilityFn | None, maps: Maps, rows: slice, m: int, omega: float
) -> Floats:
    """Returns A of successive partitions of m inputs, (partitions, m, m)."""
    if compatibility is None:
        locations = maps.locations[rows]
        return paper_compatibility(locations.reshape(-1, m, locations.shape[1]), omega)
    saliency, batch = maps.saliency, len(maps.saliency)
    if isinstance(compatibility, Tensor) and compatibility.shape != (batch, batch):
        raise ValueError(
            f"`compatibility` must have shape ({batch}, {batch}), a row and a column per input of "
            f"the batch, got {tuple(compatibility.shape)}. A function of the saliency works for "
            "batches of any size."
        )
    matrices = []
    for start in range(rows.start, rows.stop, m):
        part = slice(start, start + m)
        if callable(compatibility):
            own = compatibility(saliency[part])
        else:
            own = floating("compatibility", compatibility)[part, part]
        matrices.append(checked_compatibility(own, m))
        warn_if_indefinite(matrices[-1])  # the caller's matrix
    return np.stack(matrices)


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


def checked_compatibility(compatibility: Tensor, m: int) -> Floats:
    """Returns a validated copy of a compatibility matrix."""
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
    """Warns if Proposition 1 does not hold for a matrix."""
    # Diagonal dominance proves the matrix positive semi-definite (Gershgorin) at no cost; the
    # paper's matrix always is, so eigenvalues are only computed for users' matrices.
    if (2 * matrix.diagonal() < matrix.sum(1)).any():
        smallest = np.linalg.eigvalsh(matrix)[0]
        if smallest < -_SYMMETRY_TOLERANCE * matrix.max():
            warn_caller(
                "`compatibility` is not positive semi-definite (smallest eigenvalue "
                f"{smallest:.3g}), so the penalty is not pairwise supermodular (Proposition 1). "
                "The solver still works; add to the diagonal to make it so."
            )


def _draw_priors(
    alpha: float | None, m: int, rows: int, random: np.random.Generator | None
) -> Iterable[Floats | None]:
    """Returns lambda of successive partitions of m inputs, (partitions, m); Nones for no prior."""
    if random is None or alpha is None:
        return itertools.repeat(None, rows)
    priors: Floats = np.maximum(dirichlet(alpha, m, random, rows).numpy(), PRIOR_FLOOR)
    return priors


def checked_prior(prior: Tensor, m: int) -> Floats:
    """Returns a validated copy of a prior, floored at `PRIOR_FLOOR`."""
    ratio = host_copy(floating("prior", prior))
    if ratio.shape != (m,):
        raise ValueError(f"`prior` must have shape ({m},), one ratio per input, got {ratio.shape}.")
    if not np.isfinite(ratio).all() or ratio.min() < 0:
        raise ValueError(f"`prior` must be finite and not negative, got {ratio.tolist()}.")
    if abs(ratio.sum() - 1) > _SUM_TOLERANCE:
        raise ValueError(f"`prior` must sum to 1, got {ratio.sum():g}. Divide it by its sum.")
    return np.maximum(ratio, PRIOR_FLOOR)


def check_size(n: int, num_outputs: int) -> None:
    """Raises for more locations or labels than the kernel supports."""
    if n > MAX_LOCATIONS or num_outputs * n > MAX_LABELS:
        raise ValueError(
            f"`cost` must have a grid of at most {MAX_LOCATIONS} locations and {MAX_LABELS} "
            f"labels in all, got {n} locations x {num_outputs} outputs. Use a coarser grid: "
            "the paper's is 4 x 4."
        )


def check_term_scale(
    cost: float, weights: Weights, n: int, largest_entry: float, *, has_prior: bool
) -> None:
    """Raises for nonzero terms that rounding would lose next to the others.

    `cost` is the largest difference of costs at a location, n the number of locations.
    """
    sizes = {
        "cost": cost,
        "beta": weights.beta / n,
        "eta": weights.eta / n if has_prior else 0.0,
        "gamma": weights.gamma / n * float(largest_entry),
    }
    # The penalty is left out: where it is large, costs decide between inputs without a penalty.
    largest = max(sizes["cost"], sizes["beta"], sizes["eta"])
    for name, size in sizes.items():
        if 0 < size < _NEGLIGIBLE * largest:
            raise ValueError(
                f"`{name}` must be 0, or at least {_NEGLIGIBLE:g} of the largest term, got "
                f"{size:g} per location where another term has {largest:g}. Scale it, or use 0."
            )
