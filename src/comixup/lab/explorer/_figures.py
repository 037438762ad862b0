"""The page's figures, as HTML with the picture inside: nothing is written to a disk."""

from __future__ import annotations

import base64
import html
import io

import numpy as np
import torch
from matplotlib import colormaps, style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from comixup import Mixed, plot_batch
from comixup.lab.explorer._explore import Result
from comixup.lab.explorer._images import Batch
from comixup.plots import COLOURS, Box, Page, plot_tracked

DPI = 90
MAX_SHOWN = 20
_BESIDE = 5
"""Outputs of each other method that are shown."""
_TERMS = ("unary", "smoothness", "prior", "penalty", "total")
_MARKERS = ("o", "s", "^", "D", "*")
_BLUE, _GREY = COLOURS[0], "#555555"


def inputs_html(result: Result) -> str:
    """Returns the inputs with their saliency, before augmentation too if there is any."""
    batch = result.batch
    figure = _part_of(batch, result.mixed, "inputs", MAX_SHOWN)
    shown = image_html(figure, f"{len(batch.images)} inputs, their saliency below them")
    if result.settings.augment == "none":
        return shown
    tracked = plot_tracked(
        result.whole.images[:MAX_SHOWN],
        result.whole_saliency[:MAX_SHOWN],
        batch.images[:MAX_SHOWN],
        result.saliency[:MAX_SHOWN],
    )
    return shown + image_html(tracked, "Images before and after augmentation, with saliency")


def outputs_html(batch: Batch, mixed: Mixed, name: str, count: int = MAX_SHOWN) -> str:
    """Returns the outputs of a method with borders and target bars."""
    figure = _part_of(batch, mixed, "outputs", count)
    return image_html(figure, f"Outputs of {name} with the borders of their cells and targets")


def _part_of(batch: Batch, mixed: Mixed, part: str, count: int) -> Figure:
    return plot_batch(
        batch.images,
        batch.targets,
        mixed,
        class_names=batch.class_names,
        tint=batch.tint,
        parts=[part],
        max_inputs=count,
        max_outputs=count,
    )


def baselines_html(result: Result) -> str:
    """Returns some outputs of each of the other methods."""
    return "".join(
        f"<h4>{html.escape(name)}</h4>{outputs_html(batch, mixed, name, _BESIDE)}"
        for name, (batch, mixed) in result.baselines.items()
    )


def why_html(result: Result) -> str:
    """Returns the compatibility matrix, the objective by sweep and the inputs per output."""
    return image_html(
        why_figure(result),
        "Compatibility matrix, terms of the objective sweep by sweep, inputs per output",
    )


def why_figure(result: Result) -> Figure:
    """Returns the figure of what the solver was given, what it did, and what came of it."""
    with style.context("default"):
        # At fixed places: matplotlib's own layout takes as long as all the drawing.
        page = Page(11, 3.3)
        matrix = page.axes(Box(0.65, 0.55, 2.15, 2.15))
        scale = page.axes(Box(2.9, 0.55, 0.12, 2.15))
        _draw_compatibility(matrix, scale, result)
        _draw_terms(page.axes(Box(4.25, 0.4, 2.6, 2.3)), result)
        _draw_inputs_per_output(page.axes(Box(8.75, 0.4, 2.0, 2.3)), result)
    return page.figure


def numbers_html(result: Result) -> str:
    """Returns the result in one line of numbers."""
    used = result.inputs_per_output
    mean, total = float(used.double().mean()), result.terms[-1].total
    partitions = len(result.mixed.problems)
    words = (
        f"<b>{mean:.1f} inputs per output</b> on average &nbsp;·&nbsp; objective {total:.3f} "
        f"&nbsp;·&nbsp; solved in <b>{result.solve_milliseconds:.2f} ms</b> on one thread "
        f"({partitions} partition{'s' if partitions > 1 else ''}) &nbsp;·&nbsp; saliency: "
        f"{html.escape(result.settings.saliency)}"
    )
    if result.mixed.uniform_maps:
        words += f" &nbsp;·&nbsp; nothing stands out in {result.mixed.uniform_maps} of the images"
    return f'<p id="numbers" data-mean-inputs="{mean:.3f}">{words}</p>'


def image_html(figure: Figure, description: str) -> str:
    """Returns a figure as an HTML image with its pixels inside."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, pil_kwargs={"compress_level": 1})
    pixels = base64.b64encode(buffer.getvalue()).decode("ascii")
    return (
        f'<img class="figure" src="data:image/png;base64,{pixels}" '
        f'alt="{html.escape(description, quote=True)}">'
    )


def _draw_compatibility(ax: Axes, scale: Axes, result: Result) -> None:
    """Draws A without its diagonal, which would leave no colour to the rest."""
    matrix = result.compatibility.clone()
    own = float(matrix.diagonal().mean())
    matrix.fill_diagonal_(torch.nan)
    shown = np.ma.masked_invalid(matrix.numpy())
    highest = float(shown.max()) if shown.count() else 0.0
    shades = colormaps["cividis"].with_extremes(bad="#e8e8e8")
    picture = ax.imshow(shown, cmap=shades, vmin=0, vmax=highest or 1.0)
    ax.figure.colorbar(picture, cax=scale, format="%.2g")
    ax.set_title(f"Compatibility matrix A\n(diagonal, not drawn: {own:.3g})", fontsize=10)
    ax.set_xlabel("input")
    ax.set_ylabel("input")
    ticks = range(0, len(matrix), max(1, len(matrix) // 5))
    ax.set(xticks=ticks, yticks=ticks)
    ax.set_xticklabels([str(tick + 1) for tick in ticks])
    ax.set_yticklabels([str(tick + 1) for tick in ticks])


def _draw_terms(ax: Axes, result: Result) -> None:
    """Draws every term after each sweep; the penalty is what tau lets through."""
    sweeps = range(1, len(result.terms) + 1)
    for name, marker, colour in zip(_TERMS, _MARKERS, (*COLOURS[:4], "black"), strict=True):
        values = [
            t.total - t.unary - t.smoothness - t.prior if name == "penalty" else getattr(t, name)
            for t in result.terms
        ]
        width = 2.2 if name == "total" else 1.3
        ax.plot(sweeps, values, marker=marker, color=colour, lw=width, ms=5, label=name)
    ax.axhline(0, color="#cccccc", lw=0.8, zorder=0)
    ax.set_title("Objective, Eq. (1), after each sweep", fontsize=10)
    ax.set_xlabel("sweep (the last also separates duplicates)")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    ax.spines[["top", "right"]].set_visible(False)


def _draw_inputs_per_output(ax: Axes, result: Result) -> None:
    counts = torch.bincount(result.inputs_per_output)[1:]
    numbers = range(1, len(counts) + 1)
    bars = ax.bar(numbers, counts.tolist(), color=_BLUE)
    ax.bar_label(bars, labels=[str(n) if n else "" for n in counts.tolist()], fontsize=9)
    ax.set_title("Inputs per output", fontsize=10)
    ax.set_xlabel("inputs in an output")
    ax.set_ylabel("outputs")
    ax.set_xticks(numbers)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.margins(y=0.12)
    ax.spines[["top", "right"]].set_visible(False)
