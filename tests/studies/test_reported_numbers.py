"""What README and docs tell of our comparisons is what their runs give."""

import csv
import re
import statistics
from pathlib import Path

import pytest

from comixup.lab.evaluation import paired_interval, read_runs
from small_data.arms import OTHER_SEEDS, SEEDS, by_arm
from what_to_train_with import stages

ROOT = Path(__file__).parents[2]
NUMBER = r"[+-]?\d+\.\d"
DIFFERENCE = re.compile(rf"({NUMBER})(?: points)? \[({NUMBER}), ({NUMBER})\]")
MEANS = re.compile(rf"({NUMBER}) ± ({NUMBER}) \| ({NUMBER}) ± ({NUMBER})")
STATISTICS = (statistics.fmean, statistics.stdev)
CONFIRMED = "stage2/cifar100-rand-240"


@pytest.fixture(scope="module")
def runs():
    return read_runs(ROOT / "docs" / "results" / "small-data.csv")


def estimated_anew(metric, first, second):
    """Differences with the statistics of batch normalization as trained, or estimated anew."""
    path = ROOT / "docs" / "results" / "small-data-batch-norm.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    found = {(row["method"], row["seed"]): float(row[metric]) for row in rows}
    return [
        value - found[second, seed]
        for (method, seed), value in found.items()
        if method == first and (second, seed) in found
    ]


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


def is_rounded(told, numbers):
    """Whether numbers of one decimal stand for others, maybe rounded to two decimals before."""
    return all(abs(a - b) < 0.0551 for a, b in zip(told, numbers, strict=True))


E, C = "error", "ece"
FIRST, LATER = OTHER_SEEDS, range(len(OTHER_SEEDS), len(SEEDS))
DOUBLE, OTHERS_MAPS = "comixup-one-pass-double", "comixup-one-pass-shuffled"
ONE_PASS, INPUT, CUTMIX = "comixup-one-pass", "input-p0.5-double", "cutmix-p0.5-double"


def both(first, second):
    return [(first, second, E), (first, second, C)]


DOES_ONE_PASS_NEED_ITS_MAPS = [
    (f"{OTHERS_MAPS}-double", DOUBLE, E, FIRST),
    (f"{OTHERS_MAPS}-double", DOUBLE, E, LATER),
    (f"{OTHERS_MAPS}-double", DOUBLE, E),
]
SETTINGS = [
    *both("comixup-no-clean", "comixup"),
    *both("comixup-clean-mean", "comixup"),
    *both("comixup-p0.5", "comixup"),
    *both("comixup-hard-clip", "comixup"),
    *both("comixup-partition-50", "comixup"),
    *both("comixup-whole-batch", "comixup"),
]
TOLD = {
    ("docs/results.md", "\n## Small data\n", "\n## Tiny-ImageNet\n"): [
        *both("comixup", "vanilla"),
        *reversed(both("comixup", "vanilla-double")),
        *both("comixup", CUTMIX),
        *both("comixup", "cutmix-clean"),
        *both("comixup", "puzzlemix"),
        *both(DOUBLE, "comixup"),
        *both(DOUBLE, "vanilla-double"),
        *both(DOUBLE, CUTMIX),
        *both(DOUBLE, "puzzlemix"),
        ("vanilla", ONE_PASS, E),
        *both(ONE_PASS, "cutmix-p0.5"),
        (ONE_PASS, "comixup", E),
        ("ece", DOUBLE, CUTMIX),
        ("clean_ece", DOUBLE, CUTMIX),
        *both("comixup", "comixup-shuffled"),
        *DOES_ONE_PASS_NEED_ITS_MAPS,
        (ONE_PASS, OTHERS_MAPS, E),
        ("comixup", "cutmix-p0.5", E),
        *both(INPUT, "vanilla-double"),
        *both("input-p0.5", "vanilla"),
        *both("input", "vanilla"),
        *both("manifold", "vanilla"),
        *both("cutmix", "vanilla"),
        *both("cutmix-clean-mean", "cutmix-clean"),
        *both(OTHERS_MAPS, ONE_PASS),
        *both("comixup-one-pass-spectral", ONE_PASS),
        *SETTINGS,
        ("comixup", INPUT, E),
        *reversed(both(INPUT, CUTMIX)),
        (DOUBLE, INPUT, E, FIRST),
        (DOUBLE, INPUT, E, LATER),
        *both(DOUBLE, INPUT),
    ],
    ("docs/choosing-settings.md", None, "\n## In this order\n"): SETTINGS[::2],
    ("docs/one-pass.md", None, None): DOES_ONE_PASS_NEED_ITS_MAPS,
}
"""What each difference of a page is between, in their order: first minus second, on all seeds that
both have or on those named; or from the runs with other statistics: metric, first and second."""
ARMS_OF_ROWS = [INPUT, "input-p0.5", "input", "manifold", "cutmix", "cutmix-clean-mean"]
ARMS_OF_ROWS += [OTHERS_MAPS, "comixup-one-pass-spectral", *(arm for arm, *_ in SETTINGS[::2])]
"""Arms of the table of other methods and settings, row by row."""


@pytest.mark.parametrize("page", TOLD, ids=lambda page: page[0])
def test_every_difference_is_that_of_the_runs_it_names(runs, page):
    of_seed = {(run.method, run.seed): run.metrics for run in runs}
    told = [tuple(map(float, found)) for found in DIFFERENCE.findall(part(*page))]
    assert len(told) == len(TOLD[page])
    for numbers, (first, second, third, *seeds) in zip(told, TOLD[page], strict=True):
        if third not in (E, C):
            values = estimated_anew(first, second, third)
        else:
            values = [
                of_seed[first, seed][third] - of_seed[second, seed][third]
                for seed in (seeds[0] if seeds else SEEDS)
                if (first, seed) in of_seed and (second, seed) in of_seed
            ]
        own = (statistics.fmean(values), *paired_interval(values))
        assert is_rounded(numbers, own), (numbers, first, second, third, own)


def test_every_mean_is_that_of_its_row(runs):
    arms = by_arm(runs)
    of_arm = {arm: [f(v) for v in metrics_of(own) for f in STATISTICS] for arm, own in arms.items()}
    table = part("docs/results.md", "\n### Other methods and settings\n", "\n## Tiny-ImageNet\n")
    told = [tuple(map(float, found)) for found in MEANS.findall(table)]
    assert len(told) == len(ARMS_OF_ROWS)
    for numbers, arm in zip(told, ARMS_OF_ROWS, strict=True):
        assert is_rounded(numbers, of_arm[arm]), (numbers, arm)


BEST, MODE = "comixup-one-pass-double", "one-pass-third"
README_DIFFERENCES = [
    (MODE, "no-mixing", "error"),
    ("no-mixing", MODE, "nll"),
    ("no-mixing", "cutmix-0.2", "nll"),
    ("vanilla-double", BEST, "error"),
    ("cutmix-p0.5-double", BEST, "error"),
    (BEST, "input-p0.5-double", "error"),
    (f"{MODE}-other-maps", MODE, "error"),
]
"""What each difference of the README's section is between, in their order: first minus second."""
README_ROWS = {
    "Vanilla (no mixing)": ("vanilla-double", "no-mixing"),
    "Input mixup, p = 0.5": ("input-p0.5-double", "input-2"),
    "CutMix, p = 0.5": ("cutmix-p0.5-double", "cutmix-0.2"),
    "Input mixup or CutMix, p = 0.5": (None, "coin-half"),
    "One-pass Co-Mixup": (BEST, MODE),
}
"""Arms of the README's table: with crops and flips, and under RandAugment."""
README_SENTENCES = {"33.4 ± 1.0": "comixup", "34.3 ± 0.7": "puzzlemix"}


def decimals(text):
    return len(text.partition(".")[2])


def test_the_readme_tells_what_the_runs_give(runs):
    text = part("README.md", "\n## What to train with\n", "What it costs")
    confirmed = {arm: list(stages.errors(CONFIRMED, arm)) for _, arm in README_ROWS.values()}
    assert all(seeds == list(SEEDS) for seeds in confirmed.values())
    of_seed = {(run.method, run.seed): run.metrics for run in runs}
    of_seed |= {
        (a, s): run.metrics for (c, a, s), run in stages.results().items() if c == CONFIRMED
    }
    values = lambda arm, metric: [of_seed[arm, seed][metric] for seed in SEEDS]  # noqa: E731

    number = r"[+-]?\d+\.\d+"
    told = re.findall(rf"({number})(?: points)? \[({number}), ({number})\]", text)
    assert len(told) == len(README_DIFFERENCES)
    for words, (first, second, metric) in zip(told, README_DIFFERENCES, strict=True):
        paired = [a - b for a, b in zip(values(first, metric), values(second, metric), strict=True)]
        own = (statistics.fmean(paired), *paired_interval(paired))
        for word, value in zip(words, own, strict=True):
            assert abs(float(word) - value) < 0.51 * 10 ** -decimals(word), (first, second, own)

    def spread(arm, metric):
        places = 3 if metric == "nll" else 1
        mean, deviation = (statistic(values(arm, metric)) for statistic in STATISTICS)
        return f"{mean:.{places}f} ± {deviation:.{places}f}"

    for title, (plain, augmented) in README_ROWS.items():
        cells = [spread(plain, name) for name in ("error", "ece")] if plain else ["", ""]
        cells += [spread(augmented, name) for name in ("error", "ece", "nll")]
        assert re.sub(r"\s+", " ", f"| {title} | {' | '.join(cells)} |") in text
    for words, arm in README_SENTENCES.items():
        assert words in text
        assert spread(arm, "error") == words
