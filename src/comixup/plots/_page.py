"""A page laid out in inches, and what is put on it: images, saliency, borders, target bars.

Each input has a colour, told apart by colour-blind readers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from torch import Tensor

from comixup._figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    RED,
    SKY_BLUE,
    YELLOW,
    fitting,
    text_width,
)
from comixup.plots._borders import Border, border_runs, cell_edges

COLOURS = (
    *(BLUE, ORANGE, GREEN, RED, PURPLE, SKY_BLUE, YELLOW, BLACK),
    *("#882255", "#7F4F24"),
)
"""Of inputs: Okabe and Ito's palette, and wine and brown. By simulated protanopia, deuteranopia and
tritanopia no pair with these two is closer than the closest pair of the palette itself (CIELAB
distance 16)."""

_DARK_BELOW = 0.5
"""Luminance below which white text is legible on a colour."""
_INK = 0.42
"""Luminance that ink has at most: yellow on white could not be read."""
GREY = "#444444"
LINE_WIDTH = 2.6
"""Points, of the borders of cells."""
MIN_SHARE = 0.005
"""Classes with a smaller weight have no place in a bar."""
_POINTS = 72.0
_BADGE = 7.0
"""Font size of the numbers of inputs."""
_SMALL = 0.68
"""Font size of percentages in a bar, in that of names."""
_PAPER = 0.86
"""Brightness of the paper that tinted images are drawn on, before its colour is added."""
_DASH = 2.0
_FEWEST_LETTERS = 4
"""Of a name that is shortened to fit in a bar."""
_SHADOW, _FAINT = 0.55, 0.15
"""Opacity of the darkest pixel's shadow, and the contrast from which on it has that."""


class Box(NamedTuple):
    """A rectangle of a page, in inches from the page's top left corner."""

    left: float
    top: float
    width: float
    height: float


class Page:
    """A figure laid out in inches from its top left corner.

    Everything but diagrams is drawn on one pair of axes: a pair for every image would take ten
    times as long.

    Args:
        width: inches.
        height: inches.

    Attributes:
        figure: the figure.
        canvas: the axes that cover it; their unit is an inch, downwards.

    >>> page = Page(4, 2)
    >>> page.text(0.2, 0.2, "Two inputs", bold=True).get_text()
    'Two inputs'
    """

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure = Figure((width, height), facecolor="white")
        self.canvas = self.figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        self.canvas.set_axis_off()

    def axes(self, box: Box) -> Axes:
        """Returns axes of their own at a box, for a diagram."""
        low = 1 - (box.top + box.height) / self.height
        size = (box.width / self.width, box.height / self.height)
        return self.figure.add_axes((box.left / self.width, low, *size))

    def text(
        self,
        left: float,
        top: float,
        words: str,
        size: float = 11,
        *,
        bold: bool = False,
        colour: str | None = None,
        align: str = "left",
        vertical: str = "top",
    ) -> Text:
        """Writes words; a dollar sign in them is a dollar sign."""
        return self.canvas.text(
            left,
            top,
            words,
            va=vertical,
            ha=align,
            fontsize=size,
            weight="bold" if bold else "normal",
            color=colour or ("black" if bold else GREY),
            parse_math=False,
        )

    def image(
        self, box: Box, image: Tensor, *, bounds: tuple[float, float] = (0.0, 1.0), cmap: str = ""
    ) -> AxesImage:
        """Shows an image, (C, H, W) of one or three channels, or four with opacity.

        Args:
            box: where.
            image: colours in [0, 1], cut off there; or one channel.
            bounds: the least and greatest value of one channel.
            cmap: matplotlib's name of the colours of one channel; grey without.
        """
        pixels = image.detach().float().cpu()
        if len(pixels) == 1:
            return self._place(box, pixels[0].numpy(), cmap=cmap or "gray", clim=bounds)
        return self._place(box, pixels.clamp(0, 1).permute(1, 2, 0).numpy())

    def saliency(self, box: Box, cells: Tensor, colour: str, image: Tensor | None = None) -> None:
        """Shades cells, (rows, columns), by their saliency, over an image as a shadow.

        Args:
            box: where.
            cells: not negative; the largest has the full colour. Any size: pixels are cells too.
            colour: of the input.
            image: (C, H, W) in [0, 1], whose dark pixels darken the cells; None for no shadow.
        """
        shades = LinearSegmentedColormap.from_list("", ["white", colour])
        values = cells.detach().float().cpu().numpy()
        self._place(box, values, cmap=shades, clim=(0.0, float(values.max()) or 1.0))
        if image is not None:
            light = image.detach().float().cpu().clamp(0, 1).mean(0)
            # Below its own mean: a picture of the night would be all shadow.
            dark = (light.mean() - light).clamp(min=0)
            dark = _SHADOW * dark / dark.max().clamp(min=_FAINT)
            self.image(box, torch.cat([torch.zeros(3, *dark.shape), dark[None]]))

    def grid(self, box: Box, rows: int, columns: int, size: tuple[int, int]) -> None:
        """Draws thin white lines between the cells of a grid over an image of a size."""
        down, across = cell_edges(size[0], rows), cell_edges(size[1], columns)
        left, top, width, height = box
        level = [[(left, top + y * height), (left + width, top + y * height)] for y in down[1:-1]]
        upright = [
            [(left + x * width, top), (left + x * width, top + height)] for x in across[1:-1]
        ]
        lines = LineCollection([*level, *upright], colors="white", linewidths=1)
        self.canvas.add_collection(lines, autolim=False)

    def frame(self, box: Box, colour: str = "#bbbbbb", width: float = 1.0) -> Rectangle:
        """Draws a frame whose outer edge is the box."""
        half = width / 2 / _POINTS
        patch = Rectangle(
            (box.left + half, box.top + half), box.width - 2 * half, box.height - 2 * half,
            fill=False, ec=colour, lw=width, joinstyle="miter",
        )  # fmt: skip
        self.canvas.add_patch(patch)
        return patch

    def borders(
        self,
        box: Box,
        shares: Tensor | npt.NDArray[np.float64],
        inputs: Sequence[int],
        size: tuple[int, int],
        *,
        numbers: bool = True,
    ) -> list[LineCollection]:
        """Draws the borders of an output's regions in the colours of their inputs.

        Where inputs are blended the border is dashed, in the colours of all of them.

        Args:
            box: where the output is.
            shares: (k, rows, columns) the share of each of k inputs at each location.
            inputs: their numbers, which have their colours: see `colour_of`.
            size: height and width of the image in pixels: cells end where pixels do.
            numbers: write each region's inputs, counted from 1, in its first cell.
        """
        runs = border_runs(np.asarray(shares), size, (box.width, box.height), _inset())
        drawn = []
        for owners in dict.fromkeys(run.owners for run in runs):
            lines = [self._line(box, run) for run in runs if run.owners == owners]
            for stripe, owner in enumerate(owners):
                off = _DASH * (len(owners) - 1)
                solid = stripe == 0  # the first colour lies under the gaps of all others
                lined = LineCollection(
                    lines,
                    colors=colour_of(inputs[owner]),
                    linewidths=LINE_WIDTH,
                    linestyles="solid" if solid else (-_DASH * stripe, (_DASH, off)),
                    capstyle="projecting" if solid else "butt",
                )
                self.canvas.add_collection(lined, autolim=False)
                drawn.append(lined)
            first = next(run for run in runs if run.owners == owners)
            if numbers and len(inputs) > 1:
                self._number(box, first, [inputs[owner] for owner in owners])
        return drawn

    def bar(
        self,
        box: Box,
        weights: Sequence[float],
        names: Sequence[str],
        colours: Sequence[str],
        size: float = 12,
    ) -> list[Rectangle]:
        """Draws a soft target as a bar, the largest weight first, with what names fit on it.

        Weights that sum to less than one leave the rest of the bar empty; those that sum to more
        (several labels) share it.
        """
        whole, start, drawn = max(1.0, float(sum(weights))), box.left, []
        for k in sorted(range(len(weights)), key=lambda k: -weights[k]):
            share = float(weights[k])
            if share < MIN_SHARE:
                break
            width = box.width * share / whole
            patch = Rectangle(
                (start, box.top), width, box.height, fc=colours[k], ec="white", lw=1.5
            )
            self.canvas.add_patch(patch)
            drawn.append(patch)
            self._label(Box(start, box.top, width, box.height), names[k], share, colours[k], size)
            start += width
        return drawn

    def _label(self, box: Box, name: str, share: float, colour: str, size: float) -> None:
        """Writes a class's name, and its weight where there is room, into its segment of a bar."""
        percent = f"{100 * share:.0f}%"
        middle, base = box.left + box.width / 2, box.top + 0.54 * box.height
        own, gap = text_width(name, size, bold=True), 0.4 * size / _POINTS
        both = own + gap + text_width(percent, _SMALL * size)
        style: Any = {"colour": text_on(colour), "vertical": "center"}
        if both < 0.86 * box.width:
            left = middle - both / 2
            self.text(left, base, name, size, bold=True, align="left", **style)
            self.text(left + own + gap, base, percent, _SMALL * size, align="left", **style)
            return
        room = 0.94 * box.width
        words = fitting(name, room, size, bold=True)
        if own <= room or len(words) >= _FEWEST_LETTERS:
            self.text(middle, base, words, size, bold=True, align="center", **style)

    def badge(self, left: float, top: float, inputs: Sequence[int]) -> Text:
        """Writes the numbers of inputs, counted from 1, on the colour of the first."""
        text = self.text(
            left + 0.085,
            top + 0.07,
            _joined(inputs),
            _BADGE,
            bold=True,
            colour=text_on(colour_of(inputs[0])),
        )
        text.set_bbox({"fc": colour_of(inputs[0]), "ec": "none", "pad": 1.0})
        return text

    def _number(self, box: Box, run: Border, owners: Sequence[int]) -> None:
        """Writes inputs' numbers into a region's first cell, if they fit there."""
        room = (run.x1 - run.x0) * box.width - 0.1
        words = _joined(owners)
        if room >= text_width(words, _BADGE, bold=True) and run.room * box.height >= 0.2:
            self.badge(
                box.left + run.x0 * box.width - _inset(),
                box.top + run.y0 * box.height - _inset(),
                owners,
            )

    def _line(self, box: Box, run: Border) -> list[tuple[float, float]]:
        return [
            (box.left + x * box.width, box.top + y * box.height)
            for x, y in ((run.x0, run.y0), (run.x1, run.y1))
        ]

    def _place(self, box: Box, pixels: npt.NDArray[np.float32], **colours: Any) -> AxesImage:
        left, top, width, height = box
        placed = AxesImage(
            self.canvas, extent=(left, left + width, top + height, top), origin="upper",
            interpolation="nearest", **colours,
        )  # fmt: skip
        placed.set_data(pixels)
        self.canvas.add_image(placed)
        return placed


def tinted(images: Tensor, numbers: Sequence[int] | None = None) -> Tensor:
    """Returns images of one channel as coloured ink on paler paper, (m, 3, H, W).

    So it can be seen in a mixture which input a stroke is of.

    Args:
        images: (m, 1, H, W) in [0, 1]; 1 is ink.
        numbers: of the inputs, which have their colours; None for 0, 1, ...
    """
    chosen = [colour_of(i) for i in (range(len(images)) if numbers is None else numbers)]
    colour = torch.tensor([rgb(one) for one in chosen])[:, :, None, None]
    ink = torch.tensor([ink_of(one) for one in chosen])[:, :, None, None]
    paper = _PAPER + (1 - _PAPER) * colour
    return paper + (ink - paper) * images.detach().float().cpu().clamp(0, 1)


def _joined(inputs: Sequence[int]) -> str:
    """Returns the numbers of inputs, counted from 1.

    >>> _joined([0, 4])
    '1+5'
    """
    return "+".join(str(number + 1) for number in inputs)


def _inset() -> float:
    """Returns by how many inches a border lies inside its region, so that both sides are seen."""
    return LINE_WIDTH / 2 / _POINTS


def colour_of(number: int) -> str:
    """Returns the colour of an input by its number; after ten they begin again."""
    return COLOURS[number % len(COLOURS)]


def rgb(colour: str) -> tuple[float, float, float]:
    """Returns a colour's red, green and blue, in [0, 1].

    >>> rgb("#FF0000")
    (1.0, 0.0, 0.0)
    """
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


def ink_of(colour: str) -> tuple[float, float, float]:
    """Returns a colour made dark enough to draw on its own paper with."""
    scale = min(0.9, _INK / max(_luminance(colour), _INK))
    red, green, blue = (scale * channel for channel in rgb(colour))
    return red, green, blue


def text_on(colour: str) -> str:
    """Returns black or white, whichever is legible on a colour."""
    return "white" if _luminance(colour) < _DARK_BELOW else "black"


def _luminance(colour: str) -> float:
    red, green, blue = rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue
