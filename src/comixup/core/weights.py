"""The paper's settings, defined only here, and the validated weights of Eq. (1).

Imports no torch.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from comixup._checks import SetOnce, check_choice, check_number, check_positive

Clip: TypeAlias = Literal["soft", "hard"] | None
Smoothness: TypeAlias = Literal["squared", "inner", "official"]

OMEGA = 0.001
"""The paper's weight of the distances between salient locations in the compatibility matrix."""

ALPHA = 2.0
"""The paper's parameter of the prior's Dirichlet distribution."""

GRID, PARTITION_SIZE = 4, 20
"""Cells per side; inputs per partition."""

SWEEPS, LEVELS = 4, 2
"""T and L of Algorithm 1 in the paper's main setting."""


@dataclass(eq=False, repr=False, kw_only=True)
class Weights(SetOnce):
    """The weights of Eq. (1) as in the paper: `beta` is 0.32, not 0.32 / n.

    Attributes:
        beta: weight of smoothness.
        gamma: weight of the compatibility penalty between outputs.
        tau: clip level of the compatibility penalty, relative to the mean load of an input.
        eta: weight of the prior.
        clip: "soft" (Eq. (2)) penalizes the load above the clip level, "hard" (the official
            implementation) the whole load if above it, None (the appendix's tables) any load.
        smoothness: pairwise cost of two neighbors z, z': "squared" is |z - z'|^2 / 2, "inner" is
            1 - z.z' (Eq. (1) to the letter), "official" the table of the official implementation.
            They are equal for one-hot labels.

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
            vars(self)[name] = float(getattr(self, name))
        check_choice("clip", self.clip, ("soft", "hard", None))
        check_choice("smoothness", self.smoothness, get_args(Smoothness))


def check_prior_settings(omega: float, alpha: float | None) -> None:
    """Raises for an invalid `omega` or `alpha`."""
    check_number("omega", omega, high=1)
    if alpha is not None:
        check_positive("alpha", alpha, "Use None for no prior.")
