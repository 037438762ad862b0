"""One batch's discrete problem: what Eq. (1) needs to know, checked at the door."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from comixup._checks import (
    Floats,
    check_choice,
    check_count,
    check_finite,
    check_number,
    check_positive,
    floating,
    on_host,
)
from comixup._grid import MAX_DIMENSIONS
from comixup._maps import MAX_LOCATIONS, grid_sides, place_distances, pool, salient_places
from comixup._random import dirichlet, draws

Clip: TypeAlias = Literal["soft", "hard"] | None
Smoothness: TypeAlias = Literal["squared", "inner", "official"]
CompatibilityFn: TypeAlias = Callable[[Tensor], Tensor]

PRIOR_FLOOR = 1e-8
"""Smallest mixing ratio: log(0) would forbid an input outright."""

MAX_LABELS = 2**28
"""Largest number of labels (outputs x locations) that is not a mistake."""

_FORMER_OFFICIAL = "released"
"""What `smoothness="official"` was called: written down in recipes and scripts."""

_SYMMETRY_TOLERANCE = 1e-5
_SUM_TOLERANCE = 1e-3

_NEGLIGIBLE = 1e-35
"""Terms smaller than this, relative to the others, would be 0 in the kernel's single precision."""


class HostArrays(NamedTuple):
    """A problem's tensors as float64 arrays in host memory."""

    cost: Floats
    """(m, n)."""
    compatibility: Floats
    prior: Floats | None

    def read_only(self) -> HostArrays:
        """Returns the same arrays, which from now on cannot be written to."""
        for array in self:
            if array is not None:
                array.setflags(write=False)
        return self


@dataclass(frozen=True, eq=False)
class Problem:
    """Eq. (1) for m inputs and m' outputs on a grid of n locations.

    A problem is a snapshot: it copies the tensors that it is given, and reading a field returns a
    copy, so that no later write changes what has been checked.

    Fields hold the paper's values: the weights act per location, so the objective uses beta / n,
    gamma / n and eta / n.

    Attributes:
        cost: c, (m, *grid): cost of filling a location from an input; minus its saliency.
        compatibility: A, (m, m), symmetric and not negative: how unwelcome two inputs are in
            *different* outputs. The identity asks that outputs share no input.
        num_outputs: m'; None means m.
        beta: weight of smoothness.
        gamma: weight of the compatibility penalty between outputs.
        tau: load up to which nothing is penalised, relative to the mean load of an input.
        eta: weight of the prior.
        prior: lambda, (m,), the mixing ratio's distribution; None means no prior.
        clip: what `tau` does to the penalty: "soft" (Eq. (2)) counts what exceeds it, "hard" (the
            authors' code) all of what lies above it, None (the appendix's tables) ignores it.
        host: the tensors as arrays in host memory, made once: checks and solver read them.
        smoothness: charge for two neighbours z, z': "squared" is |z - z'|^2 / 2, "inner" is
            1 - z.z' (Eq. (1) to the letter), "official" the table of the official
            implementation ("released", its former name, still works). All the same for one-hot
            labels.

    >>> problem = Problem(cost=-torch.eye(2), compatibility=torch.eye(2))
    >>> problem.num_inputs, problem.num_outputs, problem.grid
    (2, 2, (2,))
    """

    cost: Tensor
    compatibility: Tensor
    num_outputs: int = None  # type: ignore[assignment]  # None is replaced by m below
    beta: float = 0.32
    gamma: float = 1.0
    tau: float = 0.83
    eta: float = 0.05
    prior: Tensor | None = None
    clip: Clip = "soft"
    smoothness: Smoothness = "squared"
    host: HostArrays = field(init=False, repr=False)

    def __post_init__(self) -> None:
        cost = floating("cost", self.cost)  # a copy, as always
        if not 2 <= cost.ndim <= 1 + MAX_DIMENSIONS or cost.numel() == 0:
            raise ValueError(
                "`cost` must have shape (inputs, *grid) with at least one input and a grid of 1 to "
                f"{MAX_DIMENSIONS} dimensions, got {tuple(cost.shape)}."
            )
        m, n = cost.shape[0], cost[0].numel()
        host_cost = on_host(cost).reshape(m, n)
        check_finite("cost", host_cost)

        compatibility = floating("compatibility", self.compatibility)
        host_compatibility = on_host(compatibility)
        _check_compatibility(host_compatibility, m)

        num_outputs = m if self.num_outputs is None else self.num_outputs
        check_count("num_outputs", num_outputs)
        if n > MAX_LOCATIONS or num_outputs * n > MAX_LABELS:
            raise ValueError(
                f"`cost` must have a grid of at most {MAX_LOCATIONS} locations and {MAX_LABELS} "
                f"labels in all, got {n} locations x {num_outputs} outputs. Use a coarser grid: "
                "the paper's is 4 x 4."
            )
        for name in ("beta", "gamma", "tau", "eta"):
            check_number(name, getattr(self, name))
        check_choice("clip", self.clip, ("soft", "hard", None))
        if self.smoothness == _FORMER_OFFICIAL:
            object.__setattr__(self, "smoothness", "official")
        check_choice("smoothness", self.smoothness, get_args(Smoothness))

        object.__setattr__(self, "cost", cost)
        object.__setattr__(self, "compatibility", compatibility)
        object.__setattr__(self, "num_outputs", int(num_outputs))
        for name in ("beta", "gamma", "tau", "eta"):
            object.__setattr__(self, name, float(getattr(self, name)))
        host_prior = None
        if self.prior is not None:
            prior = floating("prior", self.prior)
            _check_prior(on_host(prior), m)
            object.__setattr__(self, "prior", prior.clamp(min=PRIOR_FLOOR))
            host_prior = on_host(prior.clamp(min=PRIOR_FLOOR))
        host = HostArrays(host_cost, host_compatibility, host_prior).read_only()
        object.__setattr__(self, "host", host)
        _check_scale(self)

    def with_arrays(self, host: HostArrays, grid: tuple[int, ...], num_outputs: int) -> Problem:
        """Returns a problem with the weights of this one and arrays that need no checks.

        For those who make the arrays themselves, batch after batch: checks take longer than that.
        """
        problem = object.__new__(Problem)
        problem.__dict__.update(self.__dict__)
        problem.__dict__.update(
            cost=torch.tensor(host.cost).view(-1, *grid),
            compatibility=torch.tensor(host.compatibility),
            prior=None if host.prior is None else torch.tensor(host.prior),
            num_outputs=num_outputs,
            host=host.read_only(),
        )
        return problem

    @property
    def num_inputs(self) -> int:
        """m, the number of inputs."""
        return int(self.host.cost.shape[0])

    @property
    def grid(self) -> tuple[int, ...]:
        """The sides of the grid of locations."""
        return tuple(vars(self)["cost"].shape[1:])

    @property
    def device(self) -> torch.device:
        """The device of `cost`, on which labellings are returned."""
        device: torch.device = vars(self)["cost"].device
        return device

    @property
    def num_locations(self) -> int:
        """n, the number of locations."""
        return int(self.host.cost.shape[1])

    @property
    def pressure_clip(self) -> float:
        """tau' = 2 tau n m'/m, where Eq. (2) clips the pressure v_-j on an input."""
        return 2 * self.tau * self.num_locations * self.num_outputs / self.num_inputs

    @property
    def total_clip(self) -> float:
        """Where Eq. (1) clips the sum over all pairs of outputs: tau n^2 m'^2 / m."""
        return self.tau * (self.num_locations * self.num_outputs) ** 2 / self.num_inputs

    @classmethod
    def from_saliency(
        cls,
        saliency: Tensor,
        *,
        grid: int | Sequence[int] = 4,
        num_outputs: int | None = None,
        beta: float = 0.32,
        gamma: float = 1.0,
        tau: float = 0.83,
        eta: float = 0.05,
        omega: float = 0.001,
        alpha: float | None = 2.0,
        compatibility: Tensor | CompatibilityFn | None = None,
        clip: Clip = "soft",
        smoothness: Smoothness = "squared",
        generator: torch.Generator | None = None,
    ) -> Problem:
        """Returns the problem of a batch, from the saliency map of each of its inputs.

        Pools each map to the grid, normalises it to sum 1 and takes it as minus the cost; builds
        A = (1 - omega) I + omega A_c from the distances between the most salient places; draws
        the prior's lambda ~ Dirichlet(alpha, ..., alpha).

        Args:
            saliency: (m, *size), not negative, with 1 to 3 spatial dimensions of any size.
            grid: cells a side (a number, or one per side); at most one per pixel.
            num_outputs: m'; None means m.
            beta: weight of smoothness.
            gamma: weight of the compatibility penalty.
            tau: load up to which nothing is penalised, relative to the mean load of an input.
            eta: weight of the prior.
            omega: weight of the distances in A, from 0 to 1.
            alpha: the Dirichlet's parameter; None leaves the prior out.
            compatibility: A itself, as an (m, m) tensor or a function of the (m, *size) saliency
                that returns it; `omega` then plays no part.
            clip: see `Problem`.
            smoothness: see `Problem`.
            generator: where the prior's draw comes from; None means torch's global one.

        >>> problem = Problem.from_saliency(torch.rand(6, 32, 48))
        >>> problem.grid, round(float(problem.cost.sum()), 4)
        ((4, 4), -6.0)
        """
        saliency = floating("saliency", saliency)
        if not 2 <= saliency.ndim <= 1 + MAX_DIMENSIONS or saliency.numel() == 0:
            raise ValueError(
                "`saliency` must have shape (inputs, *size) with 1 to "
                f"{MAX_DIMENSIONS} spatial dimensions and none empty, got {tuple(saliency.shape)}."
            )
        check_number("omega", omega, high=1)
        if alpha is not None:
            check_positive("alpha", alpha, "Use None for no prior.")
        pooled = pool(saliency, grid_sides(grid, tuple(saliency.shape[1:])))
        check_finite("saliency", on_host(pooled))
        m, device = saliency.shape[0], saliency.device
        total = pooled.flatten(1).sum(1)
        least = saliency.flatten(1).amin(1)
        refused = (least < 0) | (total <= 0)
        if bool(refused.any()):
            bad = int(refused.nonzero()[0])
            raise ValueError(
                "`saliency` must be non-negative with a positive sum for each input, got a least "
                f"value of {float(least[bad]):g} and a sum of {float(total[bad]):g} for input "
                f"{bad}. Give it a uniform map."
            )
        normalised = pooled / total.view(-1, *[1] * (saliency.ndim - 1))

        if compatibility is None:
            places = on_host(salient_places(saliency))
            matrix = torch.from_numpy(paper_compatibility(places, omega)).float().to(device)
        elif callable(compatibility):
            matrix = compatibility(saliency)
        else:
            matrix = compatibility
        prior = None if alpha is None else dirichlet(alpha, m, draws(generator))[0]
        return cls(
            cost=-normalised,
            compatibility=matrix,
            num_outputs=m if num_outputs is None else num_outputs,
            beta=beta,
            gamma=gamma,
            tau=tau,
            eta=eta,
            prior=None if prior is None else prior.to(device),
            clip=clip,
            smoothness=smoothness,
        )


class _Copied:
    """A field of `Problem` whose tensor is copied when it is set and whenever it is read."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, problem: Problem | None, owner: type[Problem]) -> Any:
        if problem is None:
            return self
        value = vars(problem)[self.name]
        return value.clone() if isinstance(value, Tensor) else value

    def __set__(self, problem: Problem, value: object) -> None:
        vars(problem)[self.name] = value.clone() if isinstance(value, Tensor) else value


for _name in ("cost", "compatibility", "prior"):
    setattr(Problem, _name, _Copied(_name))


def paper_compatibility(places: Floats, omega: float) -> Floats:
    """Returns A = (1 - omega) I + omega A_c of inputs with these most salient places."""
    matrix: Floats = omega * place_distances(places)
    matrix.flat[:: len(matrix) + 1] += 1 - omega
    return matrix


def _check_compatibility(matrix: Floats, m: int) -> None:
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
    # Diagonal dominance proves the matrix positive semi-definite (Gershgorin) at no cost; the
    # paper's matrix always is, so the eigenvalues are only for matrices that users bring.
    if (2 * matrix.diagonal() < matrix.sum(1)).any():
        smallest = np.linalg.eigvalsh(matrix)[0]
        if smallest < -_SYMMETRY_TOLERANCE * matrix.max():
            warnings.warn(
                "`compatibility` is not positive semi-definite (smallest eigenvalue "
                f"{smallest:.3g}), so the penalty is not pairwise supermodular (Proposition 1). "
                "The solver still works; add to the diagonal to mend it.",
                stacklevel=4,
            )


def _check_scale(problem: Problem) -> None:
    """Rejects terms that are not 0, but so small that the others leave nothing of them."""
    cost, matrix, prior = problem.host
    n = problem.num_locations
    sizes = {
        "cost": float((cost.max(0) - cost.min(0)).max()),
        "beta": problem.beta / n,
        "eta": 0.0 if prior is None else problem.eta / n,
        "gamma": problem.gamma / n * float(matrix.max()),
    }
    # The penalty has no say in this: where it is large, costs decide between inputs without one.
    largest = max(sizes[name] for name in ("cost", "beta", "eta"))
    for name, size in sizes.items():
        if 0 < size < _NEGLIGIBLE * largest:
            raise ValueError(
                f"`{name}` must be 0, or at least {_NEGLIGIBLE:g} of the largest term, got "
                f"{size:g} per location where another term has {largest:g}. Scale it, or use 0."
            )


def _check_prior(ratio: Floats, m: int) -> None:
    if ratio.shape != (m,):
        raise ValueError(f"`prior` must have shape ({m},), one ratio per input, got {ratio.shape}.")
    if not np.isfinite(ratio).all() or ratio.min() < 0:
        raise ValueError(f"`prior` must be finite and not negative, got {ratio.tolist()}.")
    if abs(ratio.sum() - 1) > _SUM_TOLERANCE:
        raise ValueError(f"`prior` must sum to 1, got {ratio.sum():g}. Divide it by its sum.")
