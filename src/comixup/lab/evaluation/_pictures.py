"""Figures of localization, of corrupted backgrounds, of activation maps, and of calibration."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from torch import Tensor

from comixup._figures import shortened, write_figure
from comixup.lab._calibration import Bin
from comixup.lab._runs import RunRecord
from comixup.lab.data import DataSet
from comixup.lab.evaluation._boxes import box_areas, with_background
from comixup.lab.evaluation._cam import ActivationMaps
from comixup.lab.evaluation._corruption import CORRUPTIONS, CorruptedLoader
from comixup.lab.evaluation._localization import Localization, upsampled
from comixup.lab.evaluation._metrics import wilson_interval

TRUE, FOUND = "#E69F00", "#56B4E9"
"""Colours of true boxes and found ones: told apart by those who see few colours too."""
_DASHES = {TRUE: "-", FOUND: "--"}
SHOWN = 6
"""Images in a row."""
SIDE, WORDS, HEAD = 1.85, 0.3, 0.75
"""Inches: of an image, of the words above or below a row, and of the title with the legend."""
MIN_COLUMNS = 4
"""Images that a page has the width of, at least, so that its title fits."""
MAX_NAME = 20
"""Letters of a class's name."""
OPACITY = 0.5
"""Of maps over images."""
_WORDS = {
    "replace": "Background replaced by another image's",
    "noise": "Background replaced by noise, as the paper's formula has it",
    "added-noise": "Noise added to the background, as the paper's text has it",
}


def draw_localization(
    maps_of: ActivationMaps,
    data: DataSet,
    boxes: Tensor,
    found: Localization,
    path: Path,
    title: str,
    image_size: int | None = None,
) -> None:
    """Writes a PNG file with the test images whose objects were found best and worst.

    Below each image is its map; found and true boxes are drawn on both. The title is what model
    this is; the other arguments are those of `localize`, and what it returned.
    """
    order = found.ious.argsort(descending=True, stable=True)
    count = min(SHOWN, (len(order) + 1) // 2)
    chosen = torch.cat((order[:count], order.flip(0)[: min(count, len(order) - count)]))
    indices, device = found.indices[chosen], next(maps_of.model.parameters()).device
    loader = data.test.subset(indices).loader(len(indices), image_size=image_size, device=device)
    images, targets = next(loader.epoch(0))
    maps, logits = maps_of(images, targets)
    heat = upsampled(maps, (images.shape[2], images.shape[3])).cpu()
    captions = [
        f"{_short(data.classes[target])}, IoU {iou:.2f}\n{_verdict(data.classes, target, guess)}"
        for target, guess, iou in zip(
            targets.tolist(), logits.argmax(1).tolist(), found.ious[chosen].tolist(), strict=True
        )
    ]
    pixels, outlines = data.pixels(images), {TRUE: boxes[indices], FOUND: found.boxes[chosen, None]}
    rows = []
    for words, numbers in (("Best", slice(count)), ("Worst", slice(count, None))):
        own = {colour: of_all[numbers] for colour, of_all in outlines.items()}
        if len(chosen[numbers]):
            rows.append(Row(f"{words} by IoU", pixels[numbers], own))
            rows.append(Row("", pixels[numbers], own, heat[numbers], captions[numbers]))
    title += f": GT-known Loc {found.gt_known:.1f} %, Top-1 Loc {found.top1_loc:.1f} %"
    words = "box found in the map of the true class, which is bright where it is high"
    write_figure(rows_figure(title, {TRUE: "true box", FOUND: words}, rows), path)


def draw_corruptions(
    data: DataSet, boxes: Tensor, path: Path, *, seed: int = 0, image_size: int | None = None
) -> None:
    """Writes a PNG file with test images of a data set, clean and under every corruption.

    They are evenly spread, of those that have a background. Backgrounds come from one another: with
    boxes as large as the images there is nothing to draw, and no file.
    """
    size = (image_size, image_size) if image_size else data.shape[1:]
    fitting = with_background(boxes, size).nonzero()[:, 0]
    if len(fitting) < 2:
        return
    indices = fitting[torch.linspace(0, len(fitting) - 1, min(SHOWN, len(fitting))).long()]
    chosen, own, count = data.test.subset(indices), boxes[indices], len(indices)
    clean, _ = next(chosen.loader(count, image_size=image_size).epoch(0))
    rows = [Row("Clean", data.pixels(clean), {TRUE: own})]
    for kind in CORRUPTIONS:
        loader = CorruptedLoader(data, chosen, own, kind, count, seed=seed, image_size=image_size)
        rows.append(Row(_WORDS[kind], data.pixels(next(loader.epoch())[0]), {TRUE: own}))
    title, legend = f"Background corruption of {data.name}", "box: what is inside stays as it is"
    write_figure(rows_figure(title, {TRUE: legend}, rows), path)


@dataclass(frozen=True, eq=False)
class Row:
    """Images side by side.

    Attributes:
        heading: above them; empty for a row that belongs to the one above.
        pixels: (n, 1 or 3, H, W) in [0, 1].
        boxes: (n, k, 4) by their colour.
        heat: (n, H, W) maps from 0 to 1 over the images.
        captions: below them, of up to two lines each.
    """

    heading: str
    pixels: Tensor
    boxes: Mapping[str, Tensor]
    heat: Tensor | None = None
    captions: Sequence[str] = ()


def rows_figure(title: str, legend: Mapping[str, str], rows: Sequence[Row]) -> Figure:
    """Returns a figure of rows of images with boxes; the legend tells what each colour is."""
    shape = rows[0].pixels.shape
    columns = max(MIN_COLUMNS, *(len(row.pixels) for row in rows))
    tall = SIDE * shape[2] / shape[3] + WORDS
    with style.context("default"):
        size = (columns * SIDE, HEAD + len(rows) * tall)
        figure = Figure(size, facecolor="white", layout="constrained")
        figure.suptitle(title, fontsize=12, weight="bold", parse_math=False)
        lines = [Line2D([], [], color=colour, ls=_DASHES[colour], lw=2) for colour in legend]
        figure.legend(lines, list(legend.values()), loc="outside lower left", ncols=2, fontsize=9)
        for row, part in zip(rows, figure.subfigures(len(rows), squeeze=False)[:, 0], strict=True):
            if row.heading:
                part.suptitle(row.heading, x=0.01, ha="left", fontsize=10, weight="bold")
            line = part.subplots(1, columns, squeeze=False)[0]
            for empty in line[len(row.pixels) :]:
                empty.remove()
            for number, (ax, image) in enumerate(zip(line, row.pixels, strict=False)):
                ax.set(xticks=[], yticks=[])
                ax.spines[:].set_visible(False)
                shown = image.detach().float().cpu().clamp(0, 1).expand(3, -1, -1)  # grey has one
                ax.imshow(shown.permute(1, 2, 0).numpy())
                if row.heat is not None:
                    ax.imshow(row.heat[number].numpy(), cmap="magma", alpha=OPACITY)
                if row.captions:
                    ax.set_xlabel(row.captions[number], fontsize=8, labelpad=3, parse_math=False)
                for colour, boxes in row.boxes.items():
                    _draw_boxes(ax, boxes[number], colour)
    return figure


def _draw_boxes(ax: Axes, boxes: Tensor, colour: str) -> None:
    """Draws boxes along the outer edges of their pixels; those without pixels are left out."""
    for x0, y0, x1, y1 in boxes[box_areas(boxes) > 0].tolist():
        # The middle of the first pixel is at 0.
        corner = (x0 - 0.5, y0 - 0.5)
        dashes = _DASHES[colour]
        box = Rectangle(corner, x1 - x0, y1 - y0, fill=False, ec=colour, ls=dashes, lw=1.8)
        ax.add_patch(box).set_clip_on(False)  # or half of the line along a border would be lost


def _verdict(classes: Sequence[str], target: int, guess: int) -> str:
    return "predicted correctly" if guess == target else f"predicted {_short(classes[guess])}"


def _short(name: str) -> str:
    return shortened(name.replace("_", " "), MAX_NAME)


# ---- Reliability diagrams, in the paper's style --------------------------------------------------

RELIABILITY_DPI = 150
PANEL, LABELS = 1.75, 0.45
"""Inches: a panel's side with the gap to the next, and what the axes' labels take."""
TITLE_LETTERS = 24
PANELS = 6
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
        rows = -(-len(panels) // PANELS)
        columns = -(-len(panels) // rows)
        size = (LABELS + PANEL * columns, LABELS + (PANEL + LABELS) * rows - LABELS)
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
    write_figure(reliability_figure(panels), path, RELIABILITY_DPI)


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
