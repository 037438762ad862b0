"""Methods side by side: means and spreads over seeds, tests of their differences, the best."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scipy import stats  # type: ignore[import-untyped]

from comixup._did_you_mean import did_you_mean
from comixup.lab.evaluation._runs import RunRecord

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
"""Figures that are known; a comparison has those of them that some run has."""


@dataclass(frozen=True)
class Summary:
    """One metric of one method, over its runs.

    Attributes:
        values: of each run that has it.
        seeds: of the same runs.
        best: whether no method has a better mean, as far as it is printed.
    """

    values: tuple[float, ...]
    seeds: tuple[int | None, ...]
    best: bool = False

    @property
    def mean(self) -> float:
        """The mean; NaN without values."""
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def std(self) -> float:
        """The standard deviation of the sample; NaN with fewer than two values."""
        return statistics.stdev(self.values) if len(self.values) > 1 else math.nan


@dataclass(frozen=True)
class Difference:
    """How a method's mean differs from the reference's, and what a test makes of it.

    Attributes:
        method: the method.
        reference: what it is compared with.
        column: the metric.
        difference: the method's mean minus the reference's.
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
    reference: str
    column: str
    difference: float
    welch: float | None
    paired: float | None
    pairs: int
    interval: tuple[float, float] | None = None
    holm: float | None = None


@dataclass(frozen=True)
class Comparison:
    """Methods with their metrics; see `compare`.

    Attributes:
        columns: the metrics that some run has.
        summaries: by method, then by column's name.
        runs: how many each method has.
        differences: of every method but the reference, column by column.
        reference: what the others are tested against; None with one method.
    """

    columns: tuple[Column, ...]
    summaries: Mapping[str, Mapping[str, Summary]]
    runs: Mapping[str, int]
    differences: tuple[Difference, ...] = field(default=())
    reference: str | None = None


def compare(
    runs: Sequence[RunRecord],
    *,
    columns: Sequence[Column] = COLUMNS,
    reference: str | None = None,
    family: Sequence[str] = FAMILY,
) -> Comparison:
    """Returns runs grouped by method, with the best marked and differences tested.

    Args:
        runs: in any order; methods keep the order of their first runs.
        columns: metrics to show, if some run has them.
        reference: method that the others are tested against; None means Co-Mixup, or else the
            first.
        family: names of the columns whose p-values are adjusted together, over all methods.

    >>> found = compare([RunRecord("a", 0, {"error": 20.0}), RunRecord("b", 0, {"error": 19.0})])
    >>> found.summaries["b"]["error"].best, found.differences[0].welch
    (True, None)
    """
    groups = _groups(runs)
    shown = tuple(c for c in columns if any(c.name in run.metrics for run in runs))
    if not shown:
        raise ValueError(
            f"`runs` must have metrics such as {', '.join(c.name for c in columns[:3])}, got "
            f"{sorted({name for run in runs for name in run.metrics})}."
        )
    reference = _reference(list(groups), reference)
    summaries = {
        method: {column.name: _summary(own, column.name) for column in shown}
        for method, own in groups.items()
    }
    for column in shown:
        _mark_best(summaries, column)
    differences = tuple(
        _difference(
            method, reference, column.name, own[column.name], summaries[reference][column.name]
        )
        for method, own in summaries.items()
        for column in shown
        if method != reference
        and own[column.name].values
        and summaries[reference][column.name].values
    )
    differences = _adjusted(differences, family)
    counts = {method: len(own) for method, own in groups.items()}
    return Comparison(shown, summaries, counts, differences, reference if len(groups) > 1 else None)


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


def paired_interval(
    differences: Sequence[float], level: float = LEVEL
) -> tuple[float, float] | None:
    """Returns the confidence interval of a mean difference, or None where the test is undefined.

    Args:
        differences: of the two members of each pair.
        level: of confidence.

    >>> low, high = paired_interval([-1.0, -1.2, -0.9])
    >>> print(f"{low:.2f} {high:.2f}")
    -1.41 -0.65
    """
    if not _vary(differences):
        return None
    low, high = stats.ttest_1samp(differences, 0).confidence_interval(level)
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


def _adjusted(differences: Sequence[Difference], family: Sequence[str]) -> tuple[Difference, ...]:
    """Returns the differences with Holm's p-values where they belong to the family."""
    tested = [d for d in differences if d.column in family and d.paired is not None]
    values = iter(holm([d.paired for d in tested if d.paired is not None]))
    return tuple(replace(d, holm=next(values)) if d in tested else d for d in differences)


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


def _reference(methods: Sequence[str], wanted: str | None) -> str:
    if wanted is not None and wanted not in methods:
        raise ValueError(
            f"`reference` must be one of the methods {', '.join(methods)}, got {wanted!r}."
            f"{did_you_mean(wanted, methods)}"
        )
    return wanted or (REFERENCE if REFERENCE in methods else methods[0])


def _summary(runs: Sequence[RunRecord], name: str) -> Summary:
    having = [run for run in runs if name in run.metrics]
    values = tuple(float(run.metrics[name]) for run in having)
    return Summary(values, tuple(run.seed for run in having))


def _mark_best(summaries: dict[str, dict[str, Summary]], column: Column) -> None:
    """Marks the best mean, and all that are printed like it; a lone method is not the best."""
    means = {method: own[column.name].mean for method, own in summaries.items()}
    known = [mean for mean in means.values() if not math.isnan(mean)]
    if len(known) < 2 or column.lower_is_better is None:
        return
    best = min(known) if column.lower_is_better else max(known)
    for method, mean in means.items():
        if f"{mean:.{column.decimals}f}" == f"{best:.{column.decimals}f}":
            own = summaries[method][column.name]
            summaries[method][column.name] = Summary(own.values, own.seeds, best=True)


def _difference(
    method: str, reference: str, column: str, own: Summary, other: Summary
) -> Difference:
    theirs = dict(zip(other.seeds, other.values, strict=True))
    pairs = [
        value - theirs[seed]
        for seed, value in zip(own.seeds, own.values, strict=True)
        if seed is not None and seed in theirs
    ]
    enough = min(len(own.values), len(other.values)) >= FEWEST_RUNS
    paired = len(pairs) >= FEWEST_RUNS
    return Difference(
        method,
        reference,
        column,
        own.mean - other.mean,
        welch_test(own.values, other.values) if enough else None,
        paired_test(pairs) if paired else None,
        len(pairs),
        paired_interval(pairs) if paired else None,
    )
