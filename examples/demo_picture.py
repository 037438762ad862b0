"""Draws a mixed batch, and what training on such batches did to networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

import matplotlib as mpl
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

import comixup
from demo_training import BINS, COMIXUP, METHODS, VANILLA, Method, Result

COLOURS = (
    *("#d62b3c", "#1f6fd6", "#e07b00", "#0b9a8d", "#7b3fe4"),
    *("#b38600", "#8a4b1f", "#d02bb8", "#2f8f2f", "#5b6472"),
)
"""Of the classes 0 to 9."""
COLUMNS = 5
WIDTH, MARGIN = 12.0, 0.35  # inches
HEAD, INPUTS, MAPS, OUTPUTS = 0.95, 0.55, 0.6, 0.65  # inches of text above each part
BAR = 0.3
EFFECT, BELOW = 3.0, 0.75  # inches of the last part's diagrams, and of their axes' names
METHOD_COLOURS = dict(zip(METHODS, ("#56b4e9", "#0072b2", "#d55e00"), strict=True))
"""Of Okabe and Ito: blues and vermilion, told apart by the colour-blind too."""
METRICS = {
    "ece": "calibration error (ECE), %",
    "clutter_error": "error in clutter, %: a quarter\nof each digit is another's",
    "error": "error on digits as they are, %",
}


def draw(
    images: Tensor,
    saliency: Tensor,
    plan: comixup.Labelling,
    targets: Tensor,
    results: Mapping[Method, Sequence[Result]],
) -> Figure:
    """Returns the figure of a batch that has one digit of each class, in their order.

    Args:
        images: (10, 1, H, W), in [0, 1].
        saliency: (10, H, W).
        plan: who is where in the outputs.
        targets: (outputs, 10), the soft targets.
        results: of each method, by seed.
    """
    with mpl.rc_context({"font.size": 11, "font.family": "DejaVu Sans"}):
        page = Page(images, saliency, plan, targets)
        page.show_effect(results)
        return page.figure


class Page:
    """The figure, laid out in inches from its top left corner."""

    def __init__(
        self, images: Tensor, saliency: Tensor, plan: comixup.Labelling, targets: Tensor
    ) -> None:
        small = (WIDTH - 2 * MARGIN) / len(images)
        large = (WIDTH - 2 * MARGIN) / COLUMNS
        rows = -(-plan.num_outputs // COLUMNS)
        tops = [HEAD, HEAD + INPUTS + small, HEAD + INPUTS + MAPS + 2 * small]
        self.effect = tops[-1] + OUTPUTS + rows * (large + BAR) + 0.05
        self.height = self.effect + OUTPUTS + EFFECT + BELOW
        self.figure = Figure((WIDTH, self.height), facecolor="white")

        self.say(0.2, "Co-Mixup: new training images from the parts that matter", 19, bold=True)
        self.say(
            0.6,
            "Every digit has a colour here, to be recognised by; the network sees them in grey.",
        )
        tinted = tint(images)
        self.say(tops[0] + 0.1, "1   A batch of ten digits", 14, bold=True)
        self.say(tops[1] + 0.1, "2   Which cells matter", 14, bold=True)
        self.say(
            tops[1] + 0.14,
            "The stronger a cell's colour, the more the loss depends on it (saliency).",
            left=4.1,
        )
        for i, colour in enumerate(COLOURS[: len(images)]):
            left = MARGIN + i * small + 0.06
            ax = self.axes(left, tops[0] + INPUTS - 0.1, small - 0.12)
            ax.imshow(tinted[i].permute(1, 2, 0))
            ax.spines[:].set(visible=True, color=colour, linewidth=3)
            below = self.axes(left, tops[1] + MAPS - 0.15, small - 0.12)
            shade(below, saliency[i], images[i, 0], plan.grid, colour)

        self.say(tops[2] + 0.1, "3   Ten new images to train on", 14, bold=True)
        self.say(
            tops[2] + 0.14,
            "Each takes salient cells of several digits; dashed cells blend two, half and half. "
            "Bar: its target.",
            left=4.1,
        )
        mixed = plan.mix_images(tinted)
        for j in range(plan.num_outputs):
            left = MARGIN + (j % COLUMNS) * large + 0.12
            top = tops[2] + OUTPUTS - 0.1 + (j // COLUMNS) * (large + BAR)
            side = large - 0.24
            ax = self.axes(left, top, side)
            ax.imshow(mixed[j].permute(1, 2, 0))
            outline(ax, plan.sources[j], images.shape[-1])
            bar(self.axes(left, top + side + 0.07, side, BAR), targets[j])

    def show_effect(self, results: Mapping[Method, Sequence[Result]]) -> None:
        """Draws what training with and without such images did: confidence, and three metrics."""
        self.say(self.effect + 0.1, "4   What that does to a network", 14, bold=True)
        seeds = len(results[VANILLA])
        self.say(
            self.effect + 0.14,
            "Trained on few digits, tested on unseen ones. Less is better; "
            f"mean of {seeds} seed{'s' if seeds > 1 else ''}, a dot for each.",
            left=4.1,
        )
        top = self.effect + OUTPUTS
        reliability(self.axes(MARGIN + 0.75, top, EFFECT), results)
        for k, (metric, name) in enumerate(METRICS.items()):
            tall = EFFECT / len(METRICS)
            ax = self.axes(7.1, top + k * tall + 0.2, WIDTH - MARGIN - 7.1, tall - 0.3)
            compare(
                ax, {method: [getattr(r, metric) for r in results[method]] for method in results}
            )
            self.say(top + k * tall + 0.25, name, left=4.4)

    def axes(self, left: float, top: float, width: float, height: float | None = None) -> Axes:
        """Returns empty axes at a place; square without a height."""
        tall = width if height is None else height
        low = 1 - (top + tall) / self.height
        box = (left / WIDTH, low, width / WIDTH, tall / self.height)
        ax = self.figure.add_axes(box, xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        return ax

    def say(
        self, top: float, text: str, size: int = 11, *, bold: bool = False, left: float = MARGIN
    ) -> None:
        """Writes a line of text."""
        weight, colour = ("bold", "black") if bold else ("normal", "#444444")
        place = (left + 0.06) / WIDTH, 1 - top / self.height
        self.figure.text(*place, text, va="top", fontsize=size, weight=weight, color=colour)


def tint(images: Tensor) -> Tensor:
    """Returns the digits in coloured ink on paler paper, (10, 3, H, W)."""
    ink = torch.tensor([to_rgb(colour) for colour in COLOURS])[: len(images), :, None, None]
    paper = 0.86 + 0.14 * ink
    return paper + (0.9 * ink - paper) * images


def shade(ax: Axes, saliency: Tensor, image: Tensor, grid: tuple[int, ...], colour: str) -> None:
    """Shades the cells of the grid by their mean saliency, with the digit's shadow on them."""
    height, width = image.shape
    cells = F.adaptive_avg_pool2d(saliency[None], grid)[0]
    shades = LinearSegmentedColormap.from_list("", ["white", colour])
    edges = (-0.5, width - 0.5, height - 0.5, -0.5)
    ax.imshow(cells, cmap=shades, vmin=0, extent=edges)
    ax.imshow(torch.zeros_like(image), cmap="gray", alpha=(0.45 * image).numpy())
    for line in range(1, grid[0]):
        ax.axhline(height * line / grid[0] - 0.5, color="white", lw=1)
    for line in range(1, grid[1]):
        ax.axvline(width * line / grid[1] - 0.5, color="white", lw=1)
    ax.spines[:].set(visible=True, color="#bbbbbb", linewidth=1)


def outline(ax: Axes, sources: Tensor, side: int) -> None:
    """Draws borders around the regions of one output, (L, rows, columns), in their colours."""
    _, rows, columns = sources.shape
    label = {
        (r, c): sorted(set(sources[:, r, c].tolist())) for r in range(rows) for c in range(columns)
    }
    tall, wide, inset = side / rows, side / columns, 0.2
    for (r, c), inputs in label.items():
        top, left = r * tall - 0.5, c * wide - 0.5
        bottom, right = top + tall, left + wide
        borders = {
            (r - 1, c): ((left, right), (top + inset, top + inset)),
            (r + 1, c): ((left, right), (bottom - inset, bottom - inset)),
            (r, c - 1): ((left + inset, left + inset), (top, bottom)),
            (r, c + 1): ((right - inset, right - inset), (top, bottom)),
        }
        for neighbour, (x, y) in borders.items():
            if label.get(neighbour) != inputs:
                ax.plot(x, y, color=COLOURS[inputs[0]], lw=3, solid_capstyle="butt")
                if len(inputs) > 1:  # a blend: the second colour in the gaps of the first
                    ax.plot(x, y, color=COLOURS[inputs[1]], lw=3, dashes=(2, 2))
    ax.set(xlim=(-0.5, side - 0.5), ylim=(side - 0.5, -0.5))


def bar(ax: Axes, target: Tensor) -> None:
    """Draws a soft target as a bar, the largest share first, with classes and shares on it."""
    ax.set(xlim=(0, 1), ylim=(0, 1))
    start = 0.0
    for i in target.argsort(descending=True, stable=True).tolist():
        share = float(target[i])
        if share == 0:
            break
        ax.add_patch(Rectangle((start, 0), share, 1, fc=COLOURS[i], ec="white", lw=1.5))
        middle = start + share / 2
        if share > 0.33:
            name, percent = f"{i}", f"{100 * share:.0f}%"
            style = {"color": "white", "va": "center"}
            ax.text(middle - 0.02, 0.47, name, ha="right", fontsize=14, weight="bold", **style)
            ax.text(middle, 0.45, percent, ha="left", fontsize=9, **style)
        elif share > 0.08:
            style = {"color": "white", "va": "center", "ha": "center"}
            ax.text(middle, 0.47, f"{i}", fontsize=14, weight="bold", **style)
        start += share


def reliability(ax: Axes, results: Mapping[Method, Sequence[Result]]) -> None:
    """Draws accuracy against confidence, with and without Co-Mixup; the diagonal is ideal."""
    ax.plot((0, 1), (0, 1), color="#999999", lw=1, ls="--")
    ax.text(0.09, 0.13, "ideal", rotation=45, color="#777777", fontsize=9, ha="center")
    for method, marker in ((VANILLA, "s"), (COMIXUP, "o")):
        bins = sum(result.bins for result in results[method])
        # Confidences of 1 are a bin of their own in the metric, but not worth one in a diagram.
        bins = torch.cat([bins[: BINS - 1], bins[BINS - 1 :].sum(0, keepdim=True)])
        number, confidence, correct = bins[bins[:, 0] > 0].T
        x, y = (confidence / number).numpy(), (correct / number).numpy()
        colour = METHOD_COLOURS[method]
        ax.plot(x, y, marker=marker, color=colour, lw=2, ms=5, label=method.name)
    ax.legend(frameon=False, fontsize=10, loc="upper left", borderpad=0)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence of a prediction")
    ax.set_ylabel("how often it is correct")
    ax.set(xticks=(0, 0.5, 1), xticklabels=("0", "50 %", "100 %"))
    ax.set(yticks=(0, 0.5, 1), yticklabels=("0", "50 %", "100 %"))
    ax.spines[:].set(visible=True, color="#bbbbbb")


def compare(ax: Axes, values: Mapping[Method, Sequence[float]]) -> None:
    """Draws a bar per method for the mean of a metric, and a dot for each seed."""
    highest = max(max(own) for own in values.values())
    for row, (method, own) in enumerate(values.items()):
        ax.barh(row, mean(own), color=METHOD_COLOURS[method], height=0.8)
        ax.plot(own, [row] * len(own), "o", color="black", ms=3)
        end = max(own) + 0.035 * highest
        weight = "bold" if method == COMIXUP else "normal"
        ax.text(
            end, row, f"{mean(own):.1f}  {method.name}", va="center", fontsize=10, weight=weight
        )
    ax.set(xlim=(0, 1.85 * highest), ylim=(len(values) - 0.5, -0.5))
