"""How arms differ over paired seeds, and which of these differences may be claimed."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from comixup.lab.evaluation import RunRecord, holm, paired_interval, paired_test
from small_data.arms import ALPHA, HEADLINE, METRICS, REFERENCES, SEEDS, by_arm


@dataclass(frozen=True)
class Contrast:
    """How an arm differs from a reference, over the seeds that both have.

    Attributes:
        reference: the arm it is compared with.
        arm: the other.
        metric: "error" or "ece".
        difference: the reference's mean minus the arm's: negative is in favour of the reference.
        interval: its 95 % confidence interval; None with fewer than two pairs.
        p: of the paired t-test; None with fewer than two pairs.
        pairs: seeds in common.
        holm: p adjusted over the whole primary family.
    """

    reference: str
    arm: str
    metric: str
    difference: float
    interval: tuple[float, float] | None
    p: float | None
    pairs: int
    holm: float | None = None

    @property
    def claimed(self) -> bool:
        """Whether the difference is a claim: all seeds, and an adjusted p below `ALPHA`."""
        return self.holm is not None and self.holm < ALPHA and self.pairs == len(SEEDS)

    @property
    def beyond_chance(self) -> bool:
        """Whether the interval excludes zero, which alone is no claim."""
        return self.interval is not None and self.interval[0] * self.interval[1] > 0

    def __str__(self) -> str:
        """The difference in points with its 95 % confidence interval."""
        text = f"{self.difference:+.2f}"
        if self.interval is not None:
            text += f" [{self.interval[0]:+.2f}, {self.interval[1]:+.2f}]"
        return text

    @property
    def adjusted_p(self) -> str:
        """The adjusted p-value as text; empty where there is none."""
        if self.holm is None:
            return ""
        return "< 0.001" if self.holm < 0.001 else f"{self.holm:.3f}"

    def reversed(self) -> Contrast:
        """Returns the same seen from the other arm."""
        turned = None if self.interval is None else (-self.interval[1], -self.interval[0])
        return dataclasses.replace(
            self,
            reference=self.arm,
            arm=self.reference,
            difference=-self.difference,
            interval=turned,
        )


def contrasts(runs: Sequence[RunRecord]) -> list[Contrast]:
    """Returns the primary family: each reference against each other headline arm.

    Tests of the family whose runs are not there yet count as passed by chance (p = 1), so that the
    adjusted p-values of the others can only become smaller.
    """
    pairs = [
        (reference, arm)
        for reference in REFERENCES
        for arm in HEADLINE
        # Of the two references each pair is tested once.
        if arm != reference and not (reference == REFERENCES[1] and arm == REFERENCES[0])
    ]
    found = exploratory(runs, pairs)
    values = [c.p for c in found if c.p is not None]
    adjusted = iter(holm(values + [1.0] * (len(METRICS) * len(pairs) - len(values))))
    return [c if c.p is None else dataclasses.replace(c, holm=next(adjusted)) for c in found]


def exploratory(runs: Sequence[RunRecord], pairs: Sequence[tuple[str, str]]) -> list[Contrast]:
    """Returns differences outside of the primary family, without adjusted p-values.

    Args:
        runs: of all arms.
        pairs: (reference, arm), left out where there are no runs of one of them.
    """
    arms = by_arm(runs)
    return [
        _contrast(arms[reference], arms[arm], metric)
        for reference, arm in pairs
        if reference in arms and arm in arms
        for metric in METRICS
    ]


def _contrast(reference: Sequence[RunRecord], arm: Sequence[RunRecord], metric: str) -> Contrast:
    theirs = {run.seed: run.metrics[metric] for run in arm}
    differences = [
        run.metrics[metric] - theirs[run.seed] for run in reference if run.seed in theirs
    ]
    mean = statistics.fmean(differences) if differences else float("nan")
    return Contrast(
        reference[0].method,
        arm[0].method,
        metric,
        mean,
        paired_interval(differences),
        paired_test(differences),
        len(differences),
    )
