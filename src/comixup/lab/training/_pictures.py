"""Pictures of a run: its learning curves, and batches as it mixes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from torch import Tensor

from comixup import Plan, plot_batch
from comixup._figures import BLUE, GREEN, RED, write_figure
from comixup.lab.data import DataSet, Loader
from comixup.mixers import Mixed

GREY = "#555555"
LINES = {
    "train": ("training", BLUE, "--"),
    "validation": ("validation", GREEN, ":"),
    "test": ("test", RED, "-"),
}
"""Name, colour and dashes of each split: colours that colour-blind readers tell apart."""
LOG_RATIO = 30.0
"""Losses, or learning rates, that differ by more than this are drawn on a logarithmic axis."""
LOSS_NOTE = "The training loss is of the images trained on: mixed ones, if the method mixes."


def curves_figure(history: Sequence[Mapping[str, float]], title: str) -> Figure:
    """Returns a figure of errors, losses and the learning rate over the epochs.

    Args:
        history: a row for each epoch with its number under "epoch" and any of "train_error",
            "validation_error" and "test_error", in per cent, "train_loss", "validation_loss",
            "test_loss" and "lr". Other keys are left out, and so are gaps and values that are not
            finite.
        title: what run this is.

    >>> rows = [{"epoch": 1, "test_error": 80.0, "lr": 0.2}, {"epoch": 2, "test_error": 70.0}]
    >>> [axes.get_ylabel() for axes in curves_figure(rows, "A short run").axes]
    ['error, %', 'learning rate']
    """
    if not history:
        raise ValueError("`history` must have a row for each epoch, got none. Train one first.")
    units = {"error": "error, %", "loss": "loss", "lr": "learning rate"}
    names = {kind: [f"{split}_{kind}" for split in LINES] for kind in ("error", "loss")}
    names["lr"] = ["lr"]
    drawn = {
        kind: {name: points for name in keys if (points := _points(history, name))}
        for kind, keys in names.items()
    }
    kinds = [kind for kind, lines in drawn.items() if lines]
    if not kinds:
        raise ValueError(
            "`history` must have finite numbers under keys such as 'test_error' or 'train_loss', "
            f"got rows with {sorted(history[0])}."
        )
    heights = [1.0 if kind == "lr" else 3.0 for kind in kinds]
    with style.context("default"):
        figure = Figure((8, 1.1 + 0.95 * sum(heights)), facecolor="white", layout="constrained")
        figure.suptitle(title, weight="bold", parse_math=False, wrap=True)
        panels = figure.subplots(
            len(kinds), 1, sharex=True, squeeze=False, height_ratios=heights
        ).flat
        for kind, ax in zip(kinds, panels, strict=True):
            if kind == "lr":
                epochs, rates = zip(*drawn[kind]["lr"], strict=True)
                # Half an epoch to either side, so that one epoch is a line too.
                edges = [epochs[0] - 0.5, *(epoch + 0.5 for epoch in epochs)]
                ax.step(edges, [rates[0], *rates], where="pre", color=GREY, lw=1.2)
                if _spread_out(rates):
                    _make_logarithmic(ax, (1.0,))
                else:
                    _begin_at_zero(ax, rates)
            else:
                _draw_lines(ax, drawn[kind], "{:.2f} %" if kind == "error" else "{:.3g}")
            if kind == "loss" and "train_loss" in drawn[kind]:
                ax.set_title(LOSS_NOTE, fontsize=8.5, color=GREY, loc="left")
            scale = " (log scale)" if kind == "loss" and ax.get_yscale() == "log" else ""
            ax.set_ylabel(units[kind] + scale)
            ax.grid(color="#dddddd", lw=0.6)
            ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlabel("epoch")
        ax.set_xlim(history[0]["epoch"] - 0.5, history[-1]["epoch"] + 0.5)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        figure.align_ylabels()
    return figure


def _points(history: Sequence[Mapping[str, float]], name: str) -> list[tuple[float, float]]:
    """Returns (epoch, value) wherever there is a finite value."""
    return [
        (row["epoch"], row[name])
        for row in history
        if row.get(name) is not None and math.isfinite(row[name])
    ]


def _draw_lines(ax: Axes, lines: Mapping[str, Sequence[tuple[float, float]]], words: str) -> None:
    """Draws curves of one kind, each named with its last value."""
    for name, points in lines.items():
        split, colour, dashes = LINES[name.split("_")[0]]
        epochs, heights = zip(*points, strict=True)
        last = f"{split}: {words.format(heights[-1])} at the end"
        marker = "o" if len(points) == 1 else ""  # one point is no line
        ax.plot(epochs, heights, color=colour, ls=dashes, lw=1.8, marker=marker, label=last)
    values = [value for points in lines.values() for _, value in points]
    if _spread_out(values) and "%" not in words:
        _make_logarithmic(ax, (1.0, 2.0, 5.0))
    else:
        _begin_at_zero(ax, values)
    ax.legend(frameon=False, loc="best", fontsize=9)


def _begin_at_zero(ax: Axes, values: Sequence[float]) -> None:
    """Lets the values' axis begin at zero, with some room above."""
    low, high = min(0.0, *values), max(0.0, *values)
    ax.set_ylim(low, high + (0.08 * (high - low) or 1.0))


def _spread_out(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) > LOG_RATIO * min(values)


def _make_logarithmic(ax: Axes, steps: Sequence[float]) -> None:
    """Makes the values' axis logarithmic, with plain numbers at these steps of every decade."""
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=steps))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


MAX_INPUTS = 10
WHOLE = 0.95
"""Fraction of one input from which on an output counts as that input."""


def draw_mixed_batch(
    path: Path, last: Mixed, data: DataSet, loader: Loader, when: tuple[int, int], title: str
) -> dict[str, Tensor]:
    """Draws a batch that was trained on; returns its pictures for TensorBoard.

    Args:
        path: where to.
        last: what the mixer made of it, of its last micro-batch.
        data: for the images' colours and the classes' names.
        loader: loads its images again.
        when: the epoch, and the steps of it that were done then.
        title: of the run.
    """
    epoch, step = when
    images, targets = next(iter(loader.epoch(epoch, step - 1)))
    count = last.plan.source_ratio().shape[1]  # of the micro-batch, which is the end of the share
    images, targets = images[-count:].cpu(), targets[-count:].cpu()
    pixels = data.pixels(images)
    figure = plot_batch(
        pixels,
        targets,
        last,
        class_names=data.classes,
        title=f"{title}, epoch {epoch + 1}",
        max_inputs=MAX_INPUTS,
    )
    write_figure(figure, path)
    # Mixed inside the network the images themselves are whole.
    outputs = pixels if last.layer is not None else last.plan.mix_images(pixels)
    pictures = {"inputs": pixels, "outputs": outputs}
    if last.cells is not None:
        pictures["saliency"] = _shaded(pixels, last.cells)
    return {f"{path.stem}/{name}": _in_range(batch) for name, batch in pictures.items()}


def _shaded(pixels: Tensor, cells: Tensor) -> Tensor:
    """Returns images as bright as their cells are salient; the most salient cell stays as it is."""
    highest = cells.flatten(1).amax(1).clamp_min(torch.finfo(cells.dtype).tiny)
    brightness = (cells / highest.view(-1, *[1] * (cells.ndim - 1))).unsqueeze(1)
    return _in_range(pixels) * F.interpolate(brightness.float(), pixels.shape[2:])


def _in_range(pixels: Tensor) -> Tensor:
    """Returns images in [0, 1]: spectrograms, which have no colours, by their own range."""
    low, high = pixels.aminmax()
    return pixels if low >= 0 and high <= 1 else (pixels - low) / (high - low)


def is_mixture(plan: Plan) -> bool:
    """Whether most outputs of a plan have more than one input in them."""
    largest = plan.source_ratio().amax(1)
    return bool((largest < WHOLE).float().mean() > 0.5)
