"""The sensitivity table as a figure: error against value, a panel per setting."""

from __future__ import annotations

import itertools
import statistics
from typing import TYPE_CHECKING

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comixup._figures import BLUE, GREY, RED
from comixup.lab.training._settings import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from comixup.lab.training._sweep import Sweep, SweepCell

OURS, PAPERS = BLUE, RED
"""Colours that colour-blind readers tell apart."""
PANEL, HEIGHT = 2.4, 2.9
"""Inches."""


def sweep_figure(found: Sweep) -> Figure:
    """Returns the errors of a sweep against the values of each setting.

    Dots are seeds, the line joins their means, bars are standard deviations. The method's own value
    has a ring and a dotted line. The paper's errors are drawn where this is its experiment. Values
    stand at equal distances, however far apart they are.
    """
    panels = [
        (setting, list(cells))
        for setting, cells in itertools.groupby(found.cells, key=lambda cell: cell.setting)
    ]
    if not any(cell.errors for cell in found.cells):
        raise ValueError("`found` must have a trained cell to draw, got none. Train one first.")
    with style.context("default"):
        size = (0.7 + PANEL * len(panels), HEIGHT)
        figure = Figure(size, facecolor="white", layout="constrained")
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for ax, (setting, cells) in zip(axes, panels, strict=True):
            _draw(ax, cells)
            ax.set_xlabel(setting.replace("_", " "), parse_math=False)
        axes[0].set_ylabel("top-1 error, %")
        counts = sorted({len(cell.errors) for cell in found.cells if cell.errors})
        seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        noun = "seed" if seeds == "1" else "seeds"
        title = f"{found.recipe.title}\n{found.method}, {seeds} {noun}; a ring marks its own value"
        figure.suptitle(title, fontsize=9, parse_math=False)
        handles, labels = axes[0].get_legend_handles_labels()
        if len(labels) > 1:
            axes[0].legend(handles, labels, frameon=False, fontsize=7)
    return figure


def _draw(ax: Axes, cells: Sequence[SweepCell]) -> None:
    positions = [position for position, cell in enumerate(cells) if cell.errors]
    means = [statistics.fmean(cells[position].errors) for position in positions]
    spreads = [_deviation(cells[position].errors) for position in positions]
    for position in positions:
        errors = cells[position].errors
        ax.plot([position] * len(errors), errors, ls="", marker=".", ms=4, color=OURS, alpha=0.5)
        if cells[position].default:
            ax.axvline(position, color=GREY, ls=":", lw=1)
            mean = statistics.fmean(errors)
            ax.plot([position], [mean], ls="", marker="o", mfc="none", mec=OURS, ms=10)
    ax.errorbar(
        positions,
        means,
        yerr=spreads,
        color=OURS,
        lw=1.4,
        marker="o",
        ms=4,
        capsize=3,
        label="here",
    )
    told = [(position, cell.paper) for position, cell in enumerate(cells) if cell.paper is not None]
    if told:
        xs, ys = zip(*told, strict=True)
        ax.plot(xs, ys, color=PAPERS, ls="--", lw=1.2, marker="s", ms=3, label="paper")
    ax.set_xticks(range(len(cells)), [plain(cell.value) for cell in cells], fontsize=8)
    ax.set_xlim(-0.5, len(cells) - 0.5)
    ax.tick_params(axis="y", labelsize=8)
    ax.grid(axis="y", color="#dddddd", lw=0.6)
    ax.spines[["top", "right"]].set_visible(False)


def _deviation(errors: Sequence[float]) -> float:
    return statistics.stdev(errors) if len(errors) > 1 else 0.0
