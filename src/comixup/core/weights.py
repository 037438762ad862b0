"""The weights of the objective's terms, checked once and carried from mixer to solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from comixup._checks import check_choice, check_number

Clip: TypeAlias = Literal["soft", "hard"] | None
Smoothness: TypeAlias = Literal["squared", "inner", "official"]

_FORMER_OFFICIAL = "released"
"""The former name of `smoothness="official"`, which recipes and scripts may still have."""


@dataclass(frozen=True)
class Weights:
    """What Eq. (1) weighs its terms by, as the paper gives them: `beta` is 0.32, not 0.32 / n.

    Attributes:
        beta: weight of smoothness.
        gamma: weight of the compatibility penalty between outputs.
        tau: load up to which nothing is penalised, relative to the mean load of an input.
        eta: weight of the prior.
        clip: what `tau` does to the penalty: "soft" (Eq. (2)) counts what exceeds it, "hard" (the
            official implementation) all of what lies above it, None (the appendix's tables)
            ignores it.
        smoothness: pairwise cost of two neighbours z, z': "squared" is |z - z'|^2 / 2, "inner" is
            1 - z.z' (Eq. (1) to the letter), "official" the table of the official implementation.
            All the same for one-hot labels.

    >>> Weights(tau=0.5).tau, Weights().clip
    (0.5, 'soft')
    """

    beta: float = 0.32
    gamma: float = 1.0
    tau: float = 0.83
    eta: float = 0.05
    clip: Clip = "soft"
    smoothness: Smoothness = "squared"

    def __post_init__(self) -> None:
        for name in ("beta", "gamma", "tau", "eta"):
            check_number(name, getattr(self, name))
            object.__setattr__(self, name, float(getattr(self, name)))
        check_choice("clip", self.clip, ("soft", "hard", None))
        if self.smoothness == _FORMER_OFFICIAL:
            object.__setattr__(self, "smoothness", "official")
        check_choice("smoothness", self.smoothness, get_args(Smoothness))


class Weighted:
    """Something that carries weights, which can be read as attributes of its own."""

    weights: Weights

    @property
    def beta(self) -> float:
        """Weight of smoothness."""
        return self.weights.beta

    @property
    def gamma(self) -> float:
        """Weight of the compatibility penalty between outputs."""
        return self.weights.gamma

    @property
    def tau(self) -> float:
        """Load up to which nothing is penalised, relative to the mean load of an input."""
        return self.weights.tau

    @property
    def eta(self) -> float:
        """Weight of the prior."""
        return self.weights.eta

    @property
    def clip(self) -> Clip:
        """What `tau` does to the penalty."""
        return self.weights.clip

    @property
    def smoothness(self) -> Smoothness:
        """The pairwise cost of neighbours."""
        return self.weights.smoothness
