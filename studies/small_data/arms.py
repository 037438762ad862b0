"""The arms of the comparison on small data, and the seeds that are reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from comixup.lab.evaluation import RunRecord

RUNS = Path("docs/results/small-data.csv")
RECIPE = "cifar100-small-data"
SEEDS = range(10)
"""Of the reported runs: all of them for headline arms."""
OTHER_SEEDS, FEW_SEEDS = range(5), range(3)
"""For the other arms; for settings, and lengths of training that the headline has not got."""
ALPHA = 0.05
METRICS = ("error", "ece")
"""That the primary family compares."""

HEADLINE = {
    "vanilla": "Vanilla",
    "vanilla-double": "Vanilla, 2x epochs",
    "cutmix-p0.5": "CutMix, p = 0.5",
    "cutmix-p0.5-double": "CutMix, p = 0.5, 2x epochs",
    "cutmix-clean": "CutMix + clean loss",
    "puzzlemix": "Puzzle Mix",
    "comixup": "Co-Mixup",
    "comixup-shuffled": "Co-Mixup, shuffled saliency",
    "comixup-one-pass": "One-pass Co-Mixup",
    "comixup-one-pass-double": "One-pass Co-Mixup, 2x epochs",
}
REFERENCES = ("comixup", "comixup-one-pass-double")
"""What the others are compared with in the primary family."""
OTHERS = {
    "cutmix": "CutMix, p = 1",
    "cutmix-clean-mean": "CutMix + clean loss, mean",
    "input": "Input mixup",
    "input-p0.5": "Input mixup, p = 0.5",
    "input-p0.5-double": "Input mixup, p = 0.5, 2x epochs",
    "manifold": "Manifold mixup",
    "comixup-no-clean": "Co-Mixup, no clean loss",
    "comixup-clean-mean": "Co-Mixup, mean of losses",
    "comixup-one-pass-shuffled": "One-pass, shuffled maps",
    "comixup-one-pass-shuffled-double": "One-pass, shuffled maps, 2x epochs",
    "comixup-one-pass-spectral": "One-pass, spectral residual",
}
SETTINGS = {
    "comixup-p0.5": "Co-Mixup, p = 0.5",
    "comixup-hard-clip": 'Co-Mixup, clip="hard"',
    "comixup-partition-50": "Co-Mixup, partitions of 50",
    "comixup-whole-batch": "Co-Mixup, whole batch",
}
"""Beside Co-Mixup as it is: p = 1, clip="soft", partitions of 20."""
REPLICATED = {
    ("comixup-one-pass-double", "comixup-one-pass-shuffled-double"): "Do the remembered maps "
    "matter?",
    ("comixup-one-pass-double", "input-p0.5-double"): "Is a simpler method as good?",
}
"""The method of the lowest error against two controls, with five seeds and five new ones: why."""
EXPLORED = {
    "vanilla": ("cutmix", "input", "input-p0.5", "manifold"),
    "vanilla-double": ("input-p0.5-double",),
    "cutmix-p0.5-double": ("input-p0.5-double",),
    "input-p0.5-double": REFERENCES,
    "cutmix-clean": ("cutmix-clean-mean",),
    "comixup": ("comixup-no-clean", "comixup-clean-mean", *SETTINGS),
    "comixup-one-pass": ("comixup-one-pass-shuffled", "comixup-one-pass-spectral"),
}
"""Outside of the primary family: what each of these is compared with."""
LENGTHS = {
    "Vanilla": ("vanilla-half", "vanilla", "vanilla-double"),
    "CutMix, p = 0.5": ("cutmix-p0.5-half", "cutmix-p0.5", "cutmix-p0.5-double"),
    "Co-Mixup": ("comixup-half", "comixup", "comixup-double"),
    "One-pass Co-Mixup": (
        "comixup-one-pass-half",
        "comixup-one-pass",
        "comixup-one-pass-double",
    ),
}
"""Arms that are trained for half, one and two times the epochs."""


def seeds_of_arms() -> dict[str, range]:
    """Returns the seeds that the rules give each arm.

    >>> seeds_of_arms()["comixup"], seeds_of_arms()["input"], seeds_of_arms()["vanilla-half"]
    (range(0, 10), range(0, 5), range(0, 3))
    """
    lengths = [arm for arms in LENGTHS.values() for arm in arms]
    return {
        **dict.fromkeys((*lengths, *SETTINGS), FEW_SEEDS),
        **dict.fromkeys(OTHERS, OTHER_SEEDS),
        **{control: SEEDS for _, control in REPLICATED},
        **dict.fromkeys(HEADLINE, SEEDS),
    }


def titles() -> dict[str, str]:
    """Returns how tables call each arm."""
    return {**HEADLINE, **OTHERS, **SETTINGS}


def by_arm(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Returns the reported runs of each arm, by seed."""
    arms: dict[str, list[RunRecord]] = {}
    for run in sorted(runs, key=lambda c: c.seed):
        if run.seed in SEEDS:
            arms.setdefault(run.method, []).append(run)
    return arms
