"""What README and docs tell of our comparisons is what their runs give."""

import csv
import re
import statistics
from pathlib import Path

import pytest

from comixup.lab.evaluation import paired_interval, read_runs
from small_data.arms import SEEDS, by_arm
from what_to_train_with import stages

ROOT = Path(__file__).parents[2]
NUMBER = r"[+-]?\d+\.\d"
DIFFERENCE = re.compile(rf"({NUMBER})(?: points)? \[({NUMBER}), ({NUMBER})\]")
MEANS = re.compile(rf"({NUMBER}) ± ({NUMBER}) \| ({NUMBER}) ± ({NUMBER})")
STATISTICS = (statistics.fmean, statistics.stdev)
CONFIRMED, TINY_IMAGENET = "stage2/cifar100-rand-240", "stage2/tiny-imagenet-rand-180"


@pytest.fixture(scope="module")
def runs():
    return read_runs(ROOT / "docs" / "results" / "small-data.csv")


def part(page, start=None, end=None):
    """The text of a page between two lines, without bold letters and line breaks."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("**", "")
    if start is not None:
        text = text.split(start, 1)[1]
    if end is not None:
        text = text.split(end, 1)[0]
    return re.sub(r"\s+", " ", text)


def metrics_of(own):
    """The errors and the ECEs of runs."""
    return [[run.metrics[name] for run in own] for name in ("error", "ece")]


BEST = "comixup-one-pass-double"


def both(first, second, seeds=SEEDS):
    """Error and ECE of one arm minus another's."""
    return [(first, second, metric, seeds) for metric in ("error", "ece")]


def error(first, second, seeds=SEEDS):
    return [(first, second, "error", seeds)]


RESULTS_DIFFERENCES = [
    *both("comixup", "vanilla"),
    *reversed(both("comixup", "vanilla-double")),
    *both("comixup", "cutmix-p0.5-double"),
    *both("comixup", "cutmix-clean"),
    *both("comixup", "puzzlemix"),
    *both(BEST, "comixup"),
    *both(BEST, "vanilla-double"),
    *both(BEST, "cutmix-p0.5-double"),
    *both(BEST, "puzzlemix"),
    *error("vanilla", "comixup-one-pass"),
    *both("comixup-one-pass", "cutmix-p0.5"),
    *error("comixup-one-pass", "comixup"),
    (BEST, "cutmix-p0.5-double", "ece", "as trained"),
    (BEST, "cutmix-p0.5-double", "ece", "estimated anew"),
    *both("comixup-shuffled", "comixup"),
    *error("comixup-one-pass-shuffled-double", BEST, range(5)),
    *error("comixup-one-pass-shuffled-double", BEST, range(5, 10)),
    *error("comixup-one-pass-shuffled-double", BEST),
    *error("comixup-one-pass", "comixup-one-pass-shuffled"),
    *error("comixup", "cutmix-p0.5"),
    *both("input-p0.5-double", "vanilla-double"),
    *both("input-p0.5", "vanilla"),
    *both("input", "vanilla"),
    *both("manifold", "vanilla"),
    *both("cutmix", "vanilla"),
    *both("cutmix-clean-mean", "cutmix-clean"),
    *both("comixup-one-pass-shuffled", "comixup-one-pass"),
    *both("comixup-one-pass-spectral", "comixup-one-pass"),
    *both("comixup-no-clean", "comixup"),
    *both("comixup-clean-mean", "comixup"),
    *both("comixup-p0.5", "comixup"),
    *both("comixup-hard-clip", "comixup"),
    *both("comixup-partition-50", "comixup"),
    *both("comixup-whole-batch", "comixup"),
    *error("comixup", "input-p0.5-double"),
    *reversed(both("input-p0.5-double", "cutmix-p0.5-double")),
    *error(BEST, "input-p0.5-double", range(5)),
    *error(BEST, "input-p0.5-double", range(5, 10)),
    *both(BEST, "input-p0.5-double"),
]
SETTINGS_DIFFERENCES = [
    *error("comixup-no-clean", "comixup"),
    *error("comixup-clean-mean", "comixup"),
    *error("comixup-p0.5", "comixup"),
    *error("comixup-hard-clip", "comixup"),
    *error("comixup-partition-50", "comixup"),
    *error("comixup-whole-batch", "comixup"),
]
"""What each difference of a page is between, in their order: first minus second, paired by seed."""
SMALL_DATA = ("docs/results.md", "\n## Small data\n", "\n## Tiny-ImageNet\n")


def is_rounded(told, numbers):
    """Whether numbers of one decimal stand for others, maybe rounded to two decimals before."""
    return all(abs(a - b) < 0.0551 for a, b in zip(told, numbers, strict=True))


def paired(runs, first, second, metric, seeds):
    """The mean difference of two arms over seeds that both have, and its interval."""
    if isinstance(seeds, str):
        path = ROOT / "docs" / "results" / "small-data-batch-norm.csv"
        column = {"as trained": metric, "estimated anew": f"clean_{metric}"}[seeds]
        rows = csv.DictReader(path.read_text().splitlines())
        found = {(row["method"], int(row["seed"])): float(row[column]) for row in rows}
        seeds = SEEDS
    else:
        found = {(run.method, run.seed): run.metrics[metric] for run in runs}
    common = [seed for seed in seeds if (first, seed) in found and (second, seed) in found]
    values = [found[first, seed] - found[second, seed] for seed in common]
    return statistics.fmean(values), *paired_interval(values)


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (SMALL_DATA, RESULTS_DIFFERENCES),
        (("docs/choosing-settings.md", None, "\n## In this order\n"), SETTINGS_DIFFERENCES),
    ],
)
def test_each_difference_is_that_of_the_arms_it_is_told_of(runs, page, expected):
    told = [tuple(map(float, found)) for found in DIFFERENCE.findall(part(*page))]
    assert len(told) == len(expected)
    found = [paired(runs, *which) for which in expected]
    wrong = [each for each in zip(told, found, expected, strict=True) if not is_rounded(*each[:2])]
    assert wrong == []


def test_means_of_the_tables(runs):
    means = [
        [f(values) for values in metrics_of(own) for f in STATISTICS]
        for own in by_arm(runs).values()
        if len(own) > 1
    ]
    told = [tuple(map(float, found)) for found in MEANS.findall(part(*SMALL_DATA))]
    assert len(told) > 20
    assert [m for m in told if not any(is_rounded(m, own) for own in means)] == []


MODE, ADVISED = "one-pass-third", "coin-half-ema"
CONFIRMED_DIFFERENCES = {
    ("README.md", "\n## What to train with\n", "\n## Use it\n"): [
        ("no-mixing", ADVISED, "error"),
        ("no-mixing-ema", ADVISED, "error"),
        ("no-mixing-ema", ADVISED, "error", TINY_IMAGENET),
        (ADVISED, f"{MODE}-ema", "error"),
        (ADVISED, f"{MODE}-ema", "ece"),
    ],
    ("docs/results.md", None, "\n## Small data\n"): [
        ("no-mixing", ADVISED, "error"),
        ("no-mixing-ema", ADVISED, "error"),
        ("coin-half", ADVISED, "error"),
        ("no-mixing", ADVISED, "nll"),
        ("no-mixing-ema", ADVISED, "nll"),
        ("no-mixing-ema", ADVISED, "error", TINY_IMAGENET),
        ("no-mixing-ema", f"{MODE}-ema", "error", TINY_IMAGENET),
        ("no-mixing-ema", ADVISED, "nll", TINY_IMAGENET),
        ("no-mixing-ema", f"{MODE}-ema", "nll", TINY_IMAGENET),
        (MODE, ADVISED, "error"),
        (f"{MODE}-ema", ADVISED, "error", TINY_IMAGENET),
    ],
}
"""What each difference of a part is between, in their order: first minus second."""
README_ROWS = {
    "Vanilla (no mixing)": "no-mixing",
    "Input mixup, p = 0.5": "input-2",
    "CutMix, p = 0.5": "cutmix-0.2",
    "Input mixup or CutMix, p = 0.5": "coin-half",
    "One-pass Co-Mixup": MODE,
    "Vanilla, averaged weights": "no-mixing-ema",
    "**Input mixup or CutMix, p = 0.5, averaged weights**": ADVISED,
    "One-pass Co-Mixup, averaged weights": f"{MODE}-ema",
}
"""Arms of the README's table."""
README_ERRORS = {
    "31.2 % against": (BEST,),
    "34.1 % without mixing": ("vanilla-double",),
    "32.5 % with CutMix": ("cutmix-p0.5-double",),
    "33.4 % with the paper's": ("comixup",),
    "47.4 %, and this": ("no-mixing-ema", TINY_IMAGENET),
}
"""Mean errors of sentences, with the arm, and the set if it is not CIFAR-100."""


def decimals(text):
    return len(text.partition(".")[2])


@pytest.fixture(scope="module")
def values(runs):
    """A metric of an arm of the small-data study, or of the confirmation on a set, by seed."""
    of_seed = {(CONFIRMED, run.method, run.seed): run.metrics for run in runs}
    of_seed |= {key: run.metrics for key, run in stages.results().items()}
    return lambda arm, metric, where=CONFIRMED: [of_seed[where, arm, n][metric] for n in SEEDS]


@pytest.mark.parametrize(("page", "expected"), CONFIRMED_DIFFERENCES.items())
def test_each_difference_of_the_confirmation_is_that_of_its_arms(values, page, expected):
    number = r"[+-]?\d+\.\d+"
    told = re.findall(rf"({number})(?: points)? \[({number}), ({number})\]", part(*page))
    assert len(told) == len(expected)
    for words, (first, second, *of) in zip(told, expected, strict=True):
        pairs = zip(values(first, *of), values(second, *of), strict=True)
        differences = [a - b for a, b in pairs]
        own = (statistics.fmean(differences), *paired_interval(differences))
        for word, value in zip(words, own, strict=True):
            assert abs(float(word) - value) < 0.51 * 10 ** -decimals(word), (first, second, own)


def test_the_tables_and_means_of_the_readme(values):
    text = part("README.md", "\n## What to train with\n", "\n## Use it\n")

    def spread(arm, metric):
        places = 3 if metric == "nll" else 1
        mean, deviation = (statistic(values(arm, metric)) for statistic in STATISTICS)
        return f"{mean:.{places}f} ± {deviation:.{places}f}"

    for title, arm in README_ROWS.items():
        cells = [spread(arm, metric) for metric in ("error", "ece", "nll")]
        assert f"| {title} | {' | '.join(cells)} |".replace("**", "") in text
    for words, (arm, *where) in README_ERRORS.items():
        assert words in text
        assert f"{statistics.fmean(values(arm, 'error', *where)):.1f} %" == words[:6]
