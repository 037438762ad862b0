"""One batch's discrete problem: what Eq. (1) needs to know, checked at the door."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from comixup._grid import MAX_DIMENSIONS

Clip: TypeAlias = Literal["soft", "hard"] | None
Smoothness: TypeAlias = Literal["squared", "inner", "released"]
CompatibilityFn: TypeAlias = Callable[[Tensor], Tensor]

PRIOR_FLOOR = 1e-8
"""Smallest mixing ratio: log(0) would forbid an input outright."""

SALIENT_WINDOW = 8
"""Side in pixels of the mean taken before looking for the most salient place."""

MAX_LOCATIONS = 2**20
MAX_LABELS = 2**28
"""Largest grid, and largest number of labels (outputs x locations), that is not a mistake."""

MAX_MAGNITUDE = 1e30
"""Largest cost, compatibility or weight: the kernel adds up a whole grid of them in float32."""

_SYMMETRY_TOLERANCE = 1e-5
_SUM_TOLERANCE = 1e-3
_ADAPTIVE_MEAN: dict[int, Callable[[Tensor, Any], Tensor]] = {
    1: F.adaptive_avg_pool1d,
    2: F.adaptive_avg_pool2d,
    3: F.adaptive_avg_pool3d,
}


@dataclass(frozen=True, eq=False)
class Problem:
    """Eq. (1) for m inputs and m' outputs on a grid of n locations.

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
        smoothness: charge for two neighbours z, z': "squared" is |z - z'|^2 / 2, "inner" is
            1 - z.z' (Eq. (1) to the letter), "released" the authors' table. All the same
            for one-hot labels.

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

    def __post_init__(self) -> None:
        cost = _floating("cost", self.cost)
        if not 2 <= cost.ndim <= 1 + MAX_DIMENSIONS or cost.numel() == 0:
            raise ValueError(
                "`cost` must have shape (inputs, *grid) with at least one input and a grid of 1 to "
                f"{MAX_DIMENSIONS} dimensions, got {tuple(cost.shape)}."
            )
        _check_finite("cost", cost)
        m, n = cost.shape[0], cost[0].numel()

        compatibility = _floating("compatibility", self.compatibility)
        _check_compatibility(compatibility, m)

        num_outputs = m if self.num_outputs is None else self.num_outputs
        if isinstance(num_outputs, bool) or not isinstance(num_outputs, int) or num_outputs < 1:
            raise ValueError(f"`num_outputs` must be a positive integer, got {num_outputs!r}.")
        if n > MAX_LOCATIONS or num_outputs * n > MAX_LABELS:
            raise ValueError(
                f"`cost` must have a grid of at most {MAX_LOCATIONS} locations and {MAX_LABELS} "
                f"labels in all, got {n} locations x {num_outputs} outputs. Use a coarser grid: "
                "the paper's is 4 x 4."
            )
        for name in ("beta", "gamma", "tau", "eta"):
            _check_number(name, getattr(self, name))
        _check_choice("clip", self.clip, ("soft", "hard", None))
        _check_choice("smoothness", self.smoothness, get_args(Smoothness))

        object.__setattr__(self, "cost", cost)
        object.__setattr__(self, "compatibility", compatibility)
        object.__setattr__(self, "num_outputs", num_outputs)
        for name in ("beta", "gamma", "tau", "eta"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.prior is not None:
            object.__setattr__(self, "prior", _checked_prior(self.prior, m))

    @property
    def num_inputs(self) -> int:
        """m, the number of inputs."""
        return self.cost.shape[0]

    @property
    def grid(self) -> tuple[int, ...]:
        """The sides of the grid of locations."""
        return tuple(self.cost.shape[1:])

    @property
    def num_locations(self) -> int:
        """n, the number of locations."""
        return math.prod(self.grid)

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
        saliency = _floating("saliency", saliency)
        if not 2 <= saliency.ndim <= 1 + MAX_DIMENSIONS or saliency.numel() == 0:
            raise ValueError(
                "`saliency` must have shape (inputs, *size) with 1 to "
                f"{MAX_DIMENSIONS} spatial dimensions and none empty, got {tuple(saliency.shape)}."
            )
        _check_number("omega", omega, high=1)
        if alpha is not None:
            _check_number("alpha", alpha)
            if alpha == 0:
                raise ValueError("`alpha` must be above 0, got 0. Use None for no prior.")
        sides = _grid_sides(grid, tuple(saliency.shape[1:]))
        pooled = _ADAPTIVE_MEAN[len(sides)](saliency.unsqueeze(1), sides).squeeze(1)
        _check_finite("saliency", pooled)
        m = saliency.shape[0]
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
            eye = torch.eye(m, device=saliency.device)
            matrix = (1 - omega) * eye + omega * place_distances(saliency)
        elif callable(compatibility):
            matrix = compatibility(saliency)
        else:
            matrix = compatibility
        prior = None if alpha is None else _draw_dirichlet(m, alpha, generator)
        return cls(
            cost=-normalised,
            compatibility=matrix,
            num_outputs=m if num_outputs is None else num_outputs,
            beta=beta,
            gamma=gamma,
            tau=tau,
            eta=eta,
            prior=None if prior is None else prior.to(saliency.device),
            clip=clip,
            smoothness=smoothness,
        )


def place_distances(saliency: Tensor) -> Tensor:
    """Returns A_c, (m, m): l1 distances between the inputs' most salient places, scaled to sum m.

    All zero if every place is the same.

    Paper: the arg max of the raw map. As in the authors' code, the map is averaged over a window
    of `SALIENT_WINDOW` pixels first, so that one hot pixel does not decide.
    """
    m, *size = saliency.shape
    smooth = saliency
    for axis, side in enumerate(size, start=1):  # sums, as good as means to find the largest
        smooth = _running_sum(smooth, axis, min(SALIENT_WINDOW, side))
    place = torch.stack(torch.unravel_index(smooth.flatten(1).argmax(1), smooth.shape[1:]), 1)
    distance = (place.unsqueeze(0) - place.unsqueeze(1)).abs().sum(-1).to(saliency.dtype)
    # Where all places coincide the sum is zero, and so is every distance: 0 / 1.
    return distance * m / distance.sum().clamp(min=1)


def _running_sum(values: Tensor, axis: int, window: int) -> Tensor:
    """Returns the sums of all runs of `window` values along an axis, by doubling."""
    if window == 1:
        return values
    half, runs = window // 2, values.shape[axis] - window + 1
    shorter = _running_sum(values, axis, half)
    total = shorter.narrow(axis, 0, runs) + shorter.narrow(axis, half, runs)
    return total + values.narrow(axis, window - 1, runs) if window % 2 else total


def _draw_dirichlet(m: int, alpha: float, generator: torch.Generator | None) -> Tensor:
    """Returns one draw of Dirichlet(alpha, ..., alpha), (m,)."""
    # torch.distributions takes no generator, so the draw is NumPy's, seeded by torch's.
    device = generator.device if generator is not None else None
    seed = int(torch.randint(2**62, (), generator=generator, device=device))
    return torch.from_numpy(np.random.default_rng(seed).dirichlet(np.full(m, alpha)))


def _grid_sides(grid: int | Sequence[int], size: tuple[int, ...]) -> tuple[int, ...]:
    sides = tuple(grid) if isinstance(grid, Iterable) else (grid,) * len(size)
    if len(sides) != len(size) or any(
        isinstance(side, bool) or not isinstance(side, int) or side < 1 for side in sides
    ):
        raise ValueError(
            "`grid` must be a positive integer, or one per spatial side of the saliency "
            f"{size}, got {grid!r}."
        )
    return tuple(min(cells, pixels) for cells, pixels in zip(sides, size, strict=True))


def _floating(name: str, value: object) -> Tensor:
    """Returns a tensor argument detached, in float32 or float64."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"`{name}` must be a torch tensor, got {type(value).__name__}. Wrap it in "
            "torch.as_tensor()."
        )
    if value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"`{name}` must hold real numbers, got {value.dtype}.")
    value = value.detach()
    return value if value.dtype in (torch.float32, torch.float64) else value.float()


def _check_finite(name: str, value: Tensor) -> None:
    wrong = ~(value.abs() <= MAX_MAGNITUDE)  # also true for NaN
    if bool(wrong.any()):
        bad = int(wrong.flatten(1).any(1).nonzero()[0])
        raise ValueError(
            f"`{name}` must be finite and at most {MAX_MAGNITUDE:g} in size, got "
            f"{float(value[wrong][0]):g} for input {bad}. Replace that input's map, for instance "
            "by a uniform one."
        )


def _check_number(name: str, value: Any, high: float = MAX_MAGNITUDE) -> None:
    rule = f"a number from 0 to {high:g}"
    if isinstance(value, bool) or not issubclass(type(value), Real):
        raise TypeError(f"`{name}` must be {rule}, got {value!r}.")
    if not 0 <= value <= high:  # NaN is not
        raise ValueError(f"`{name}` must be {rule}, got {value!r}.")


def _check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {list(choices)}, got {value!r}.")


def _check_compatibility(matrix: Tensor, m: int) -> None:
    if matrix.shape != (m, m):
        raise ValueError(
            f"`compatibility` must have shape ({m}, {m}), a row and a column per input, got "
            f"{tuple(matrix.shape)}."
        )
    _check_finite("compatibility", matrix)
    if bool((matrix < 0).any()):
        raise ValueError(
            f"`compatibility` must not be negative, got {float(matrix.min()):g}. Shift or clamp it."
        )
    asymmetry = float((matrix - matrix.T).abs().max())
    if asymmetry > _SYMMETRY_TOLERANCE * max(1.0, float(matrix.max())):
        raise ValueError(
            f"`compatibility` must be symmetric, got entries that differ by {asymmetry:g} from "
            "their mirror. Use (A + A.T) / 2."
        )
    # Diagonal dominance proves the matrix positive semi-definite (Gershgorin) at no cost; the
    # paper's matrix always is, so the eigenvalues are only for matrices that users bring.
    if bool((2 * matrix.diagonal() < matrix.sum(1)).any()):
        smallest = float(torch.linalg.eigvalsh(matrix.cpu().double())[0])
        if smallest < -_SYMMETRY_TOLERANCE * float(matrix.max()):
            warnings.warn(
                "`compatibility` is not positive semi-definite (smallest eigenvalue "
                f"{smallest:.3g}), so the penalty is not pairwise supermodular (Proposition 1). "
                "The solver still works; add to the diagonal to mend it.",
                stacklevel=4,
            )


def _checked_prior(prior: object, m: int) -> Tensor:
    ratio = _floating("prior", prior)
    if ratio.shape != (m,):
        raise ValueError(
            f"`prior` must have shape ({m},), one ratio per input, got {tuple(ratio.shape)}."
        )
    if not bool(torch.isfinite(ratio).all()) or bool((ratio < 0).any()):
        raise ValueError(f"`prior` must be finite and not negative, got {ratio.tolist()}.")
    if abs(float(ratio.sum()) - 1) > _SUM_TOLERANCE:
        raise ValueError(
            f"`prior` must sum to 1, got {float(ratio.sum()):g}. Divide it by its sum."
        )
    return ratio.clamp(min=PRIOR_FLOOR)
