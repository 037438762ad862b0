"""The tables of trained networks as data: each number's runs at either scale, and the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from comixup.lab.paper._published import CALIBRATION as ECE
from comixup.lab.paper._published import LOCALISATION, METHODS, SPEECH_APPENDIX
from comixup.lab.paper._published import ROBUSTNESS as CORRUPTED
from comixup.lab.paper._small_recipes import SMALL, VARIANTS
from comixup.lab.paper.small_data._arms import seeds_of_arms
from comixup.lab.training import RECIPES

Scale: TypeAlias = Literal["small", "paper"]
"""Recipes for CPU cores, or those of the paper."""
SCALES: tuple[Scale, ...] = ("small", "paper")

CIFAR, TINY, IMAGENET = (
    "cifar100-preactresnet18",
    "tiny-imagenet-preactresnet18",
    "imagenet-resnet50",
)
SMALL_TINY, SMALL_SPEECH = "tiny-imagenet-small", "speech-small"
BOXED = (IMAGENET, SMALL_TINY)
"""Recipes whose networks are measured with boxes: localisation, background corruption."""
SEEDS = (0, 1, 2)
"""Of CIFAR-100, as in the paper, and of all small recipes."""
_ONE_SEED = (0,)


class Run(NamedTuple):
    """A trained network: a recipe's name, one of its methods, and a seed."""

    recipe: str
    method: str
    seed: int


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
    own = {"beta": 0.32, "gamma": 1.0, "tau": 0.83, "omega": 0.001, "partition_size": 20}
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

SMALL_DATA = tuple(
    Entry(
        "Small data",
        method,
        "error",
        None,
        {"small": tuple(Run(SMALL, method, seed) for seed in seeds), "paper": ()},
    )
    for method, seeds in seeds_of_arms().items()
)
"""What is tested is in `small_data`."""

_SET_ARMS = {
    "vanilla": "vanilla",
    "cutmix-p0.5": "CutMix, p = 0.5",
    "comixup-half": "Co-Mixup, half the epochs",
    "comixup-one-pass": "one-pass Co-Mixup",
    "comixup": "Co-Mixup, twice the passes",
}
"""Of our comparisons on other data sets. All but the last make as many passes."""


def _arms(recipe: str, metrics: Mapping[str, str]) -> tuple[Entry, ...]:
    """Returns an entry for each metric, by the title of its row, and each arm of a recipe."""
    return tuple(
        _entry(row, title, metric, None, None, (recipe, method))
        for row, metric in metrics.items()
        for method, title in _SET_ARMS.items()
        if method in RECIPES[recipe].methods
    )


SECOND_SET = _arms(
    SMALL_TINY,
    {
        "Top-1 error, %": "error",
        "ECE, %": "ece",
        "NLL": "nll",
        "Top-1 Loc, %": "top1_loc",
        "Top-1 Loc of the centre box, %": "centre_top1_loc",
        "GT-known Loc, %": "gt_known",
        "GT-known Loc of the centre box, %": "centre_gt_known",
        "MaxBoxAccV2, %": "max_box_acc_v2",
        "MaxBoxAccV2 of the centre box, %": "centre_max_box_acc_v2",
        "Error, background replaced, %": "replaced_error",
        "Error, background of noise, %": "noise_error",
        "Error, noise added, %": "added_noise_error",
        "CPU-seconds": "cpu_seconds",
    },
)
THIRD_SET = _arms(
    SMALL_SPEECH,
    {"Top-1 error, %": "error", "ECE, %": "ece", "NLL": "nll", "CPU-seconds": "cpu_seconds"},
)
