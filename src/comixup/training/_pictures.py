"""Pictures of a run, for people who would rather look: its curves and its first mixed batch."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from torch import Tensor

from comixup.training._files import write_whole

DPI = 110
GREY = "#555555"
LINES = {
    "train": ("training", "#0072B2", (0, (4, 1.5))),
    "validation": ("validation", "#009E73", (0, (1, 1))),
    "test": ("test", "#D55E00", "solid"),
}
"""Name, colour and dashes of each part of the data: told apart by those who see few colours too."""
LOG_RATIO = 30.0
"""Losses that differ by more than this are drawn on a logarithmic axis."""
MAX_MIXED, MAX_CLEAN, COLUMNS = 20, 10, 5
MIN_SHARE = 0.05
"""Classes with a smaller share of a target are not named."""
MAX_NAME, MAX_LINE, MAX_LINES = 16, 30, 3
"""Letters of a class's name, letters of a caption's line, and lines of a caption."""
WIDTH, MARGIN, GAP = 11.0, 0.3, 0.16
HEAD, SECTION, CAPTION = 0.62, 0.42, 0.62
"""Inches: of the title, of a section's heading, and of the text below an image."""


def draw_curves(history: Sequence[Mapping[str, float]], path: Path, title: str) -> None:
    """Writes the training curves of a run to a PNG file, in one move; see `curves_figure`."""
    _write(curves_figure(history, title), path)


def draw_batch(
    images: Tensor,
    mixed: Tensor,
    targets: Tensor,
    classes: Sequence[str],
    path: Path,
    title: str,
) -> None:
    """Writes a picture of a mixed batch to a PNG file, in one move; see `batch_figure`."""
    _write(batch_figure(images, mixed, targets, classes, title), path)


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
    names = {kind: [f"{part}_{kind}" for part in LINES] for kind in ("error", "loss")}
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
                ax.step(epochs, rates, where="mid", color=GREY, lw=1.2)
            else:
                _draw_lines(ax, drawn[kind], " %" if kind == "error" else "")
            ax.set_ylabel(units[kind])
            ax.grid(color="#dddddd", lw=0.6)
            ax.spines[["top", "right"]].set_visible(False)
            ax.margins(x=0.02)
        ax.set_xlabel("epoch")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.align_ylabels()
    return figure


def _points(history: Sequence[Mapping[str, float]], name: str) -> list[tuple[float, float]]:
    """Returns (epoch, value) wherever there is a finite value."""
    return [
        (row["epoch"], row[name])
        for row in history
        if row.get(name) is not None and math.isfinite(row[name])
    ]


def _draw_lines(ax: Axes, lines: Mapping[str, Sequence[tuple[float, float]]], unit: str) -> None:
    """Draws curves of one kind, each named with its last value."""
    values = [value for points in lines.values() for _, value in points]
    for name, points in lines.items():
        part, colour, dashes = LINES[name.split("_")[0]]
        epochs, heights = zip(*points, strict=True)
        last = f"{part}: {heights[-1]:.4g}{unit} at the end"
        marker = "o" if len(points) == 1 else ""  # one point is no line
        ax.plot(epochs, heights, color=colour, ls=dashes, lw=1.8, marker=marker, label=last)
    if min(values) > 0 and max(values) > LOG_RATIO * min(values) and not unit:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_ylim(bottom=min(0, *values))
    ax.legend(frameon=False, loc="best", fontsize=9)


def batch_figure(
    images: Tensor, mixed: Tensor, targets: Tensor, classes: Sequence[str], title: str
) -> Figure:
    """Returns a figure of clean images and, below them, mixed ones with their targets in words.

    Args:
        images: (m, C, H, W), clean: three channels in [0, 1], or one channel of any range, which
            is drawn in false colours over the range of the images shown.
        mixed: (m', C, H, W), what the images became.
        targets: (m', classes) shares of the mixed images' classes.
        classes: the name of each class.
        title: what run this is.

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
        return _Page(clean, mixed, captions, title).figure


def caption(target: Tensor, classes: Sequence[str]) -> str:
    """Returns a soft target in words, the largest share first, in a few lines.

    >>> caption(torch.tensor([0.38, 0.0, 0.62]), ["maple_tree", "oak_tree", "fox"])
    '0.62 fox + 0.38 maple tree'
    """
    order = target.argsort(descending=True, stable=True).tolist()
    named = [index for index in order if target[index] >= MIN_SHARE]
    parts = [f"{target[index]:.2f} {_short(classes[index])}" for index in named]
    lines = [parts[0]] if parts else [f"no class has {MIN_SHARE:g}"]
    for count, part in enumerate(parts[1:], start=1):
        if len(lines[-1]) + len(" + ") + len(part) <= MAX_LINE:
            lines[-1] += f" + {part}"
        elif len(lines) < MAX_LINES:
            lines[-1] += " +"
            lines.append(part)
        else:
            lines[-1] += f" + {len(parts) - count} more"
            break
    return "\n".join(lines)


def _short(name: str) -> str:
    name = name.replace("_", " ")
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1].rstrip()}…"


class _Page:
    """The figure of a batch, laid out in inches from its top left corner."""

    def __init__(self, clean: Tensor, mixed: Tensor, captions: Sequence[str], title: str) -> None:
        tall = clean.shape[2] / clean.shape[3]
        # Tall images get narrower, so that a batch of them stays on one screen.
        small = min(1.0, 1.3 / tall) * (WIDTH - 2 * MARGIN) / MAX_CLEAN
        wide = (WIDTH - 2 * MARGIN) / COLUMNS
        large = min(1.0, 1.3 / tall) * (wide - GAP)
        rows = -(-len(mixed) // COLUMNS)
        lines = max(text.count("\n") + 1 for text in captions)
        below = CAPTION * (lines + 0.7) / MAX_LINES
        second = HEAD + SECTION + small * tall + GAP
        self.height = second + SECTION + rows * (large * tall + below) + 0.1
        self.figure = Figure((WIDTH, self.height), facecolor="white")
        self.bounds = (float(clean.min()), float(torch.maximum(clean.max(), clean.min() + 1e-6)))

        self.say(0.14, title, 15, "bold")
        self.say(HEAD, "Clean images of the batch", 11, "bold")
        for i, image in enumerate(clean):
            self.show(image, MARGIN + i * (WIDTH - 2 * MARGIN) / MAX_CLEAN, HEAD + SECTION, small)
        self.say(second, "What the model is trained on", 11, "bold")
        told = f"Below each: its target, the share of each class (under {MIN_SHARE:g} not named)."
        self.say(second + 0.02, told, 10, "normal", left=MARGIN + 2.6)
        for j, (image, text) in enumerate(zip(mixed, captions, strict=True)):
            top = second + SECTION + (j // COLUMNS) * (large * tall + below)
            ax = self.show(image, MARGIN + (j % COLUMNS) * wide, top, large)
            ax.set_xlabel(text, fontsize=9, loc="left", labelpad=3, parse_math=False)

    def show(self, image: Tensor, left: float, top: float, width: float) -> Axes:
        """Returns axes with an image at a place."""
        _, rows, columns = image.shape
        height = width * rows / columns
        low = 1 - (top + height) / self.height
        box = (left / WIDTH, low, (width - GAP / 2) / WIDTH, height / self.height)
        ax = self.figure.add_axes(box, xticks=[], yticks=[], anchor="NW")
        ax.spines[:].set_visible(False)
        if len(image) == 1:
            low, high = self.bounds
            ax.imshow(image[0].numpy(), cmap="viridis", vmin=low, vmax=high)
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
            f"`targets` must have shape ({len(mixed)}, {len(classes)}), a share of each of the "
            f"`classes` for each mixed image, got {tuple(targets.shape)}."
        )


def _write(figure: Figure, path: Path) -> None:
    if path.suffix != ".png":
        raise ValueError(f"`path` must end in .png, got {path}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = io.BytesIO()
    with style.context("default"):
        figure.savefig(picture, format="png", dpi=DPI)
    write_whole(path, picture.getvalue())
