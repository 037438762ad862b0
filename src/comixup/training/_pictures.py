"""Figures of a run: its learning curves and its first mixed batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from torch import Tensor

from comixup._plots import shortened, write_figure

GREY = "#555555"
MAX_TALL = 1.3
"""Height of the images on the page, in widths of a column, at most."""
LINES = {
    "train": ("training", "#0072B2", "--"),
    "validation": ("validation", "#009E73", ":"),
    "test": ("test", "#D55E00", "-"),
}
"""Name, colour and dashes of each split: colours that colour-blind readers tell apart."""
LOG_RATIO = 30.0
"""Losses, or learning rates, that differ by more than this are drawn on a logarithmic axis."""
LOSS_NOTE = "The training loss is of the images trained on: mixed ones, if the method mixes."
MAX_MIXED, MAX_CLEAN, COLUMNS = 20, 10, 5
MIN_WEIGHT = 0.05
"""Classes with a smaller weight in a target are not named."""
MAX_NAME, MAX_LINE, MAX_LINES = 14, 28, 3
"""Letters of a class's name, letters of a caption's line, and lines of a caption."""
WIDTH, MARGIN, GAP = 11.0, 0.3, 0.16
HEAD, SECTION, CAPTION, LINE = 0.6, 0.3, 0.22, 0.155
"""Inches: of the title, of a section's heading, and below an image without and for each line."""


def draw_curves(history: Sequence[Mapping[str, float]], path: Path, title: str) -> None:
    """Writes the training curves of a run to a PNG file atomically; see `curves_figure`."""
    write_figure(curves_figure(history, title), path)


def draw_batch(
    images: Tensor,
    mixed: Tensor,
    targets: Tensor,
    classes: Sequence[str],
    path: Path,
    title: str,
) -> None:
    """Writes a picture of a mixed batch to a PNG file atomically; see `batch_figure`."""
    write_figure(batch_figure(images, mixed, targets, classes, title), path)


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


def batch_figure(
    images: Tensor, mixed: Tensor, targets: Tensor, classes: Sequence[str], title: str
) -> Figure:
    """Returns a figure of clean images and, below them, mixed ones with their targets in words.

    Args:
        images: (m, C, H, W), clean: three channels in [0, 1], or one channel of any range, which
            is drawn in false colours over the range of the images shown.
        mixed: (m', C, H, W), what the images became.
        targets: (m', classes) class weights of the mixed images.
        classes: the name of each class.
        title: what run this is.

    >>> import torch
    >>> images = torch.rand(4, 3, 8, 8)
    >>> figure = batch_figure(images, images, torch.eye(4), ["ant", "bee", "cat", "dog"], "A run")
    >>> len(figure.axes)
    8
    """
    _check_batch(images, mixed, targets, classes)
    clean = images[:MAX_CLEAN].detach().float().cpu()
    mixed = mixed[:MAX_MIXED].detach().float().cpu()
    captions = [caption(target, classes) for target in targets[:MAX_MIXED].detach().cpu()]
    with style.context("default"):
        page = _Page(clean, mixed, captions)
        page.say(0.14, title, 15, "bold")
        page.say(HEAD, f"Clean images ({len(clean)} of {len(images)})", 11, "bold")
        page.say(
            page.second,
            f"What the model is trained on ({len(mixed)} of {len(targets)})",
            11,
            "bold",
        )
        told = f"Below each image its target: the class weights of {MIN_WEIGHT:g} or more."
        page.say(page.second + 0.02, told, 10, "normal", left=MARGIN + 4.0)
        return page.figure


def caption(target: Tensor, classes: Sequence[str]) -> str:
    """Returns a soft target in words, the largest weight first, in a few lines.

    >>> import torch
    >>> caption(torch.tensor([0.38, 0.0, 0.62]), ["maple_tree", "oak_tree", "fox"])
    '0.62 fox + 0.38 maple tree'
    """
    order = target.argsort(descending=True, stable=True).tolist()
    named = [index for index in order if target[index] >= MIN_WEIGHT]
    parts = [f"{target[index]:.2f} {_short(classes[index])}" for index in named]
    lines = [parts[0]] if parts else [f"no class has {MIN_WEIGHT:g}"]
    for left, part in zip(range(len(parts) - 1, 0, -1), parts[1:], strict=True):
        # A line must have room for what may have to follow the part.
        tail = "" if left == 1 else " +" if len(lines) < MAX_LINES else f" + {left - 1} more"
        if len(lines[-1]) + len(" + ") + len(part) + len(tail) <= MAX_LINE:
            lines[-1] += f" + {part}"
        elif len(lines) < MAX_LINES:
            lines[-1] += " +"
            lines.append(part)
        else:
            lines[-1] += f" + {left} more"
            break
    return "\n".join(lines)


def _short(name: str) -> str:
    return shortened(name.replace("_", " "), MAX_NAME)


class _Page:
    """The figure of a batch, laid out in inches from its top left corner."""

    def __init__(self, clean: Tensor, mixed: Tensor, captions: Sequence[str]) -> None:
        tall = clean.shape[2] / clean.shape[3]
        small, large = ((WIDTH - 2 * MARGIN) / count for count in (MAX_CLEAN, COLUMNS))
        # Tall images get narrower, so that a batch of them stays on one screen.
        narrow = min(1.0, MAX_TALL / tall)
        self.second = HEAD + SECTION + narrow * (small - GAP / 2) * tall + 0.2
        tops = [self.second + SECTION]
        for start in range(0, len(mixed), COLUMNS):
            lines = max(text.count("\n") + 1 for text in captions[start : start + COLUMNS])
            tops.append(tops[-1] + narrow * (large - GAP) * tall + CAPTION + LINE * lines)
        self.height = tops[-1]
        self.figure = Figure((WIDTH, self.height), facecolor="white")
        self.bounds = (float(clean.min()), float(clean.max()))
        for i, image in enumerate(clean):
            self.show(image, MARGIN + i * small, HEAD + SECTION, narrow * (small - GAP / 2))
        for j, (image, text) in enumerate(zip(mixed, captions, strict=True)):
            row, column = divmod(j, COLUMNS)
            ax = self.show(image, MARGIN + column * large, tops[row], narrow * (large - GAP))
            ax.set_xlabel(text, fontsize=9, loc="left", labelpad=3, parse_math=False)

    def show(self, image: Tensor, left: float, top: float, width: float) -> Axes:
        """Returns axes with an image at a position."""
        _, rows, columns = image.shape
        height = width * rows / columns
        low = 1 - (top + height) / self.height
        box = (left / WIDTH, low, width / WIDTH, height / self.height)
        ax = self.figure.add_axes(box, xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        if len(image) == 1:
            darkest, brightest = self.bounds
            ax.imshow(image[0].numpy(), cmap="viridis", vmin=darkest, vmax=brightest)
        else:
            ax.imshow(image.clamp(0, 1).permute(1, 2, 0).numpy())
        return ax

    def say(self, top: float, text: str, size: int, weight: str, *, left: float = MARGIN) -> None:
        """Writes a line of text."""
        place = left / WIDTH, 1 - top / self.height
        colour = "black" if weight == "bold" else GREY
        self.figure.text(
            *place, text, va="top", fontsize=size, weight=weight, color=colour, parse_math=False
        )


def _check_batch(images: Tensor, mixed: Tensor, targets: Tensor, classes: Sequence[str]) -> None:
    for name, batch in (("images", images), ("mixed", mixed)):
        if batch.ndim != 4 or batch.shape[1] not in (1, 3) or batch.numel() == 0:
            raise ValueError(
                f"`{name}` must have shape (batch, 1 or 3, height, width) and none empty, got "
                f"{tuple(batch.shape)}. Draw a slice of it that has."
            )
    if mixed.shape[1:] != images.shape[1:]:
        raise ValueError(
            f"`mixed` must have images of the size of `images`, {tuple(images.shape[1:])}, got "
            f"{tuple(mixed.shape[1:])}."
        )
    if targets.shape != (len(mixed), len(classes)):
        raise ValueError(
            f"`targets` must have shape ({len(mixed)}, {len(classes)}), a weight of each of the "
            f"`classes` for each mixed image, got {tuple(targets.shape)}."
        )
