"""The comparison's figures: error and calibration against compute, reliability diagrams."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from comixup._figures import write_figure
from comixup.lab.evaluation import RunRecord, draw_reliability, paired_interval
from small_data.arms import HEADLINE, LENGTHS, by_arm

DPI = 150
CURVES = {**LENGTHS, "Input mixup, p = 0.5": ("input-p0.5", "input-p0.5-double")}
"""Arms by method, in the order of their lengths, with the strongest control."""
_STYLES = {
    "Vanilla": ("#777777", "o", ":"),
    "CutMix, p = 0.5": ("#E69F00", "s", "--"),
    "Input mixup, p = 0.5": ("#009E73", "v", (0, (3, 1, 1, 1, 1, 1))),
    "Co-Mixup": ("#0072B2", "^", "-."),
    "One-pass Co-Mixup": ("#D55E00", "D", "-"),
}
"""Colour (of Okabe and Ito), marker and line: legible in grey and for the colour-blind."""
_BESIDE = 0.04
"""By which powers of two methods of the same compute stand beside each other."""
_FEWEST = 3
"""Seeds from which on an interval is drawn: that of two is wider than the figure."""


def write_figures(runs: Sequence[RunRecord], folder: Path) -> None:
    """Writes the comparison's figures to a folder."""
    arms = by_arm(runs)
    panels = {
        # What tells the versions of a method apart stands on a line of its own.
        "\n".join(title.rsplit(", ", 1)): arms[arm]
        for arm, title in HEADLINE.items()
        if arm in arms
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_figure(compute_figure(runs), folder / "small-data.compute.png", DPI)
    draw_reliability(panels, folder / "small-data.reliability.png")


def compute_figure(runs: Sequence[RunRecord]) -> Figure:
    """Returns error and ECE against compute, a line per method, with 95 % intervals of the mean."""
    trained = by_arm(runs)
    with style.context("default"):
        figure = Figure((10.0, 3.8), facecolor="white", layout="constrained")
        panels = figure.subplots(1, 2)
        for ax, metric, title in zip(
            panels, ("error", "ece"), ("Top-1 error, %", "ECE, %"), strict=True
        ):
            for k, (name, arms) in enumerate(CURVES.items()):
                there = [trained[arm] for arm in arms if arm in trained]
                if not there:
                    continue
                colour, marker, line = _STYLES[name]
                beside = 2 ** (_BESIDE * (k - (len(CURVES) - 1) / 2))
                xs = [own[0].metrics["passes"] * beside for own in there]
                means = [statistics.fmean(c.metrics[metric] for c in own) for own in there]
                reach = [_reach([c.metrics[metric] for c in own]) for own in there]
                ax.errorbar(
                    xs, means, reach, label=name, color=colour, marker=marker, ls=line, capsize=3
                )
            ax.set_xscale("log", base=2)
            ticks = sorted(
                {
                    c.metrics["passes"]
                    for arms in CURVES.values()
                    for a in arms
                    for c in trained.get(a, [])
                }
            )
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
            ax.set_xlabel("Forward and backward passes per training image")
            ax.set_ylabel(title)
            ax.grid(color="#dddddd", lw=0.6)
            ax.set_axisbelow(True)
        panels[0].legend(frameon=False, fontsize=8)
    return figure


def _reach(values: Sequence[float]) -> float:
    """Returns half the width of the mean's confidence interval; 0 for too few values."""
    interval = paired_interval(values) if len(values) >= _FEWEST else None
    return 0.0 if interval is None else (interval[1] - interval[0]) / 2
