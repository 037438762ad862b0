"""The tables and figures of the analyses: what the paper printed beside what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from comixup._figures import BLUE, GREEN, GREY, ORANGE, RED
from comixup.lab._tables import NOTHING, markdown_table
from comixup.lab.paper._items import (
    BATCH_SALIENCY,
    CONVERGENCE,
    EXHAUSTIVE,
    INPUTS_PER_OUTPUT,
    NARASIMHAN_BILMES,
    RUN_TIME,
    SIZES,
)
from comixup.lab.paper._jobs import PROBLEMS
from comixup.lab.paper._store import Row
from comixup.lab.paper._trained_tables import COLUMNS

_WAYS = {
    "ours": "Algorithm 1",
    "ours_4_sweeps": "Algorithm 1, 4 sweeps",
    "narasimhan_bilmes": "Narasimhan-Bilmes",
    "random": "random, feasible",
    "infeasible": "random, not feasible",
}
_SMALL_TAU, _OWN_TAU = 0.7, 0.83
_INPUTS = range(1, 7)
_TERM_RANGE = (-0.35, 0.65)
"""Of panel (a): beyond it, at the right end, the supermodular term alone grows on."""


def _where(rows: Sequence[Row], **same: float | str) -> list[Row]:
    """Returns the rows whose columns have these values."""
    return [row for row in rows if all(row[name] == value for name, value in same.items())]


def _mean(rows: Sequence[Row], column: str, **same: float | str) -> float:
    values = [float(row[column]) for row in _where(rows, **same)]
    return statistics.fmean(values) if values else float("nan")


def _exhaustive_table(rows: Sequence[Row]) -> str:
    """Returns Table 6, with harder problems below it."""
    lines = []
    for kind, size in ((kind, size) for kind, sizes in PROBLEMS.items() for size in sizes):
        m, outputs, n = size
        own = _where(rows, kind=kind, m=m, outputs=outputs, n=n)
        name = f"({m}, {outputs}, {n}){', harder' if kind == 'hard' else ''}"
        if kind == "paper":
            *values, error = EXHAUSTIVE[size]
            printed = [f"{value:.2f}" for value in values]
            lines.append([name, "paper", "100", *printed, f"{error:g}", "", ""])
        if own:
            lines.append([name, "ours", str(len(own)), *_exhaustive_words(own)])
    head = [
        *("(m, m', n)", "", "seeds", "Algorithm 1", "optimum", "random", "relative error"),
        *("... of output j = input j", "seeds solved to optimality"),
    ]
    return markdown_table(head, lines)


def _exhaustive_words(rows: Sequence[Row]) -> list[str]:
    names = ("ours", "optimum", "random", "identity")
    ours, optimum, random, identity = (sum(float(row[name]) for row in rows) for name in names)
    solved = sum(float(row["ours"]) < float(row["optimum"]) + 1e-6 for row in rows)
    return [
        *(f"{total / len(rows):.3f}" for total in (ours, optimum, random)),
        f"{(ours - optimum) / (random - optimum):.4f}",
        f"{(identity - optimum) / (random - optimum):.3f}",
        f"{100 * solved / len(rows):.0f} %",
    ]


def _narasimhan_bilmes_table(rows: Sequence[Row]) -> str:
    """Returns Table 7: means and standard deviations of the objective."""
    lines = []
    for name, title in _WAYS.items():
        if name in NARASIMHAN_BILMES:
            lines.append([title, "paper", *NARASIMHAN_BILMES[name]])
        values = ([float(row[name]) for row in _where(rows, m=m)] for m in SIZES)
        lines.append([title, "ours", *map(_mean_and_deviation, values)])
    return markdown_table(["", "", *(f"m = {m}" for m in SIZES)], lines)


def _mean_and_deviation(values: Sequence[float]) -> str:
    if len(values) < 2:
        return NOTHING if not values else f"{values[0]:.4g}"
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    spread = f"{deviation:.0f}" if deviation >= 10 or deviation < 1e-9 else f"{deviation:.2g}"
    return f"{mean:.0f} ({spread})" if mean > 1e3 else f"{mean:.4g} ({spread})"


def _convergence_table(rows: Sequence[Row]) -> str:
    """Returns Table 8: mean seconds until convergence."""
    lines = []
    for name, printed in CONVERGENCE.items():
        times = [_mean(rows, f"{name}_ms", m=m) / 1e3 for m in SIZES]
        lines.append([_WAYS[name], "paper, s", *(f"{time:g}" for time in printed)])
        lines.append([_WAYS[name], "ours, s", *(f"{time:.2g}" for time in times)])
    return markdown_table(["", "", *(f"m = {m}" for m in SIZES)], lines)


def _run_times(rows: Sequence[Row], axis: str) -> dict[int, tuple[float, float]]:
    """Returns milliseconds, the paper's and ours, by |L| or by m."""
    return {
        levels + 1 if axis == "|L|" else m: (printed, _mean(rows, "ms", m=m, levels=levels))
        for (m, levels), printed in RUN_TIME[axis].items()
    }


def _run_time_table(rows: Sequence[Row]) -> str:
    lines = [
        [f"{axis} = {value}", f"{printed:g}", f"{ours:.3f}"]
        for axis in RUN_TIME
        for value, (printed, ours) in _run_times(rows, axis).items()
    ]
    return markdown_table(["", "paper, ms as printed", "ours, ms"], lines)


def _compatibility_table(rows: Sequence[Row]) -> str:
    """Returns the inner products of Figure 5."""
    lines = [[str(row["result"]), f"{float(row['inner_product']):.2f}"] for row in rows]
    return markdown_table(["", "inner product of the two outputs under A"], lines)


def mixed_batches_figure(rows: Sequence[Row]) -> Figure:
    """Returns the four panels of Figure 2, ours beside the paper's numbers."""
    taus, methods = _where(rows, panel="tau"), _where(rows, panel="method")
    with style.context("default"):
        figure = Figure((10, 7.2), facecolor="white", layout="constrained")
        first, second, third, fourth = figure.subplots(2, 2).flat
        _draw_arrangement(first, _where(rows, panel="arrangement"))
        _draw_inputs(second, taus)
        _draw_saliency(third, methods, taus)
        _draw_diversity(fourth, methods, taus)
        for ax in figure.axes:
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(labelsize=9)
    return figure


def _label(ax: Axes, title: str, x: str, y: str, loc: Any = "best") -> None:
    ax.set_title(title, fontsize=11, loc="left")
    ax.set_xlabel(x, fontsize=9)
    ax.set_ylabel(y, fontsize=9)
    ax.legend(frameon=False, fontsize=9, loc=loc)


def _draw_arrangement(ax: Axes, rows: Sequence[Row]) -> None:
    positions = sorted({float(row["x"]) for row in rows})
    means = {n: [_mean(rows, n, x=x) for x in positions] for n in ("unary", "supermodular")}
    means["sum"] = [u + s for u, s in zip(means["unary"], means["supermodular"], strict=True)]
    middle = min(range(len(positions)), key=lambda k: abs(positions[k] - 0.5))
    styles = zip(means.items(), (RED, GREEN, BLUE), ("--", "-.", "-"), strict=True)
    for (name, values), colour, line in styles:
        change = [value - values[middle] for value in values]
        ax.plot(positions, change, color=colour, ls=line, lw=1.8, label=name)
    ax.axvline(0.5, color="black", ls=":", lw=1)
    ax.text(0.51, _TERM_RANGE[0] + 0.02, "$z^*$", va="bottom", fontsize=11)
    ax.set_ylim(*_TERM_RANGE)
    x, y = "x: diverse, not salient  →  salient, not diverse", "objective per output, minus that of"
    _label(ax, "(a) Terms along solutions", x, f"{y} $z^*$", "upper left")


def _draw_inputs(ax: Axes, taus: Sequence[Row]) -> None:
    bars: list[tuple[str, Sequence[float], str, str]] = [
        (f"tau = {_SMALL_TAU:g}", _percents(_where(taus, tau=_SMALL_TAU)), ORANGE, ""),
        (f"tau = {_OWN_TAU:g}", _percents(_where(taus, tau=_OWN_TAU)), BLUE, ""),
        ("paper, small tau", INPUTS_PER_OUTPUT["small"], "#F7DDA8", "//"),
        ("paper, large tau", INPUTS_PER_OUTPUT["large"], "#A8CDE3", "\\\\"),
    ]
    for k, (label, values, colour, hatch) in enumerate(bars):
        places = [i + (k - 1.5) * 0.2 for i in _INPUTS]
        look: Any = {"color": colour, "hatch": hatch, "edgecolor": "#444444", "lw": 0.4}
        ax.bar(places, values, 0.2, label=label, **look)
    ax.set_xticks(_INPUTS, [*map(str, _INPUTS[:-1]), f"{_INPUTS[-1]}+"])
    _label(ax, "(b) Inputs per output", "number of mixed inputs", "% of outputs")


def _percents(rows: Sequence[Row]) -> list[float]:
    counts = [sum(float(row[f"inputs_{i}"]) for row in rows) for i in _INPUTS]
    return [100 * count / sum(counts) for count in counts]


def _draw_saliency(ax: Axes, methods: Sequence[Row], taus: Sequence[Row]) -> None:
    names, paper = list(BATCH_SALIENCY), list(BATCH_SALIENCY.values())
    ours = [_mean(methods, "saliency", method=name) for name in names[:-1]]
    ours.append(_mean(taus, "saliency", tau=_OWN_TAU))
    look: Any = {"color": "#D0D0D0", "edgecolor": "#444444", "lw": 0.4, "hatch": "//"}
    places = range(len(names))
    for bars in (
        ax.bar([p - 0.2 for p in places], ours, 0.38, color=BLUE, label="ours"),
        ax.bar([p + 0.2 for p in places], paper, 0.38, label="paper, ImageNet", **look),
    ):
        ax.bar_label(bars, fmt="%.2f", fontsize=8, padding=1)
    ax.set_xticks(places, ["no mixing" if n == "vanilla" else COLUMNS[n] for n in names])
    ax.set_ylim(0.9, 1.02 * max(*ours, *paper))
    _label(ax, "(c) Batch saliency", "", "saliency per output", "upper left")


def _draw_diversity(ax: Axes, methods: Sequence[Row], taus: Sequence[Row]) -> None:
    values = sorted({float(row["tau"]) for row in taus})
    means = [_mean(taus, "diversity", tau=tau) for tau in values]
    ax.plot(values, means, color=RED, marker="o", ms=4, lw=1.8, label="Co-Mixup")
    styles = {"input": (GREY, ":"), "cutmix": (ORANGE, "--"), "puzzlemix": (BLUE, "-.")}
    for name, (colour, line) in styles.items():
        level = _mean(methods, "diversity", method=name)
        ax.axhline(level, color=colour, ls=line, lw=1.5, label=COLUMNS[name])
    _label(ax, "(d) Diversity", "tau", "1 - overlap of outputs", "lower left")


def run_time_figure(rows: Sequence[Row]) -> Figure:
    """Returns the run time over |L| and over m, ours and the paper's, in milliseconds."""
    labels = {"|L|": "|L|, values of a mask (m = 20)", "m": "m, inputs (|L| = 3)"}
    with style.context("default"):
        figure = Figure((9, 3.6), facecolor="white", layout="constrained")
        for ax, (axis, label) in zip(figure.subplots(1, 2), labels.items(), strict=True):
            times = _run_times(rows, axis)
            paper, ours = zip(*times.values(), strict=True)
            ax.plot(list(times), ours, color=BLUE, marker="o", label="ours")
            unit = "paper, in its own unit"
            ax.plot(list(times), paper, color=GREY, marker="D", ls="--", label=unit)
            ax.grid(color="#dddddd", lw=0.6)
            ax.set_axisbelow(True)
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(labelsize=9)
            ax.legend(frameon=False, fontsize=9)
            ax.set_ylim(bottom=0)
            ax.set_xlabel(label, fontsize=10)
            ax.set_ylabel("mean time, ms", fontsize=10)
            ax.set_xticks(list(times))
    return figure


TABLES: Mapping[str, Callable[[Sequence[Row]], str]] = {
    "exhaustive": _exhaustive_table,
    "narasimhan-bilmes": _narasimhan_bilmes_table,
    "convergence": _convergence_table,
    "run-time": _run_time_table,
    "compatibility": _compatibility_table,
}
FIGURES: Mapping[str, Callable[[Sequence[Row]], Figure]] = {
    "mixed-batches": mixed_batches_figure,
    "photographs": mixed_batches_figure,
    "run-time": run_time_figure,
}
"""By item: what makes a table or a figure of its rows."""
