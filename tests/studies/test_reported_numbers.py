"""What README and docs tell of our comparisons is what their runs give."""

import csv
import itertools
import re
import statistics
from pathlib import Path

import pytest

from comixup.lab.evaluation import paired_interval, read_runs
from small_data.arms import OTHER_SEEDS, SEEDS, by_arm
from small_data.contrasts import exploratory
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


@pytest.fixture(scope="module")
def differences(runs):
    """Between any two arms, on all seeds, on the first and on the others, with their intervals."""
    pairs = list(itertools.combinations(by_arm(runs), 2))
    found = [
        contrast
        for seeds in (SEEDS, OTHER_SEEDS, range(len(OTHER_SEEDS), len(SEEDS)))
        for contrast in exploratory([run for run in runs if run.seed in seeds], pairs)
        if contrast.interval is not None
    ]
    both_ways = found + [contrast.reversed() for contrast in found]
    return [
        *((contrast.difference, *contrast.interval) for contrast in both_ways),
        *estimated_anew(),
    ]


def estimated_anew():
    """Differences with the statistics of batch normalization as trained, and estimated anew."""
    path = ROOT / "docs" / "results" / "small-data-batch-norm.csv"
    rows = list(csv.DictReader(path.read_text().splitlines()))
    found = {(row["method"], row["seed"]): row for row in rows}
    metrics = [name for name in rows[0] if name not in ("method", "seed")]
    for first, second in itertools.permutations({row["method"] for row in rows}, 2):
        for metric in metrics:
            values = [
                float(row[metric]) - float(found[second, seed][metric])
                for (method, seed), row in found.items()
                if method == first and (second, seed) in found
            ]
            yield statistics.fmean(values), *paired_interval(values)


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


@pytest.mark.parametrize(
    ("page", "start", "end"),
    [
        ("docs/results.md", "\n## Small data\n", "\n## Tiny-ImageNet\n"),
        ("docs/choosing-settings.md", None, "\n## In this order\n"),
    ],
)
def test_differences_and_means(runs, differences, page, start, end):
    text = part(page, start, end)
    told = [tuple(map(float, found)) for found in DIFFERENCE.findall(text)]
    assert len(told) > 2
    assert [d for d in told if not any(is_rounded(d, own) for own in differences)] == []
    means = [
        [f(values) for values in metrics_of(own) for f in STATISTICS]
        for own in by_arm(runs).values()
        if len(own) > 1
    ]
    told = [tuple(map(float, found)) for found in MEANS.findall(text)]
    assert [m for m in told if not any(is_rounded(m, own) for own in means)] == []


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
