"""Draws a mixed batch, and what training on such batches did to networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean

import matplotlib as mpl
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

import comixup
from comixup.lab.explorer import Batch
from comixup.plots import Box, Page, colour_of
from demo_training import BINS, COMIXUP, METHODS, VANILLA, Method, Result

COLUMNS = 4
WIDTH, MARGIN = 12.0, 0.41  # inches
HEAD, INPUTS, MAPS, OUTPUTS = 0.95, 0.55, 0.6, 0.65  # inches of text above each part
BAR = 0.3
EFFECT, BELOW = 3.0, 0.75  # inches of the last part's diagrams, and of their axes' names
ASIDE = 4.16
METHOD_COLOURS = dict(zip(METHODS, ("#56b4e9", "#0072b2", "#d55e00"), strict=True))
"""Of Okabe and Ito: blues and vermilion, told apart by the colour-blind too."""
METRICS = {
    "ece": "calibration error (ECE), %",
    "clutter_error": "error in clutter, %: a quarter\nof each digit is another's",
    "error": "error on digits as they are, %",
}


def draw(
    batch: Batch,
    saliency: Tensor,
    plan: comixup.Labelling,
    targets: Tensor,
    results: Mapping[Method, Sequence[Result]],
) -> Figure:
    """Returns the figure of a batch that has one photograph of each class, in their order.

    Args:
        batch: the photographs.
        saliency: (m, H, W).
        plan: who is where in the outputs.
        targets: (outputs, m), the soft targets.
        results: of each method, by seed.
    """
    small = (WIDTH - 2 * MARGIN) / len(batch.images)
    large = (WIDTH - 2 * MARGIN) / COLUMNS
    rows = -(-plan.num_outputs // COLUMNS)
    tops = [HEAD, HEAD + INPUTS + small, HEAD + INPUTS + MAPS + 2 * small]
    effect = tops[-1] + OUTPUTS + rows * (large + BAR) + 0.05
    with mpl.rc_context({"font.size": 11, "font.family": "DejaVu Sans"}):
        page = Page(WIDTH, effect + OUTPUTS + EFFECT + BELOW)
        page.text(
            MARGIN, 0.2, "Co-Mixup: new training images from the parts that matter", 19, bold=True
        )
        page.text(
            MARGIN,
            0.6,
            "Every photograph has a colour here, to be recognized by in the outputs.",
        )
        show_inputs(page, tops[:2], small, batch.images, saliency, plan.grid)
        show_outputs(page, tops[2], large, plan, batch, targets)
        show_effect(page, effect, results)
        return page.figure


def show_inputs(
    page: Page,
    tops: Sequence[float],
    column: float,
    images: Tensor,
    saliency: Tensor,
    grid: tuple[int, ...],
) -> None:
    """Draws the photographs, and how salient their cells are."""
    page.text(MARGIN, tops[0] + 0.1, "1   A batch of photographs", 14, bold=True)
    page.text(MARGIN, tops[1] + 0.1, "2   Which cells matter", 14, bold=True)
    page.text(
        ASIDE,
        tops[1] + 0.14,
        "The stronger a cell's colour, the more the loss of EfficientNet-Lite0 depends on it "
        "(saliency).",
    )
    cells = F.adaptive_avg_pool2d(saliency.unsqueeze(1), grid).squeeze(1)
    for i, image in enumerate(images):
        side = column - 0.12
        box = Box(MARGIN + i * column, tops[0] + INPUTS - 0.1, side, side)
        page.image(box, image)
        page.frame(box, colour_of(i), 3)
        box = box._replace(top=tops[1] + MAPS - 0.15)
        page.saliency(box, cells[i], colour_of(i), image)
        page.grid(box, *grid, images.shape[2:])
        page.frame(box)


def show_outputs(
    page: Page,
    top: float,
    column: float,
    plan: comixup.Labelling,
    batch: Batch,
    targets: Tensor,
) -> None:
    """Draws the mixed photographs with the borders of their cells, and their targets."""
    page.text(MARGIN, top + 0.1, "3   New images to train on", 14, bold=True)
    page.text(
        ASIDE,
        top + 0.14,
        "Each takes salient cells of several inputs; where two are blended, the border is dashed. "
        "Bar: target.",
    )
    mixed, masks = plan.mix_images(batch.images), plan.masks
    colours = [colour_of(c) for c in range(len(batch.class_names))]
    for j, image in enumerate(mixed):
        row, place = divmod(j, COLUMNS)
        side = column - 0.24
        left = MARGIN + place * column + 0.06
        box = Box(left, top + OUTPUTS - 0.1 + row * (column + BAR), side, side)
        page.image(box, image)
        page.borders(box, masks[j], range(plan.num_inputs), image.shape[1:], numbers=False)
        bar = Box(left, box.top + side + 0.07, side, BAR)
        page.bar(bar, targets[j].tolist(), batch.class_names, colours, size=12)


def show_effect(page: Page, top: float, results: Mapping[Method, Sequence[Result]]) -> None:
    """Draws what training with and without such images did: confidence, and three metrics."""
    page.text(MARGIN, top + 0.1, "4   What that does to a network", 14, bold=True)
    seeds = len(results[VANILLA])
    page.text(
        ASIDE,
        top + 0.14,
        "Trained on few digits, tested on unseen ones. Less is better; "
        f"mean of {seeds} seed{'s' if seeds > 1 else ''}, a dot for each.",
    )
    top += OUTPUTS
    reliability(page.axes(Box(MARGIN + 0.69, top, EFFECT, EFFECT)), results)
    for k, (metric, name) in enumerate(METRICS.items()):
        tall = EFFECT / len(METRICS)
        ax = page.axes(Box(7.1, top + k * tall + 0.2, WIDTH - 0.35 - 7.1, tall - 0.3))
        compare(ax, {method: [getattr(r, metric) for r in results[method]] for method in results})
        page.text(4.46, top + k * tall + 0.25, name)


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
    ax.set(xlim=(0, 1.85 * highest), ylim=(len(values) - 0.5, -0.5), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
