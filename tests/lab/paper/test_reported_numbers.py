"""What README and docs tell of the comparison on small data is what its cells give."""

import csv
import itertools
import re
import statistics
from pathlib import Path

import pytest

from comixup.lab.evaluation import paired_interval
from comixup.lab.paper.cells import read_cells
from comixup.lab.paper.small_data._arms import OTHER_SEEDS, SEEDS, by_arm
from comixup.lab.paper.small_data._contrasts import exploratory

ROOT = Path(__file__).parents[3]
NUMBER = r"[+-]?\d+\.\d"
DIFFERENCE = re.compile(rf"({NUMBER})(?: points)? \[({NUMBER}), ({NUMBER})\]")
MEANS = re.compile(rf"({NUMBER}) ± ({NUMBER}) \| ({NUMBER}) ± ({NUMBER})")
STATISTICS = (statistics.fmean, statistics.stdev)


@pytest.fixture(scope="module")
def cells():
    return read_cells(ROOT / "docs" / "results" / "small-data.csv")


@pytest.fixture(scope="module")
def differences(cells):
    """Between any two arms, on all seeds, on the first and on the others, with their intervals."""
    pairs = list(itertools.combinations(by_arm(cells), 2))
    found = [
        contrast
        for seeds in (SEEDS, OTHER_SEEDS, range(len(OTHER_SEEDS), len(SEEDS)))
        for contrast in exploratory([cell for cell in cells if cell.seed in seeds], pairs)
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
    runs = {(row["method"], row["seed"]): row for row in rows}
    metrics = [name for name in rows[0] if name not in ("method", "seed")]
    for first, second in itertools.permutations({row["method"] for row in rows}, 2):
        for metric in metrics:
            values = [
                float(row[metric]) - float(runs[second, seed][metric])
                for (method, seed), row in runs.items()
                if method == first and (second, seed) in runs
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
def test_differences_and_means(cells, differences, page, start, end):
    text = part(page, start, end)
    told = [tuple(map(float, found)) for found in DIFFERENCE.findall(text)]
    assert len(told) > 2
    assert [d for d in told if not any(is_rounded(d, own) for own in differences)] == []
    means = [
        [f(values) for values in ([c.error for c in own], [c.ece for c in own]) for f in STATISTICS]
        for own in by_arm(cells).values()
        if len(own) > 1
    ]
    told = [tuple(map(float, found)) for found in MEANS.findall(text)]
    assert [m for m in told if not any(is_rounded(m, own) for own in means)] == []
