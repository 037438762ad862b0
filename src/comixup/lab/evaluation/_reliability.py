"""Reliability diagrams in the paper's style: confidence against accuracy, a panel per method."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comixup._figures import shortened, write_figure
from comixup.lab._calibration import Bin
from comixup.lab.evaluation._metrics import wilson_interval
from comixup.lab.evaluation._runs import RunRecord

DPI = 150
PANEL, MARGIN = 1.75, 0.45
"""Inches: a panel's side with the gap to the next, and what the axes' labels take."""
TITLE_LETTERS = 24
COLUMNS = 6
"""Panels in a row, the paper's number of methods: more would not be legible on a page."""
_CLASSIFIER, _PERFECT = "#0072B2", "#D55E00"
"""Blue and vermilion of Okabe and Ito; the lines differ in style too, for print in grey."""


def reliability_figure(panels: Mapping[str, Sequence[RunRecord]]) -> Figure:
    """Returns reliability diagrams in rows, as the paper's figure of calibration has them.

    The classifier's line is blue, that of perfect calibration dotted: below it a classifier is
    too sure of itself, above it not sure enough. The line joins the bins that hold predictions, at
    their mean confidence and accuracy; the band around it is the accuracy's 95 % confidence
    interval, wide where a bin holds few predictions. ECE is in percent.

    Args:
        panels: by title, of one or more lines, one or more runs each (seeds of a method): their
            predictions are pooled for the line, and ECE is the mean of the runs' with its standard
            deviation.

    >>> bins = (Bin(0, float("nan"), float("nan")), Bin(10, 0.8, 0.7))
    >>> one = RunRecord("vanilla", 0, {"ece": 10.0}, bins=bins)
    >>> [axes.get_title() for axes in reliability_figure({"Vanilla": [one]}).axes]
    ['Vanilla']
    """
    if not panels or not all(panels.values()):
        raise ValueError(
            "`panels` must have runs for every title, got none for "
            f"{[title for title, runs in panels.items() if not runs] or 'any'}. Evaluate a run."
        )
    with style.context("default"):
        rows = -(-len(panels) // COLUMNS)
        columns = -(-len(panels) // rows)
        size = (MARGIN + PANEL * columns, MARGIN + (PANEL + MARGIN) * rows - MARGIN)
        figure = Figure(size, facecolor="white", layout="constrained")
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
        axes = grid.ravel()
        for empty in axes[len(panels) :]:
            empty.remove()
        for ax, (title, runs) in zip(axes, panels.items(), strict=False):
            _draw(ax, pooled([run.bins for run in runs]))
            lines = [shortened(line, TITLE_LETTERS) for line in title.split("\n")]
            ax.set_title("\n".join(lines), fontsize=9, pad=3, parse_math=False)
            ax.text(0.05, 0.95, _ece(runs), va="top", fontsize=7, transform=ax.transAxes)
        for ax in grid[:, 0]:
            ax.set_ylabel("Accuracy", fontsize=8, labelpad=-3)
    return figure


def draw_reliability(panels: Mapping[str, Sequence[RunRecord]], path: Path) -> None:
    """Writes reliability diagrams to a .png, .pdf or .svg file atomically."""
    write_figure(reliability_figure(panels), path, DPI)


def pooled(runs: Sequence[Sequence[Bin]]) -> tuple[Bin, ...]:
    """Returns the bins of all predictions of several runs together.

    >>> pooled([[Bin(1, 0.75, 0.0)], [Bin(3, 0.875, 1.0)]])
    (Bin(count=4, confidence=0.84375, accuracy=0.75),)
    """
    if len({len(bins) for bins in runs}) != 1:
        raise ValueError(f"`runs` must have as many bins each, got {[len(bins) for bins in runs]}.")
    return tuple(_pool(same) for same in zip(*runs, strict=True))


def _pool(bins: Sequence[Bin]) -> Bin:
    filled = [bin_ for bin_ in bins if bin_.count]
    count = sum(bin_.count for bin_ in filled)
    if not count:
        return Bin(0, float("nan"), float("nan"))
    confidence = sum(bin_.count * bin_.confidence for bin_ in filled) / count
    return Bin(count, confidence, sum(bin_.count * bin_.accuracy for bin_ in filled) / count)


def _draw(ax: Axes, bins: Sequence[Bin]) -> None:
    filled = [bin_ for bin_ in bins if bin_.count]
    xs, ys = [bin_.confidence for bin_ in filled], [bin_.accuracy for bin_ in filled]
    intervals = [wilson_interval(round(p.accuracy * p.count), p.count) for p in filled]
    lows, highs = zip(*intervals, strict=True)
    ax.plot([0, 1], [0, 1], color=_PERFECT, ls=":", lw=1.2)
    ax.fill_between(xs, lows, highs, color=_CLASSIFIER, alpha=0.12, lw=0)
    # One bin is no line.
    ax.plot(xs, ys, color=_CLASSIFIER, lw=1.2, marker="o" if len(filled) == 1 else "", ms=3)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ticks = [0, 0.2, 0.4, 0.6, 0.8, 1]
    # The ends alone are labelled, as in the paper: the grid has the steps between.
    ax.set_xticks(ticks, ["0", "", "", "", "", "1"], fontsize=7)
    ax.set_yticks(ticks, ["0", "", "", "", "", "1"], fontsize=7)
    ax.tick_params(length=0, pad=2)
    ax.grid(color="#dddddd", lw=0.6)
    ax.set_axisbelow(True)
    ax.set_xlabel("Confidence", fontsize=8, labelpad=-3)


def _ece(runs: Sequence[RunRecord]) -> str:
    values = [run.metrics["ece"] for run in runs]
    if len(values) == 1:
        return f"ECE {values[0]:.1f} %"
    return f"ECE {statistics.mean(values):.1f} ± {statistics.stdev(values):.1f} %\n{len(runs)} runs"
