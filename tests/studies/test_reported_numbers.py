"""What README and docs tell of the comparison on small data is what its runs give."""

import csv
import itertools
import re
import statistics
from pathlib import Path

import pytest

from comixup.lab.evaluation import paired_interval, read_runs
from small_data.arms import OTHER_SEEDS, SEEDS, by_arm
from small_data.contrasts import exploratory

ROOT = Path(__file__).parents[2]
NUMBER = r"[+-]?\d+\.\d"
DIFFERENCE = re.compile(rf"({NUMBER})(?: points)? \[({NUMBER}), ({NUMBER})\]")
MEANS = re.compile(rf"({NUMBER}) ± ({NUMBER}) \| ({NUMBER}) ± ({NUMBER})")
STATISTICS = (statistics.fmean, statistics.stdev)


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
    """Differences with the statistics of batch normalisation as trained, and estimated anew."""
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
        ("README.md", "\n## What it brings\n", "\n## What it costs\n"),
        ("docs/results.md", "\n## Small data\n", "\n## Tiny-ImageNet\n"),
        ("docs/choosing-settings.md", None, "\n## In this order\n"),
        ("docs/one-pass.md", None, None),
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


BEST = "comixup-one-pass-double"
REST = range(len(OTHER_SEEDS), len(SEEDS))
NAMED = [
    ("vanilla-double", BEST, SEEDS),
    ("cutmix-p0.5-double", BEST, SEEDS),
    ("puzzlemix", BEST, SEEDS),
    ("comixup", BEST, SEEDS),
    ("puzzlemix", "comixup", SEEDS),
    ("cutmix-clean", "comixup", SEEDS),
    ("input-p0.5-double", BEST, OTHER_SEEDS),
    ("input-p0.5-double", BEST, REST),
    ("comixup", "comixup-shuffled", SEEDS),
    ("comixup-one-pass-shuffled-double", BEST, SEEDS),
    ("comixup-one-pass", "cutmix-p0.5", SEEDS),
]
"""What each difference of the README's section is between, in their order: first minus second."""
ROWS = {
    "CutMix + clean loss, two": "cutmix-clean",
    "Puzzle Mix, two": "puzzlemix",
    "Vanilla, 120": "vanilla-double",
    "Co-Mixup, two": "comixup",
    "CutMix, p = 0.5, alpha": "cutmix-p0.5-double",
    "Input mixup, p = 0.5, 120": "input-p0.5-double",
    "One-pass Co-Mixup, 120": BEST,
}
"""Arms of the README's table, by how their rows begin."""


def test_the_readme_names_the_comparisons_that_it_tells(runs):
    text = part("README.md", "\n## What it brings\n", "\n## What it costs\n")
    told = [tuple(map(float, found)) for found in DIFFERENCE.findall(text)]
    assert len(told) == len(NAMED)
    for numbers, (first, second, seeds) in zip(told, NAMED, strict=True):
        of_seeds = [run for run in runs if run.seed in seeds]
        error, _ = exploratory(of_seeds, [(first, second)])
        assert is_rounded(numbers, (error.difference, *error.interval)), (first, second)
    arms = by_arm(runs)
    for words, arm in ROWS.items():
        (row,) = re.findall(rf"\| {re.escape(words)}[^|]*\| ([^|]*\|[^|]*) \|", text)
        numbers = tuple(map(float, MEANS.fullmatch(row).groups()))
        own = [f(values) for values in metrics_of(arms[arm]) for f in STATISTICS]
        assert is_rounded(numbers, own), arm
