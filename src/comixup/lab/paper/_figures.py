"""The figures that are drawn from rows of numbers: Figure 2, Figure 6, the tables' times."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from comixup._figures import BLUE, GREEN, GREY, ORANGE, RED
from comixup.lab.paper._published import (
    BATCH_SALIENCY,
    CONVERGENCE,
    INPUTS_PER_OUTPUT,
    METHODS,
    RUN_TIME,
)
from comixup.lab.paper._store import Row

SMALL_TAU, OWN_TAU = 0.7, 0.83
_INPUTS = range(1, 7)
_TERM_RANGE = (-0.35, 0.65)
"""Of panel (a): beyond it, at the right end, the supermodular term alone grows on."""


def mixed_batches_figure(rows: Sequence[Row]) -> Figure:
    """Returns the four panels of Figure 2, ours beside the paper's numbers."""
    with style.context("default"):
        figure = Figure((10, 7.2), facecolor="white", layout="constrained")
        axes = figure.subplots(2, 2)
        _arrangement(axes[0, 0], [row for row in rows if row["panel"] == "arrangement"])
        taus = [row for row in rows if row["panel"] == "tau"]
        methods = [row for row in rows if row["panel"] == "method"]
        _inputs(axes[0, 1], taus)
        _saliency(axes[1, 0], methods, taus)
        _diversity(axes[1, 1], methods, taus)
        for ax, letter in zip(axes.flat, "abcd", strict=True):
            title = ax.get_title()
            ax.set_title("")
            ax.set_title(f"({letter}) {title}", fontsize=11, loc="left")
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(labelsize=9)
    return figure


def _arrangement(ax: Axes, rows: Sequence[Row]) -> None:
    positions = sorted({float(row["x"]) for row in rows})
    means = {
        name: [_mean([row for row in rows if row["x"] == x], name) for x in positions]
        for name in ("unary", "supermodular")
    }
    means["sum"] = [u + s for u, s in zip(means["unary"], means["supermodular"], strict=True)]
    middle = min(range(len(positions)), key=lambda k: abs(positions[k] - 0.5))
    for (name, values), colour, line in zip(
        means.items(), (RED, GREEN, BLUE), ("--", "-.", "-"), strict=True
    ):
        change = [value - values[middle] for value in values]
        ax.plot(positions, change, color=colour, ls=line, lw=1.8, label=name)
    ax.axvline(0.5, color="black", ls=":", lw=1)
    ax.text(0.51, _TERM_RANGE[0] + 0.02, "$z^*$", va="bottom", fontsize=11)
    ax.set_ylim(*_TERM_RANGE)
    ax.set_title("Terms along solutions")
    ax.set_xlabel("x: diverse, not salient  →  salient, not diverse", fontsize=9)
    ax.set_ylabel("objective per output, minus that of $z^*$", fontsize=9)
    ax.legend(frameon=False, fontsize=9, loc="upper left")


def _inputs(ax: Axes, taus: Sequence[Row]) -> None:
    width = 0.2
    bars: list[tuple[str, list[float], str, str]] = [
        (f"tau = {SMALL_TAU:g}", _percents(taus, SMALL_TAU), ORANGE, ""),
        (f"tau = {OWN_TAU:g}", _percents(taus, OWN_TAU), BLUE, ""),
        ("paper, small tau", list(map(float, INPUTS_PER_OUTPUT["small"])), "#F7DDA8", "//"),
        ("paper, large tau", list(map(float, INPUTS_PER_OUTPUT["large"])), "#A8CDE3", "\\\\"),
    ]
    for k, (label, values, colour, hatch) in enumerate(bars):
        places = [i + (k - 1.5) * width for i in _INPUTS]
        ax.bar(places, values, width, color=colour, hatch=hatch, edgecolor="#444444", lw=0.4,
               label=label)  # fmt: skip
    ax.set_title("Inputs per output")
    ax.set_xticks(list(_INPUTS), [*map(str, list(_INPUTS)[:-1]), f"{_INPUTS[-1]}+"])
    ax.set_xlabel("number of mixed inputs", fontsize=9)
    ax.set_ylabel("% of outputs", fontsize=9)
    ax.legend(frameon=False, fontsize=9)


def _saliency(ax: Axes, methods: Sequence[Row], taus: Sequence[Row]) -> None:
    names = list(BATCH_SALIENCY)
    ours = [_mean([row for row in methods if row["method"] == n], "saliency") for n in names[:-1]]
    ours.append(_mean([row for row in taus if row["tau"] == OWN_TAU], "saliency"))
    places = range(len(names))
    left = ax.bar([p - 0.2 for p in places], ours, 0.38, color=BLUE, label="ours")
    right = ax.bar(
        [p + 0.2 for p in places], list(BATCH_SALIENCY.values()), 0.38, color="#D0D0D0",
        edgecolor="#444444", lw=0.4, hatch="//", label="paper, ImageNet",
    )  # fmt: skip
    for bars in (left, right):
        ax.bar_label(bars, fmt="%.2f", fontsize=8, padding=1)
    ax.set_title("Batch saliency")
    ax.set_xticks(list(places), ["no mixing" if n == "vanilla" else METHODS[n] for n in names])
    ax.set_ylim(0.9, 1.02 * max(*ours, *BATCH_SALIENCY.values()))
    ax.set_ylabel("saliency per output", fontsize=9)
    ax.legend(frameon=False, fontsize=9, loc="upper left")


def _diversity(ax: Axes, methods: Sequence[Row], taus: Sequence[Row]) -> None:
    values = sorted({float(row["tau"]) for row in taus})
    means = [_mean([row for row in taus if row["tau"] == tau], "diversity") for tau in values]
    ax.plot(values, means, color=RED, marker="o", ms=4, lw=1.8, label="Co-Mixup")
    for name, colour, line in (
        ("input", GREY, ":"),
        ("cutmix", ORANGE, "--"),
        ("puzzlemix", BLUE, "-."),
    ):
        level = _mean([row for row in methods if row["method"] == name], "diversity")
        ax.axhline(level, color=colour, ls=line, lw=1.5, label=METHODS[name])
    ax.set_title("Diversity")
    ax.set_xlabel("tau", fontsize=9)
    ax.set_ylabel("1 - overlap of outputs", fontsize=9)
    ax.legend(frameon=False, fontsize=9, loc="lower left")


def _percents(taus: Sequence[Row], tau: float) -> list[float]:
    own = [row for row in taus if row["tau"] == tau]
    counts = [sum(float(row[f"inputs_{i}"]) for row in own) for i in _INPUTS]
    return [100 * count / sum(counts) for count in counts]


def run_time_figure(rows: Sequence[Row]) -> Figure:
    """Returns the run time over |L| and over m, ours and the paper's, in milliseconds."""
    ours = {
        "levels": {
            int(v): _mean([r for r in rows if r["m"] == 20 and r["levels"] == v - 1], "ms")
            for v in RUN_TIME["levels"]
        },
        "inputs": {
            m: _mean([r for r in rows if r["m"] == m and r["levels"] == 2], "ms")
            for m in RUN_TIME["inputs"]
        },
    }
    labels = {"levels": "|L|, values of a mask (m = 20)", "inputs": "m, inputs (|L| = 3)"}
    with style.context("default"):
        figure = Figure((9, 3.6), facecolor="white", layout="constrained")
        for ax, (name, label) in zip(figure.subplots(1, 2), labels.items(), strict=True):
            _two_lines(ax, ours[name], RUN_TIME[name], "paper, in its own unit")
            ax.set_ylim(bottom=0)
            ax.set_xlabel(label, fontsize=10)
            ax.set_ylabel("mean time, ms", fontsize=10)
            ax.set_xticks(list(RUN_TIME[name]))
    return figure


def convergence_figure(rows: Sequence[Row]) -> Figure:
    """Returns seconds until convergence over m: ours, Narasimhan and Bilmes', and the paper's."""
    titles = {"ours": "Algorithm 1", "narasimhan_bilmes": "Narasimhan and Bilmes"}
    with style.context("default"):
        figure = Figure((9, 3.6), facecolor="white", layout="constrained")
        for ax, (name, title) in zip(figure.subplots(1, 2, sharey=True), titles.items(),
                                     strict=True):  # fmt: skip
            times = {
                m: _mean([r for r in rows if r["m"] == m], f"{name}_ms") / 1e3
                for m in CONVERGENCE[name]
            }
            _two_lines(ax, times, CONVERGENCE[name], "paper")
            ax.set(yscale="log", xscale="log")
            ax.set_title(title, fontsize=10)
            ax.set_xlabel("m, inputs", fontsize=10)
            ax.set_xticks(list(CONVERGENCE[name]), list(map(str, CONVERGENCE[name])))
            ax.minorticks_off()
            ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        figure.axes[0].set_ylabel("mean time, s", fontsize=10)
    return figure


def _two_lines(ax: Axes, ours: Mapping[int, float], paper: Mapping[int, float], label: str) -> None:
    ax.plot(list(ours), list(ours.values()), color=BLUE, marker="o", label="ours")
    ax.plot(list(paper), list(paper.values()), color=GREY, marker="D", ls="--", label=label)
    ax.grid(color="#dddddd", lw=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)
    ax.legend(frameon=False, fontsize=9)


def _mean(rows: Sequence[Row], name: str) -> float:
    return statistics.fmean(float(row[name]) for row in rows)
