"""Methods side by side: means and spreads over seeds, tests of their differences, the best."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scipy import stats  # type: ignore[import-untyped]

from comixup._did_you_mean import did_you_mean
from comixup.lab._runs import RunRecord

REFERENCE = "comixup"
"""What others are tested against, if it is there and nothing else is asked for."""
FAMILY = ("error", "ece")
"""Columns whose differences are tested together: their p-values are adjusted for their number."""
LEVEL = 0.95
"""Of confidence intervals."""
LARGEST = 1e30
"""Of metrics: the squares of larger ones are infinite, or nearly."""
FEWEST_RUNS = 3
"""Of a method, or pairs, that are tested: the spread of two says next to nothing."""
NO_SPREAD = 1e-9
"""Of the largest value: smaller standard deviations are rounding errors."""


@dataclass(frozen=True)
class Column:
    """One metric of a comparison.

    Attributes:
        name: key in a run's metrics.
        title: for people, with the unit.
        lower_is_better: what counts as best; None marks none.
        decimals: digits after the point.
    """

    name: str
    title: str
    lower_is_better: bool | None = True
    decimals: int = 2


COLUMNS = (
    Column("error", "Top-1 error, %"),
    Column("top5_error", "Top-5 error, %"),
    Column("ece", "ECE, %"),
    Column("scaled_ece", "ECE, scaled, %"),
    Column("nll", "NLL", decimals=3),
    Column("scaled_nll", "NLL, scaled", decimals=3),
    Column("brier", "Brier", decimals=3),
    Column("top1_loc", "Top-1 Loc, %", lower_is_better=False),
    Column("gt_known", "GT-known Loc, %", lower_is_better=False),
    Column("max_box_acc_v2", "MaxBoxAccV2, %", lower_is_better=False),
    Column("replaced_error", "Replaced background, error, %"),
    Column("replaced_increment", "increment"),
    Column("noise_error", "Noise background, error, %"),
    Column("noise_increment", "increment"),
    Column("added_noise_error", "Noise added, error, %"),
    Column("added_noise_increment", "increment"),
    Column("passes", "Passes", lower_is_better=None, decimals=0),
    Column("cpu_seconds", "CPU-seconds", lower_is_better=None, decimals=0),
)
"""Metrics that are known; a comparison has those of them that some run has."""


@dataclass(frozen=True)
class Summary:
    """One metric of one method over its runs, and how it differs from the reference's.

    Attributes:
        method: the method.
        column: the metric.
        values: of each run that has it.
        seeds: of the same runs.
        best: whether no method has a better mean, as far as it is printed.
        difference: the mean minus the reference's; None where either has no values.
        welch: two-sided p-value of Welch's t-test; None if either has fewer than three runs, or if
            no run differs from the others of its method.
        paired: two-sided p-value of the paired t-test over the seeds in common; None with fewer
            than three, or if all pairs differ by the same.
        pairs: seeds in common.
        interval: of the mean difference over the pairs, with 95 % confidence (Student's t); None
            where there is no paired test.
        holm: `paired` adjusted by Holm's method for all differences of the family's columns; None
            where there is no paired test, and for other columns, whose tests are exploratory.
    """

    method: str
    column: str
    values: tuple[float, ...]
    seeds: tuple[int | None, ...]
    best: bool = False
    difference: float | None = None
    welch: float | None = None
    paired: float | None = None
    pairs: int | None = None
    interval: tuple[float, float] | None = None
    holm: float | None = None

    @property
    def mean(self) -> float:
        """The mean; NaN without values."""
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def std(self) -> float:
        """The standard deviation of the sample; NaN with fewer than two values."""
        return statistics.stdev(self.values) if len(self.values) > 1 else math.nan


@dataclass(frozen=True)
class Comparison:
    """Methods with their metrics; see `compare`.

    Attributes:
        columns: the metrics that some run has.
        summaries: by method, then by column's name.
        runs: how many each method has.
        reference: what the others are tested against; None with one method.
    """

    columns: tuple[Column, ...]
    summaries: Mapping[str, Mapping[str, Summary]]
    runs: Mapping[str, int]
    reference: str | None = None

    @property
    def differences(self) -> tuple[Summary, ...]:
        """What differs from the reference: every method but itself, column by column."""
        cells = [cell for cells in self.summaries.values() for cell in cells.values()]
        return tuple(cell for cell in cells if cell.difference is not None)


def compare(runs: Sequence[RunRecord], *, reference: str | None = None) -> Comparison:
    """Returns runs grouped by method, with the best marked and differences tested.

    Args:
        runs: in any order; methods keep the order of their first runs.
        reference: method that the others are tested against; None means Co-Mixup, or else the
            first.

    >>> found = compare([RunRecord("a", 0, {"error": 20.0}), RunRecord("b", 0, {"error": 19.0})])
    >>> found.summaries["b"]["error"].best, found.differences[0].welch
    (True, None)
    """
    groups = _groups(runs)
    columns = tuple(c for c in COLUMNS if any(c.name in run.metrics for run in runs))
    if not columns:
        raise ValueError(
            f"`runs` must have metrics such as {', '.join(c.name for c in COLUMNS[:3])}, got "
            f"{sorted({name for run in runs for name in run.metrics})}."
        )
    if reference is not None and reference not in groups:
        raise ValueError(
            f"`reference` must be one of the methods {', '.join(groups)}, got {reference!r}."
            f"{did_you_mean(reference, [*groups])}"
        )
    reference = reference or (REFERENCE if REFERENCE in groups else next(iter(groups)))
    summaries: dict[str, dict[str, Summary]] = {method: {} for method in groups}
    for column in columns:
        of_methods = _summaries(groups, column)
        for method, own in of_methods.items():
            other = of_methods[reference]
            tested = method != reference and own.values and other.values
            summaries[method][column.name] = _tested(own, other) if tested else own
    family = [
        cell
        for cells in summaries.values()
        for cell in cells.values()
        if cell.column in FAMILY and cell.paired is not None
    ]
    for cell, adjusted in zip(family, holm([c.paired or 0.0 for c in family]), strict=True):
        summaries[cell.method][cell.column] = replace(cell, holm=adjusted)
    counts = {method: len(own) for method, own in groups.items()}
    return Comparison(columns, summaries, counts, reference if len(groups) > 1 else None)


def welch_test(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Returns the two-sided p-value of Welch's t-test, or None where it is undefined.

    >>> round(welch_test([20.1, 20.4, 19.9], [21.0, 21.6, 21.1]), 4)
    0.0109
    """
    if min(len(first), len(second)) < 2 or not (_vary(first) or _vary(second)):
        return None
    of_both = [
        number
        for values in (first, second)
        for number in (statistics.fmean(values), statistics.stdev(values), len(values))
    ]
    return float(stats.ttest_ind_from_stats(*of_both, equal_var=False).pvalue)


def paired_test(differences: Sequence[float]) -> float | None:
    """Returns the two-sided p-value of the paired t-test, or None where it is undefined.

    Args:
        differences: of the two members of each pair.

    >>> round(paired_test([-1.0, -1.2, -0.9]), 4)
    0.0072
    """
    if not _vary(differences):
        return None
    return float(stats.ttest_1samp(differences, 0).pvalue)


def paired_interval(differences: Sequence[float]) -> tuple[float, float] | None:
    """Returns the 95 % confidence interval of a mean difference; None as for `paired_test`.

    >>> low, high = paired_interval([-1.0, -1.2, -0.9])
    >>> print(f"{low:.2f} {high:.2f}")
    -1.41 -0.65
    """
    if not _vary(differences):
        return None
    low, high = stats.ttest_1samp(differences, 0).confidence_interval(LEVEL)
    return float(low), float(high)


def _vary(values: Sequence[float]) -> bool:
    """Returns whether values differ by more than rounding errors, which no test can divide by."""
    return len(values) > 1 and statistics.stdev(values) > NO_SPREAD * max(map(abs, values))


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p-values adjusted for their number by Holm's step-down method, in their order.

    The chance that any true hypothesis has one below alpha is at most alpha.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda k: p_values[k])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def _groups(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Returns the runs by method, and by recipe too if there are several."""
    if not runs:
        raise ValueError("`runs` must have a run at least, got none. Evaluate one first.")
    several = len({run.recipe for run in runs}) > 1
    groups: dict[str, list[RunRecord]] = {}
    tests: dict[str, RunRecord] = {}
    for run in runs:
        first = tests.setdefault(run.recipe, run) if run.test_digest is not None else run
        if run.test_digest != first.test_digest:
            raise ValueError(
                f"`runs` must be measured on the same images, but seed {first.seed} of "
                f"{first.method} and seed {run.seed} of {run.method} were not. Evaluate them on "
                "one data set, with the same test images."
            )
        key = f"{run.recipe} {run.method}".strip() if several else run.method
        group = groups.setdefault(key, [])
        if run.seed is not None and run.seed in [other.seed for other in group]:
            raise ValueError(
                f"`runs` must have each seed of a method once, got seed {run.seed} of {key} twice. "
                "Leave one of the two runs out."
            )
        for name, value in run.metrics.items():
            if not abs(value) <= LARGEST:  # NaN is not
                raise ValueError(
                    f"`metrics` must be finite and at most {LARGEST:g} in size, got {value} for "
                    f"{name} of {key}, seed {run.seed}. Leave that run out, or that metric."
                )
        group.append(run)
    return groups


def _summaries(groups: Mapping[str, Sequence[RunRecord]], column: Column) -> dict[str, Summary]:
    """Returns a metric by method; the best mean is marked, and all that are printed like it."""
    found, texts = {}, {}
    for method, runs in groups.items():
        having = [run for run in runs if column.name in run.metrics]
        values = tuple(float(run.metrics[column.name]) for run in having)
        seeds = tuple(run.seed for run in having)
        found[method] = Summary(method, column.name, values, seeds)
        if values:
            texts[method] = f"{found[method].mean:.{column.decimals}f}"
    if len(texts) > 1 and column.lower_is_better is not None:  # a lone method is not the best
        choose = min if column.lower_is_better else max
        best = texts[choose(texts, key=lambda method: found[method].mean)]
        for method, text in texts.items():
            found[method] = replace(found[method], best=text == best)
    return found


def _tested(own: Summary, other: Summary) -> Summary:
    """Returns a summary with the tests of its difference from the reference's."""
    theirs = dict(zip(other.seeds, other.values, strict=True))
    pairs = [
        value - theirs[seed]
        for seed, value in zip(own.seeds, own.values, strict=True)
        if seed is not None and seed in theirs
    ]
    enough = min(len(own.values), len(other.values)) >= FEWEST_RUNS
    paired = len(pairs) >= FEWEST_RUNS
    return replace(
        own,
        difference=own.mean - other.mean,
        welch=welch_test(own.values, other.values) if enough else None,
        paired=paired_test(pairs) if paired else None,
        pairs=len(pairs),
        interval=paired_interval(pairs) if paired else None,
    )
