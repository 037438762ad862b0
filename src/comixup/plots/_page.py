"""A page laid out in inches, and what is put on it: images, saliency, borders, target bars.

Each input has a colour, told apart by colour-blind readers too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from torch import Tensor

from comixup._figures import PALETTE, fitting, text_width

COLOURS = (*PALETTE, "#882255", "#7F4F24")
"""Of inputs: Okabe and Ito's palette, and wine and brown. By simulated protanopia, deuteranopia and
tritanopia no pair with these two is closer than the closest pair of the palette itself (CIELAB
distance 16)."""

_DARK_BELOW = 0.5
"""Luminance below which white text is legible on a colour."""
_INK = 0.42
"""Luminance that ink has at most: yellow on white could not be read."""
_POINTS = 72.0
_LINE_WIDTH = 2.6
"""Points, of the borders of cells."""
_INSET = _LINE_WIDTH / 2 / _POINTS
"""Inches by which a border lies inside its region, so that both sides are seen."""
_MIN_SHARE = 0.005
"""Classes with a smaller weight have no place in a bar."""
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
            color=colour or ("black" if bold else "#444444"),
            parse_math=False,
        )

    def image(
        self, box: Box, image: Tensor, *, bounds: tuple[float, float] = (0.0, 1.0), cmap: str = ""
    ) -> None:
        """Shows an image, (C, H, W) of one or three channels, or four with opacity.

        Args:
            box: where.
            image: colours in [0, 1], cut off there; or one channel.
            bounds: the least and greatest value of one channel.
            cmap: matplotlib's name of the colours of one channel; grey without.
        """
        pixels = image.detach().float().cpu()
        if len(pixels) == 1:
            self._place(box, pixels[0], cmap=cmap or "gray", clim=bounds)
        else:
            self._place(box, pixels.clamp(0, 1).permute(1, 2, 0))

    def saliency(self, box: Box, cells: Tensor, colour: str, image: Tensor | None = None) -> None:
        """Shades cells, (rows, columns), by their saliency, over an image as a shadow.

        Args:
            box: where.
            cells: not negative; the largest has the full colour. Any size: pixels are cells too.
            colour: of the input.
            image: (C, H, W) in [0, 1], whose dark pixels darken the cells; None for no shadow.
        """
        shades = LinearSegmentedColormap.from_list("", ["white", colour])
        values = cells.detach().float().cpu()
        self._place(box, values, cmap=shades, clim=(0.0, float(values.max()) or 1.0))
        if image is not None:
            light = image.detach().float().cpu().clamp(0, 1).mean(0)
            # Below its own mean: a picture of the night would be all shadow.
            dark = (light.mean() - light).clamp(min=0)
            dark = _SHADOW * dark / dark.max().clamp(min=_FAINT)
            self.image(box, torch.cat([torch.zeros(3, *dark.shape), dark[None]]))

    def grid(self, box: Box, rows: int, columns: int, size: tuple[int, int]) -> None:
        """Draws thin white lines between the cells of a grid over an image of a size."""
        lines = [(0.0, y, 1.0, y) for y in _cell_edges(size[0], rows)[1:-1]]
        lines += [(x, 0.0, x, 1.0) for x in _cell_edges(size[1], columns)[1:-1]]
        self._lines(box, lines, colors="white", linewidths=1)

    def frame(self, box: Box, colour: str = "#bbbbbb", width: float = 1.0) -> None:
        """Draws a frame whose outer edge is the box."""
        half = width / 2 / _POINTS
        corner = (box.left + half, box.top + half)
        sides = (box.width - 2 * half, box.height - 2 * half)
        look: Any = {"fill": False, "ec": colour, "lw": width, "joinstyle": "miter"}
        self.canvas.add_patch(Rectangle(corner, *sides, **look))

    def borders(
        self,
        box: Box,
        shares: Tensor | npt.NDArray[np.float64],
        inputs: Sequence[int],
        size: tuple[int, int],
        *,
        numbers: bool = True,
    ) -> None:
        """Draws the borders of an output's regions in the colours of their inputs.

        Where inputs are blended the border is dashed, in the colours of all of them.

        Args:
            box: where the output is.
            shares: (k, rows, columns) the share of each of k inputs at each location.
            inputs: their numbers, which have their colours: see `colour_of`.
            size: height and width of the image in pixels: cells end where pixels do.
            numbers: write each region's inputs, counted from 1, in its first cell.
        """
        found = borders_of(np.asarray(shares), size, (box.width, box.height), _INSET)
        for owners in dict.fromkeys(border.owners for border in found):
            own = [border for border in found if border.owners == owners]
            for stripe, owner in enumerate(owners):
                solid = stripe == 0  # the first colour lies under the gaps of all others
                dashes = (-_DASH * stripe, (_DASH, _DASH * (len(owners) - 1)))
                self._lines(
                    box,
                    [border[1:5] for border in own],
                    colors=colour_of(inputs[owner]),
                    linewidths=_LINE_WIDTH,
                    linestyles="solid" if solid else dashes,
                    capstyle="projecting" if solid else "butt",
                )
            first, here = own[0], [inputs[owner] for owner in owners]
            room = (first.x1 - first.x0) * box.width - 0.1
            fits = room >= text_width(_joined(here), _BADGE, bold=True)
            if numbers and len(inputs) > 1 and fits and first.room * box.height >= 0.2:
                left, top = box.left + first.x0 * box.width, box.top + first.y0 * box.height
                self.badge(left - _INSET, top - _INSET, here)

    def bar(
        self,
        box: Box,
        weights: Sequence[float],
        names: Sequence[str],
        colours: Sequence[str],
        size: float = 12,
    ) -> None:
        """Draws a soft target as a bar, the largest weight first, with what names fit on it.

        Weights that sum to less than one leave the rest of the bar empty; those that sum to more
        (several labels) share it.
        """
        whole, start = max(1.0, float(sum(weights))), box.left
        for k in sorted(range(len(weights)), key=lambda k: -weights[k]):
            share = float(weights[k])
            if share < _MIN_SHARE:
                break
            width = box.width * share / whole
            look: Any = {"fc": colours[k], "ec": "white", "lw": 1.5}
            self.canvas.add_patch(Rectangle((start, box.top), width, box.height, **look))
            self._label(Box(start, box.top, width, box.height), names[k], share, colours[k], size)
            start += width

    def _label(self, box: Box, name: str, share: float, colour: str, size: float) -> None:
        """Writes a class's name, and its weight where there is room, into its segment of a bar."""
        percent = f"{100 * share:.0f}%"
        middle, base = box.left + box.width / 2, box.top + 0.54 * box.height
        own, gap = text_width(name, size, bold=True), 0.4 * size / _POINTS
        both = own + gap + text_width(percent, _SMALL * size)
        style: Any = {"colour": _text_on(colour), "vertical": "center"}
        if both < 0.86 * box.width:
            left = middle - both / 2
            self.text(left, base, name, size, bold=True, **style)
            self.text(left + own + gap, base, percent, _SMALL * size, **style)
            return
        room = 0.94 * box.width
        words = fitting(name, room, size, bold=True)
        if own <= room or len(words) >= _FEWEST_LETTERS:
            self.text(middle, base, words, size, bold=True, align="center", **style)

    def badge(self, left: float, top: float, inputs: Sequence[int]) -> None:
        """Writes the numbers of inputs, counted from 1, on the colour of the first."""
        colour = colour_of(inputs[0])
        words, style = _joined(inputs), {"fc": colour, "ec": "none", "pad": 1.0}
        text = self.text(
            left + 0.085, top + 0.07, words, _BADGE, bold=True, colour=_text_on(colour)
        )
        text.set_bbox(style)

    def _lines(self, box: Box, lines: Sequence[Sequence[float]], **look: Any) -> None:
        """Draws lines from (x0, y0) to (x1, y1), in widths and heights of a box."""
        ends = [
            [(box.left + x * box.width, box.top + y * box.height) for x, y in (line[:2], line[2:])]
            for line in lines
        ]
        self.canvas.add_collection(LineCollection(ends, **look), autolim=False)

    def _place(self, box: Box, pixels: Tensor, **look: Any) -> None:
        left, top, width, height = box
        extent = (left, left + width, top + height, top)
        placed = AxesImage(
            self.canvas, extent=extent, origin="upper", interpolation="nearest", **look
        )
        placed.set_data(pixels.numpy())
        self.canvas.add_image(placed)


# ---- Where the regions of a mixed image end ------------------------------------------------------


class Border(NamedTuple):
    """A straight border of a region, in widths and heights of the image from its top left corner.

    Attributes:
        owners: the inputs of the region that it belongs to, the largest share first.
        x0: left end, or the whole line's if it is upright.
        y0: upper end, or the whole line's if it is level.
        x1: right end.
        y1: lower end.
        room: how far the region reaches from the line, at its first end.
    """

    owners: tuple[int, ...]
    x0: float
    y0: float
    x1: float
    y1: float
    room: float


def borders_of(
    shares: npt.NDArray[np.float64],
    size: tuple[int, int],
    inches: tuple[float, float],
    inset: float,
) -> list[Border]:
    """Returns the borders of all regions, those above a region first, from the top left on.

    Each is as long as it can be, and meets the next one of its region inside of the corner.

    Args:
        shares: (k, rows, columns) the share of each input at each location.
        size: height and width of the image in pixels.
        inches: width and height of the image on paper.
        inset: inches by which a border lies inside of its region.
    """
    mixtures = np.round(shares.reshape(len(shares), -1).T, 6)
    kinds, number = np.unique(mixtures, axis=0, return_inverse=True)
    owners = [
        tuple(i for i in np.argsort(-kind, kind="stable").tolist() if kind[i] > 1e-6)
        for kind in kinds
    ]
    _, rows, columns = shares.shape
    regions: npt.NDArray[np.int64] = number.reshape(rows, columns)
    down, across = _cell_edges(size[0], rows), _cell_edges(size[1], columns)
    dx, dy = inset / inches[0], inset / inches[1]
    found: list[Border] = []
    for upright, end in itertools.product((False, True), (0, 1)):  # above, below; left, right
        labels = regions.T if upright else regions
        edges, along = (across, down) if upright else (down, across)
        inside, corner = (dx, dy) if upright else (dy, dx)
        beyond = np.pad(labels, ((1, 1), (0, 0)), constant_values=-1)[2 * end :][: len(labels)]
        bordered = np.where(beyond != labels, labels, -1)
        for row, (kept, own) in enumerate(zip(bordered.tolist(), labels.tolist(), strict=True)):
            stop = 0
            for kind, run in itertools.groupby(kept):
                start, stop = stop, stop + len(list(run))
                if kind < 0:
                    continue
                # Where the region continues without a border, the corner lies outside of it.
                first = along[start] + (-corner if start and own[start - 1] == kind else corner)
                goes_on = stop < len(own) and own[stop] == kind
                last = along[stop] + (corner if goes_on else -corner)
                level = edges[row + end] + (-inside if end else inside)
                line = (level, first, level, last) if upright else (first, level, last, level)
                others = np.flatnonzero(labels[row:, start] != kind)
                room = edges[row + int(others[0]) if len(others) else -1] - edges[row]
                found.append(Border(owners[kind], *map(float, (*line, room))))
    return found


def _cell_edges(pixels: int, cells: int) -> npt.NDArray[np.float64]:
    """Returns where cells begin and end along a side, (cells + 1,) from 0 to 1.

    Cells end where pixels do: pixel x lies in cell x * cells // pixels.

    >>> (17 * _cell_edges(17, 4)).tolist()
    [0.0, 5.0, 9.0, 13.0, 17.0]
    """
    edges: npt.NDArray[np.float64] = -(-np.arange(cells + 1) * pixels // cells) / pixels
    return edges


# ---- Colours -------------------------------------------------------------------------------------


def tinted(images: Tensor) -> Tensor:
    """Returns images of one channel as coloured ink on paler paper, (m, 3, H, W).

    So it can be seen in a mixture which input a stroke is of.

    Args:
        images: (m, 1, H, W) in [0, 1]; 1 is ink.
    """
    chosen = [colour_of(i) for i in range(len(images))]
    colour = torch.tensor([to_rgb(one) for one in chosen], dtype=torch.float64)
    brightness = torch.tensor([_luminance(one) for one in chosen], dtype=torch.float64)
    dark = colour * (_INK / brightness.clamp(min=_INK)).clamp(max=0.9)[:, None]
    ink, paper = (part.float()[:, :, None, None] for part in (dark, colour))
    paper = _PAPER + (1 - _PAPER) * paper
    return paper + (ink - paper) * images.detach().float().cpu().clamp(0, 1)


def colour_of(number: int) -> str:
    """Returns the colour of an input by its number; after ten they begin again."""
    return COLOURS[number % len(COLOURS)]


def _joined(inputs: Sequence[int]) -> str:
    """Returns the numbers of inputs, counted from 1.

    >>> _joined([0, 4])
    '1+5'
    """
    return "+".join(str(number + 1) for number in inputs)


def _text_on(colour: str) -> str:
    """Returns black or white, whichever is legible on a colour."""
    return "white" if _luminance(colour) < _DARK_BELOW else "black"


def _luminance(colour: str) -> float:
    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue
