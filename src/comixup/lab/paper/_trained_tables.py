"""The tables of trained networks as data: each number's runs at either scale, and the paper's."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from comixup.core.weights import OMEGA, PARTITION_SIZE, Weights
from comixup.lab.paper._published import CALIBRATION as ECE
from comixup.lab.paper._published import LOCALISATION, METHODS, SPEECH_APPENDIX
from comixup.lab.paper._published import ROBUSTNESS as CORRUPTED
from comixup.lab.training import RECIPES, Method, Recipe

Scale: TypeAlias = Literal["small", "paper"]
"""Recipes for CPU cores, or those of the paper."""
SCALES: tuple[Scale, ...] = ("small", "paper")

CIFAR, TINY, IMAGENET = (
    "cifar100-preactresnet18",
    "tiny-imagenet-preactresnet18",
    "imagenet-resnet50",
)
SMALL = "cifar100-small-data"
VARIANTS = {
    "cifar100-multi-input": f"{SMALL}-multi-input",
    "cifar100-sensitivity": f"{SMALL}-sensitivity",
    "cifar100-vat": f"{SMALL}-vat",
}
"""The paper's recipes, and what their small counterparts are called."""
DIGITS = "digits-pictures"
"""Digits enough for a network whose saliency is worth a picture: half a minute."""
SMALL_TINY, SMALL_SPEECH = "tiny-imagenet-small", "speech-small"
BOXED = (IMAGENET, SMALL_TINY)
"""Recipes whose networks are measured with boxes: localisation, background corruption."""
SEEDS = (0, 1, 2)
"""Of CIFAR-100, as in the paper, and of all small recipes."""
_ONE_SEED = (0,)


class Run(NamedTuple):
    """A run to train: a recipe's name, one of its methods, and a seed."""

    recipe: str
    method: str
    seed: int

    @property
    def key(self) -> str:
        """The name of the job that trains it."""
        return f"runs/{self.recipe}/{self.method}/seed-{self.seed}"


@dataclass(frozen=True)
class Entry:
    """One number of a table: the mean of a metric over runs.

    Attributes:
        row: its row.
        column: its column.
        metric: name of the metric that runs are measured by.
        paper: what the paper printed; None for nothing.
        runs: that measure it, by scale; none where a scale has no counterpart.
    """

    row: str
    column: str
    metric: str
    paper: float | None
    runs: Mapping[Scale, tuple[Run, ...]]


def _entry(
    row: str,
    column: str,
    metric: str,
    paper: float | None,
    big: tuple[str, str] | None,
    small: tuple[str, str] | None,
) -> Entry:
    """Returns an entry from (recipe, method) at either scale."""
    runs: dict[Scale, tuple[Run, ...]] = {"small": (), "paper": ()}
    if small is not None:
        runs["small"] = tuple(Run(*small, seed) for seed in SEEDS)
    if big is not None:
        seeds = SEEDS if big[0].startswith("cifar100") else _ONE_SEED
        runs["paper"] = tuple(Run(*big, seed) for seed in seeds)
    return Entry(row, column, metric, paper, runs)


def _six(
    row: str, metric: str, paper: Mapping[str, float] | None, big: str, small: str | None
) -> tuple[Entry, ...]:
    """Returns a row with an entry for each of the six methods."""
    return tuple(
        _entry(
            row,
            title,
            metric,
            None if paper is None else paper[method],
            (big, method),
            None if small is None else (small, method),
        )
        for method, title in METHODS.items()
    )


def _errors(recipe: str) -> dict[str, float]:
    """Returns the top-1 errors that the paper has for a recipe, by method."""
    return {
        name: method.paper
        for name, method in RECIPES[recipe].methods.items()
        if method.paper is not None
    }


def _joined(*rows: Sequence[Entry]) -> tuple[Entry, ...]:
    return tuple(entry for row in rows for entry in row)


CLASSIFICATION = _joined(
    *(
        _six(row, "error", _errors(recipe), recipe, small)
        for row, recipe, small in (
            ("CIFAR-100, PreActResNet18", CIFAR, SMALL),
            ("CIFAR-100, WRN16-8", "cifar100-wrn16-8", None),
            ("CIFAR-100, ResNeXt29-4-24", "cifar100-resnext29-4-24", None),
            ("Tiny-ImageNet, PreActResNet18", TINY, SMALL_TINY),
            ("ImageNet, ResNet-50", IMAGENET, None),
            ("Google commands, VGG-11", "speech-vgg11", SMALL_SPEECH),
        )
    )
)
LOCALISATION_CALIBRATION = _joined(
    _six("Localisation (Top-1 Loc, %)", "top1_loc", LOCALISATION, IMAGENET, SMALL_TINY),
    _six("Calibration (ECE, %)", "ece", ECE["CIFAR-100"], CIFAR, SMALL),
)
ROBUSTNESS = _joined(
    *(
        _six(row, metric, CORRUPTED.get(metric), IMAGENET, SMALL_TINY)
        for row, metric in (
            ("Another image", "replaced_error"),
            ("Another image, increment", "replaced_increment"),
            ("Noise (formula)", "noise_error"),
            ("Noise (formula), increment", "noise_increment"),
            ("Noise added (text)", "added_noise_error"),
            ("Noise added (text), increment", "added_noise_increment"),
        )
    )
)
SPEECH = _joined(
    _six("LeNet", "error", _errors("speech-lenet"), "speech-lenet", SMALL_SPEECH),
    _six("VGG-11", "error", SPEECH_APPENDIX, "speech-vgg11", None),
)
CALIBRATION = _joined(
    *(
        _six(row, "ece", ECE[row], recipe, small)
        for row, recipe, small in (
            ("CIFAR-100", CIFAR, SMALL),
            ("Tiny-ImageNet", TINY, SMALL_TINY),
            ("ImageNet", IMAGENET, None),
        )
    )
)
RELIABILITY = CALIBRATION
"""Its rows are drawn from the same runs."""


def _varied(paper: str, method: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Returns (recipe, method) at paper and small scale; Co-Mixup as it is, is trained once."""
    published = RECIPES[paper].methods[method]
    own = {name: getattr(Weights, name) for name in ("beta", "gamma", "tau")}
    own |= {"omega": OMEGA, "partition_size": PARTITION_SIZE}
    default = all(own.get(name) == value for name, value in published.settings.items())
    if published.mixer == "comixup" and default:
        return (CIFAR, "comixup"), (SMALL, "comixup")
    return (paper, method), (VARIANTS[paper], method)


_MULTI = "cifar100-multi-input"
MULTIPLE_INPUTS = tuple(
    _entry(
        f"{name.partition('-')[2] or 'any number of'} inputs",
        METHODS[method.mixer],
        "error",
        method.paper,
        *_varied(_MULTI, name),
    )
    for name, method in RECIPES[_MULTI].methods.items()
)

_SENSITIVITY = "cifar100-sensitivity"
HYPERPARAMETERS = tuple(
    _entry(
        setting.replace("_", " "), f"{value:g}", "error", method.paper, *_varied(_SENSITIVITY, name)
    )
    for name, method in RECIPES[_SENSITIVITY].methods.items()
    for setting, value in method.settings.items()
)

_VAT = "cifar100-vat"
VAT = tuple(
    _entry(
        "Co-Mixup" if method.vat is None else f"alpha = {method.vat['weight']:g}",
        "no VAT"
        if method.vat is None
        else f"{method.vat['updates']} updates, eps {method.vat['epsilon']}",
        "error",
        method.paper,
        *_varied(_VAT, name),
    )
    for name, method in RECIPES[_VAT].methods.items()
)


# ---- Recipes at small scale ----------------------------------------------------------------------
#
# The tables of multiple inputs, of settings and of virtual adversarial training vary a method of
# one recipe. At small scale they vary `cifar100-small-data` in the same way, under names of their
# own.


def recipe_named(name: str) -> Recipe:
    """Returns a recipe of `comixup.lab.training`, or one of the small variants.

    >>> recipe_named("cifar100-small-data-vat").methods["vat-0.01-eps1-updates0"].vat["epsilon"]
    1
    """
    if name in RECIPES:
        return RECIPES[name]
    if name == DIGITS:
        longer = RECIPES["digits"].changed(epochs=10, images_per_class=100)
        return dataclasses.replace(longer, name=name, title="Digits, for pictures")
    paper = {small: big for big, small in VARIANTS.items()}[name]
    base = RECIPES[SMALL]
    methods = _like_small(RECIPES[paper].methods, base.methods)
    return dataclasses.replace(
        base, name=name, title=f"{RECIPES[paper].title}, at small scale", methods=methods
    )


def _like_small(published: Mapping[str, Method], own: Mapping[str, Method]) -> dict[str, Method]:
    """Returns the paper's methods with what the small recipe has chosen for their mixers."""
    return {
        name: dataclasses.replace(
            method,
            settings={**own[method.mixer].settings, **method.settings},
            lr_multiplier=own[method.mixer].lr_multiplier,
            paper=None,
        )
        for name, method in published.items()
    }
