"""The tables of trained networks as data: each number's runs at either scale, and the paper's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from comixup._methods import METHODS, PAPER
from comixup.core.weights import OMEGA, PARTITION_SIZE, Weights
from comixup.lab.training import RECIPES, Method, Recipe

Scale: TypeAlias = Literal["small", "paper"]
"""Recipes for CPU cores, or those of the paper."""
SCALES: tuple[Scale, ...] = ("small", "paper")

CIFAR, TINY, IMAGENET = (
    "cifar100-preactresnet18",
    "tiny-imagenet-preactresnet18",
    "imagenet-resnet50",
)
SMALL, SMALL_TINY, SMALL_SPEECH = "cifar100-small-data", "tiny-imagenet-small", "speech-small"
VARIANTS = {
    "cifar100-multi-input": f"{SMALL}-multi-input",
    "cifar100-sensitivity": f"{SMALL}-sensitivity",
    "cifar100-vat": f"{SMALL}-vat",
}
"""The paper's recipes that vary one method, and what their small counterparts are called."""
DIGITS = "digits-pictures"
"""Digits enough for a network whose saliency is worth a picture: half a minute."""
BOXED = (IMAGENET, SMALL_TINY)
"""Recipes whose networks are measured with boxes: localization, background corruption."""
SEEDS = (0, 1, 2)
"""Of CIFAR-100, as in the paper, and of all small recipes."""
COLUMNS = {name: METHODS[name].title.removesuffix(" mixup") for name in PAPER}
"""Columns of most tables, by the names that recipes have for them."""


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
    big: tuple[str, str],
    small: tuple[str, str] | None,
) -> Entry:
    """Returns an entry from (recipe, method) at either scale."""
    seeds = SEEDS if big[0].startswith("cifar100") else SEEDS[:1]
    runs: dict[Scale, tuple[Run, ...]] = {
        "small": () if small is None else tuple(Run(*small, seed) for seed in SEEDS),
        "paper": tuple(Run(*big, seed) for seed in seeds),
    }
    return Entry(row, column, metric, paper, runs)


def _six(*rows: tuple[str, str, str, str | None, Sequence[float] | None]) -> tuple[Entry, ...]:
    """Returns the entries of rows that have a number for each of the six methods.

    Args:
        rows: a name, a metric, the recipes at paper and small scale, and the printed numbers, in
            the order of `COLUMNS`; None for the errors that the paper's recipe has.
    """
    return tuple(
        _entry(
            row,
            title,
            metric,
            RECIPES[big].methods[method].paper
            if printed is None
            else dict(enumerate(printed)).get(k),
            (big, method),
            None if small is None else (small, method),
        )
        for row, metric, big, small, printed in rows
        for k, (method, title) in enumerate(COLUMNS.items())
    )


_CIFAR_ECE = (3.9, 17.7, 13.1, 5.6, 7.5, 1.9)
_TOP1_LOC = (54.36, 55.07, 54.86, 54.91, 55.22, 55.32)
CLASSIFICATION = _six(
    ("CIFAR-100, PreActResNet18", "error", CIFAR, SMALL, None),
    ("CIFAR-100, WRN16-8", "error", "cifar100-wrn16-8", None, None),
    ("CIFAR-100, ResNeXt29-4-24", "error", "cifar100-resnext29-4-24", None, None),
    ("Tiny-ImageNet, PreActResNet18", "error", TINY, SMALL_TINY, None),
    ("ImageNet, ResNet-50", "error", IMAGENET, None, None),
    ("Google commands, VGG-11", "error", "speech-vgg11", SMALL_SPEECH, None),
)
LOCALIZATION_CALIBRATION = _six(
    ("Localization (Top-1 Loc, %)", "top1_loc", IMAGENET, SMALL_TINY, _TOP1_LOC),
    ("Calibration (ECE, %)", "ece", CIFAR, SMALL, _CIFAR_ECE),
)
ROBUSTNESS = _six(
    *(
        (row, metric, IMAGENET, SMALL_TINY, printed)
        for row, metric, printed in (
            ("Another image", "replaced_error", (41.63, 39.41, 39.72, 46.20, 39.23, 38.77)),
            (
                "Another image, increment",
                "replaced_increment",
                (17.62, 16.47, 16.47, 23.16, 16.69, 16.38),
            ),
            ("Noise (formula)", "noise_error", (29.22, 26.29, 26.79, 27.13, 26.11, 25.89)),
            ("Noise (formula), increment", "noise_increment", (5.21, 3.35, 3.54, 4.09, 3.57, 3.49)),
            ("Noise added (text)", "added_noise_error", ()),
            ("Noise added (text), increment", "added_noise_increment", ()),
        )
    )
)
SPEECH = _six(
    ("LeNet", "error", "speech-lenet", SMALL_SPEECH, None),
    # Table 1 has 3.54 for the same network with Co-Mixup.
    ("VGG-11", "error", "speech-vgg11", None, (4.84, 3.91, 3.67, 3.76, 3.70, 3.57)),
)
CALIBRATION = _six(
    ("CIFAR-100", "ece", CIFAR, SMALL, _CIFAR_ECE),
    ("Tiny-ImageNet", "ece", TINY, SMALL_TINY, (4.5, 6.2, 6.8, 12.0, 5.6, 2.5)),
    ("ImageNet", "ece", IMAGENET, None, (5.9, 1.2, 1.7, 4.3, 2.1, 2.1)),
)


def _varied(
    recipe: str, places: Callable[[str, Method], Sequence[tuple[str, str]]]
) -> tuple[Entry, ...]:
    """Returns the entries of a recipe that varies one method; `places` has rows and columns.

    Co-Mixup with its own settings is trained once for all tables.
    """
    own = {name: getattr(Weights, name) for name in ("beta", "gamma", "tau")}
    own |= {"omega": OMEGA, "partition_size": PARTITION_SIZE}
    entries = []
    for name, method in RECIPES[recipe].methods.items():
        big, small = (recipe, name), (VARIANTS[recipe], name)
        default = all(own.get(setting) == value for setting, value in method.settings.items())
        if method.mixer == "comixup" and default:
            big, small = (CIFAR, "comixup"), (SMALL, "comixup")
        entries += [
            _entry(row, column, "error", method.paper, big, small)
            for row, column in places(name, method)
        ]
    return tuple(entries)


def _vat_place(_: str, method: Method) -> list[tuple[str, str]]:
    if method.vat is None:
        return [("Co-Mixup", "no VAT")]
    noise = f"{method.vat['updates']} updates, eps {method.vat['epsilon']}"
    return [(f"alpha = {method.vat['weight']:g}", noise)]


MULTIPLE_INPUTS = _varied(
    "cifar100-multi-input",
    lambda name, method: [
        (f"{name.partition('-')[2] or 'any number of'} inputs", COLUMNS[method.mixer])
    ],
)
HYPERPARAMETERS = _varied(
    "cifar100-sensitivity",
    lambda _, method: [(name.replace("_", " "), f"{v:g}") for name, v in method.settings.items()],
)
VAT = _varied("cifar100-vat", _vat_place)


def recipe_named(name: str) -> Recipe:
    """Returns a recipe of `comixup.lab.training`, or one that varies a method at small scale.

    These vary `cifar100-small-data` as the paper's vary its own recipe, with what the small recipe
    has chosen for their mixers.

    >>> recipe_named("cifar100-small-data-vat").methods["vat-0.01-eps1-updates0"].vat["epsilon"]
    1
    """
    if name in RECIPES:
        return RECIPES[name]
    if name == DIGITS:
        longer = RECIPES["digits"].changed(epochs=10, images_per_class=100)
        return dataclasses.replace(longer, name=name, title="Digits, for pictures")
    paper = RECIPES[{small: big for big, small in VARIANTS.items()}[name]]
    base = RECIPES[SMALL]
    methods = {
        varied: dataclasses.replace(
            method,
            settings={**base.methods[method.mixer].settings, **method.settings},
            lr_multiplier=base.methods[method.mixer].lr_multiplier,
            paper=None,
        )
        for varied, method in paper.methods.items()
    }
    title = f"{paper.title}, at small scale"
    return dataclasses.replace(base, name=name, title=title, methods=methods)
