"""The page of a mixed batch: inputs with their saliency above, outputs with their targets below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from matplotlib import style
from matplotlib.figure import Figure
from torch import Tensor

from comixup._figures import fitting, text_width
from comixup.plots._page import Box, Page
from comixup.plots._palette import colour_of

WIDTH, MARGIN = 11.0, 0.3
INPUT_COLUMNS, OUTPUT_COLUMNS = 10, 5
HEAD, TITLE, BAR = 0.36, 0.42, 0.27
GAP, BELOW = 0.16, 0.22
LINE = 0.155
"""Inches, of a line of a caption."""
MAX_TALL = 1.3
"""Height of images, in widths of a column, at most: taller ones get narrower."""
SHORT_NAME = 4
"""Letters of a class's name that a bar has room for; longer ones stand below it too."""
MIN_WEIGHT = 0.05
"""Classes with a smaller weight in a target are not named below it."""
MAX_LINES = 3
CAPTION = 9
"""Font size of captions."""
_HEADING = 12
"""Font size of headings."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs that are shown.

    Attributes:
        images: (n, C, H, W) as they are drawn.
        names: a label for each.
        count: of the whole batch.
        saliency: (n, rows, columns), of cells or of pixels; None if there is none.
        shadows: (n, C, H, W) in [0, 1]: what of the images is seen in their saliency.
        grid: lines to draw over the saliency: rows and columns.
    """

    images: Tensor
    names: Sequence[str]
    count: int
    saliency: Tensor | None
    shadows: Tensor
    grid: tuple[int, int] | None


@dataclass(frozen=True, eq=False)
class Output:
    """An output that is shown.

    Attributes:
        image: (C, H, W) as it is drawn.
        inputs: numbers of the inputs that are in it.
        shares: (k, rows, columns) the share of each of them at each location; None draws no border.
        weights: of the classes in its target.
        names: of these classes.
        colours: of these classes.
    """

    image: Tensor
    inputs: Sequence[int]
    shares: npt.NDArray[np.float64] | None
    weights: Sequence[float]
    names: Sequence[str]
    colours: Sequence[str]


@dataclass(frozen=True)
class Look:
    """How images are drawn.

    Attributes:
        cmap: colours of one channel; empty for grey.
        bounds: the least and the greatest value of one channel.
        note: what a reader has to know about the colours; empty if nothing.
    """

    cmap: str = ""
    bounds: tuple[float, float] = (0.0, 1.0)
    note: str = ""


def batch_figure(
    title: str | None,
    inputs: Inputs | None,
    outputs: Sequence[Output],
    num_outputs: int,
    look: Look,
    how: str,
) -> Figure:
    """Returns the figure.

    Args:
        title: the first line; None for none.
        inputs: None leaves them out.
        outputs: those to show; none leaves them out.
        num_outputs: of the whole batch.
        look: how images are drawn.
        how: a line about the outputs.
    """
    first = TITLE if title else 0.12
    middle = first + (0 if inputs is None else _inputs_height(inputs))
    sheet = _OutputSheet(outputs) if outputs else None
    height = middle + (0 if sheet is None else sheet.height) + 0.1
    with style.context("default"):
        page = Page(WIDTH, height)
        if title:
            page.text(MARGIN, 0.12, title, 15, bold=True)
        if inputs is not None:
            _draw_inputs(page, first, inputs, look)
        if sheet is not None:
            _heading(page, middle, "Outputs", len(outputs), num_outputs, how)
            sheet.draw(page, middle + HEAD, look)
        return page.figure


def caption(
    weights: Sequence[float], names: Sequence[str], width: float, lines: int = MAX_LINES
) -> str:
    """Returns a soft target in words, the largest weight first, in a few lines.

    Args:
        weights: of the classes.
        names: of the classes.
        width: inches that a line may take.
        lines: at most.

    >>> caption([0.38, 0.62], ["maple tree", "fox"], width=2.0)
    '62% fox, 38% maple tree'
    """
    order = sorted(range(len(weights)), key=lambda k: -weights[k])
    named = [
        fitting(f"{100 * weights[k]:.0f}% {names[k]}", width - text_width(",", CAPTION), CAPTION)
        for k in order
        if weights[k] >= MIN_WEIGHT
    ]
    if not named:
        return f"no class has {100 * MIN_WEIGHT:.0f}%"
    written = [named[0]]
    for left, words in zip(range(len(named) - 1, 0, -1), named[1:], strict=True):
        line = f"{written[-1]}, {words}"
        # A line must have room for what may have to follow.
        tail = "" if left == 1 else "," if len(written) < lines else f", {left - 1} more"
        if text_width(line + tail, CAPTION) <= width:
            written[-1] = line
        elif len(written) < lines:
            written[-1] += ","
            written.append(words)
        else:
            more = f", {left} more"
            written[-1] = fitting(written[-1], width - text_width(more, CAPTION), CAPTION) + more
            break
    return "\n".join(written)


def _heading(page: Page, top: float, words: str, shown: int, count: int, told: str) -> None:
    more = "" if shown == count else f" ({shown} of {count}; {count - shown} more not shown)"
    page.text(MARGIN, top + 0.06, words + more, _HEADING, bold=True)
    behind = MARGIN + text_width(words + more, _HEADING, bold=True) + 0.25
    page.text(behind, top + 0.085, told, 10)


def _fitted(columns: int, images: Tensor) -> tuple[float, float, float]:
    """Returns a column's width, and the width and height of an image in it."""
    column = (WIDTH - 2 * MARGIN + GAP) / columns
    tall = images.shape[-2] / images.shape[-1]
    width = (column - GAP) * min(1.0, MAX_TALL / tall)
    return column, width, width * tall


def _inputs_height(inputs: Inputs) -> float:
    rows = math.ceil(len(inputs.images) / INPUT_COLUMNS)
    return HEAD + rows * _input_row(inputs) + 0.08


def _input_row(inputs: Inputs) -> float:
    _, _, height = _fitted(INPUT_COLUMNS, inputs.images)
    return (1 if inputs.saliency is None else 2) * (height + 0.06) + BELOW


def _draw_inputs(page: Page, top: float, inputs: Inputs, look: Look) -> None:
    told = look.note
    if inputs.saliency is not None:
        told += " Below each: the stronger the colour, the more salient."
    _heading(page, top, "Inputs", len(inputs.images), inputs.count, told.strip())
    column, width, height = _fitted(INPUT_COLUMNS, inputs.images)
    for i, image in enumerate(inputs.images):
        row, place = divmod(i, INPUT_COLUMNS)
        colour = colour_of(i)
        box = Box(MARGIN + place * column, top + HEAD + row * _input_row(inputs), width, height)
        page.image(box, image, bounds=look.bounds, cmap=look.cmap)
        page.frame(box, colour, 3)
        if inputs.count > 1:
            page.badge(box.left, box.top, [i])
        if inputs.saliency is not None:
            box = box._replace(top=box.top + height + 0.06)
            page.saliency(box, inputs.saliency[i], colour, inputs.shadows[i])
            if inputs.grid is not None:
                page.grid(box, *inputs.grid, (image.shape[-2], image.shape[-1]))
            page.frame(box)
        name = fitting(inputs.names[i], column - 0.5 * GAP, CAPTION)
        page.text(box.left, box.top + height + 0.04, name, CAPTION)


class _OutputSheet:
    """Outputs in rows of five, a bar below each, and its classes in words if names are long."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self.outputs = outputs
        self.column, self.width, self.image_height = _fitted(OUTPUT_COLUMNS, outputs[0].image)
        room = self.column - 0.5 * GAP
        longest = max((len(name) for output in outputs for name in output.names), default=0)
        self.captions = [
            caption(output.weights, output.names, room) if longest > SHORT_NAME else ""
            for output in outputs
        ]
        self.tops = [0.0]
        for start in range(0, len(outputs), OUTPUT_COLUMNS):
            row = self.captions[start : start + OUTPUT_COLUMNS]
            lines = max(text.count("\n") + 1 if text else 0 for text in row)
            below = BAR + 0.05 + LINE * lines + 0.14
            self.tops.append(self.tops[-1] + self.image_height + below)
        self.height = HEAD + self.tops[-1]

    def draw(self, page: Page, top: float, look: Look) -> None:
        """Draws all outputs from a height on."""
        for j, (output, words) in enumerate(zip(self.outputs, self.captions, strict=True)):
            row, place = divmod(j, OUTPUT_COLUMNS)
            left = MARGIN + place * self.column
            box = Box(left, top + self.tops[row], self.width, self.image_height)
            page.image(box, output.image, bounds=look.bounds, cmap=look.cmap)
            if output.shares is None:
                page.frame(box)
            else:
                size = (output.image.shape[-2], output.image.shape[-1])
                page.borders(box, output.shares, output.inputs, size)
            bar = Box(left, box.top + box.height + 0.05, self.width, BAR)
            page.bar(bar, output.weights, output.names, output.colours)
            if words:
                page.text(left, bar.top + BAR + 0.04, words, CAPTION)
