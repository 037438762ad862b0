"""Figures of localisation, of corrupted backgrounds, and of what a network looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from comixup._figures import shortened, write_figure
from comixup.lab.data import DataSet, Split
from comixup.lab.evaluation._boxes import box_areas, with_background
from comixup.lab.evaluation._cam import ActivationMaps, CamMethod
from comixup.lab.evaluation._corruption import CORRUPTIONS, CorruptedLoader
from comixup.lab.evaluation._localisation import Localisation, upsampled
from comixup.plots import Box, Page

TRUE, FOUND = "#E69F00", "#56B4E9"
"""Colours of true boxes and found ones: told apart by those who see few colours too."""
SHOWN = 6
"""Images in a row."""
SIDE, MARGIN, GAP, HEAD, ROW_HEAD, CAPTION = 1.75, 0.3, 0.1, 0.75, 0.3, 0.45
"""Inches: of an image, at the borders, between images, of the title, of a row's and of captions."""
MIN_COLUMNS = 4
"""Images that a page has the width of, at least, so that its title fits."""
MAX_NAME = 20
"""Letters of a class's name."""
OPACITY = 0.5
"""Of maps over images."""
MAP_SIDE, MAP_HEAD, MAX_MAP_TITLE = 2.4, 0.35, 60
"""Inches of an image beside its map and of the title above them; letters of that title."""
_WORDS = {
    "replace": "Background replaced by another image's",
    "noise": "Background replaced by noise, as the paper's formula has it",
    "added-noise": "Noise added to the background, as the paper's text has it",
}


def draw_localisation(
    model: nn.Module,
    data: DataSet,
    split: Split,
    boxes: Tensor,
    found: Localisation,
    path: Path,
    title: str,
    *,
    layer: str | None = None,
    method: CamMethod = "cam",
    image_size: int | None = None,
    device: torch.device | str = "cpu",
) -> None:
    """Writes a PNG file with the images whose objects were found best and worst.

    Args:
        model: a classifier on the device, in evaluation mode.
        data: the data set, for its colours and the classes' names.
        split: the images.
        boxes: (n, k, 4), the true ones, in the split's order.
        found: what `localise` made of them.
        path: where to.
        title: what model this is.
        layer: as for `localise`.
        method: as for `localise`.
        image_size: as for `Split.loader`.
        device: where to compute.
    """
    order = found.ious.argsort(descending=True, stable=True)
    count = min(SHOWN, (len(order) + 1) // 2)
    chosen = torch.cat((order[:count], order.flip(0)[: min(count, len(order) - count)]))
    indices = found.indices[chosen]
    loader = split.subset(indices).loader(len(indices), image_size=image_size, device=device)
    images, targets = next(loader.epoch(0))
    maps, logits = ActivationMaps(model, images, layer=layer, method=method)(images, targets)
    captions = [
        f"{_short(data.classes[target])}, IoU {iou:.2f}\n{_verdict(data.classes, target, guess)}"
        for target, guess, iou in zip(
            targets.tolist(), logits.argmax(1).tolist(), found.ious[chosen].tolist(), strict=True
        )
    ]
    figure = localisation_figure(
        data.pixels(images),
        upsampled(maps, (images.shape[2], images.shape[3])),
        found.boxes[chosen],
        boxes[indices],
        captions,
        count,
        f"{title}: GT-known Loc {found.gt_known:.1f} %, Top-1 Loc {found.top1_loc:.1f} %",
    )
    write_figure(figure, path)


def localisation_figure(
    pixels: Tensor,
    heat: Tensor,
    found: Tensor,
    truth: Tensor,
    captions: Sequence[str],
    best: int,
    title: str,
) -> Figure:
    """Returns a figure of images and, below each, its map, with found and true boxes on both.

    Args:
        pixels: (n, 1 or 3, H, W) in [0, 1].
        heat: (n, H, W) maps from 0 to 1.
        found: (n, 4) boxes found; zeros for none.
        truth: (n, k, 4) true boxes.
        captions: a text of up to two lines for each image.
        best: how many of the images, from the first on, were found best; the others worst.
        title: of the figure.
    """
    rows: list[tuple[str, range]] = []
    for words, numbers in (("Best", range(best)), ("Worst", range(best, len(pixels)))):
        if numbers:
            rows += [(f"{words} by IoU", numbers), ("", numbers)]
    with style.context("default"):
        room = [(ROW_HEAD, GAP) if words else (0.0, CAPTION) for words, _ in rows]
        page = _Rows(title, room, max(best, len(pixels) - best), pixels)
        page.explain(
            ("true box", TRUE, "-"),
            (
                "box found in the map of the true class, which is bright where it is high",
                FOUND,
                "--",
            ),
        )
        for row, (words, numbers) in enumerate(rows):
            page.name_row(row, words)
            for column, number in enumerate(numbers):
                ax = page.show(row, column, pixels[number])
                if not words:
                    ax.imshow(heat[number].cpu().numpy(), cmap="magma", alpha=OPACITY)
                    ax.set_xlabel(captions[number], fontsize=8, labelpad=3, parse_math=False)
                _draw_boxes(ax, truth[number], TRUE, "-")
                _draw_boxes(ax, found[number][None], FOUND, "--")
        return page.figure


def draw_corruptions(
    data: DataSet,
    split: Split,
    boxes: Tensor,
    path: Path,
    title: str,
    *,
    seed: int = 0,
    image_size: int | None = None,
) -> None:
    """Writes a PNG file with images of a split, clean and under every corruption.

    They are evenly spread over the split, of those that have a background. Backgrounds come from
    one another.

    Args:
        data: the data set, for its colours.
        split: the images.
        boxes: (n, k, 4) in the split's order.
        path: where to.
        title: what data these are.
        seed: decides what is drawn.
        image_size: as for `Split.loader`.
    """
    size = (image_size, image_size) if image_size else data.shape[1:]
    fitting = with_background(boxes, size).nonzero()[:, 0]
    if len(fitting) < 2:
        raise ValueError(
            "`boxes` must leave a background in two images at least, got "
            f"{len(fitting)}. There is nothing to draw."
        )
    spaced = torch.linspace(0, len(fitting) - 1, min(SHOWN, len(fitting))).long()
    indices = fitting[spaced]
    chosen, their_boxes = split.subset(indices), boxes[indices]
    clean, _ = next(chosen.loader(len(indices), image_size=image_size).epoch(0))
    rows = {"Clean": data.pixels(clean)}
    for kind in CORRUPTIONS:
        loader = CorruptedLoader(
            data, chosen, their_boxes, kind, len(indices), seed=seed, image_size=image_size
        )
        rows[_WORDS[kind]] = data.pixels(next(loader.epoch())[0])
    write_figure(corruption_figure(rows, their_boxes, title), path)


def corruption_figure(rows: dict[str, Tensor], boxes: Tensor, title: str) -> Figure:
    """Returns a figure with a row of images under each heading, and their boxes.

    Args:
        rows: (n, 1 or 3, H, W) pixels in [0, 1] by their headings.
        boxes: (n, k, 4), the same for all rows.
        title: of the figure.
    """
    with style.context("default"):
        room = [(ROW_HEAD, GAP)] * len(rows)
        page = _Rows(title, room, len(boxes), next(iter(rows.values())))
        page.explain(("box: what is inside stays as it is", TRUE, "-"))
        for row, (words, pixels) in enumerate(rows.items()):
            page.name_row(row, words)
            for column, image in enumerate(pixels):
                _draw_boxes(page.show(row, column, image), boxes[column], TRUE, "-")
        return page.figure


class _Rows:
    """Rows of images under a title, on a page."""

    def __init__(
        self, title: str, room: Sequence[tuple[float, float]], columns: int, pixels: Tensor
    ) -> None:
        if pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
            raise ValueError(
                "`pixels` must have shape (n, 1 or 3, height, width) to be drawn, got "
                f"{tuple(pixels.shape)}."
            )
        self._tall = SIDE * pixels.shape[2] / pixels.shape[3]
        self._tops, top = [], HEAD
        for above, below in room:  # each row's images
            self._tops.append(top + above)
            top += above + self._tall + below
        width = 2 * MARGIN + max(columns, MIN_COLUMNS) * (SIDE + GAP) - GAP
        self._page = Page(width, top + MARGIN / 2)
        self._page.text(MARGIN, 0.12, title, 12, bold=True)
        self.figure = self._page.figure

    def explain(self, *lines: tuple[str, str, str]) -> None:
        """Writes what lines of some colour and dashes are."""
        left = MARGIN
        for words, colour, dashes in lines:
            self._page.canvas.plot([left, left + 0.35], [0.54, 0.54], color=colour, ls=dashes, lw=2)
            self._page.text(left + 0.42, 0.46, words, 9)
            left += 0.7 + 0.075 * len(words)

    def name_row(self, row: int, words: str) -> None:
        """Writes a row's heading."""
        self._page.text(MARGIN, self._tops[row] - ROW_HEAD + 0.08, words, 10, bold=True)

    def show(self, row: int, column: int, image: Tensor) -> Axes:
        """Returns axes with an image; their unit is a pixel."""
        left = MARGIN + column * (SIDE + GAP)
        ax = self._page.axes(Box(left, self._tops[row], SIDE, self._tall))
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        shown = image.detach().float().cpu().clamp(0, 1).expand(3, -1, -1)  # grey has one channel
        ax.imshow(shown.permute(1, 2, 0).numpy())
        return ax


def _draw_boxes(ax: Axes, boxes: Tensor, colour: str, dashes: str) -> None:
    """Draws boxes along the outer edges of their pixels; those without pixels are left out."""
    for x0, y0, x1, y1 in boxes[box_areas(boxes) > 0].tolist():
        # The middle of the first pixel is at 0.
        corner = (x0 - 0.5, y0 - 0.5)
        box = Rectangle(corner, x1 - x0, y1 - y0, fill=False, ec=colour, ls=dashes, lw=1.8)
        ax.add_patch(box).set_clip_on(False)  # or half of the line along a border would be lost


def _verdict(classes: Sequence[str], target: int, guess: int) -> str:
    return "predicted correctly" if guess == target else f"predicted {_short(classes[guess])}"


def _short(name: str) -> str:
    return shortened(name.replace("_", " "), MAX_NAME)


def draw_map(view: Tensor, heat: Tensor, title: str, path: Path) -> None:
    """Writes a PNG file with an image as the network sees it and, beside it, its activation map.

    Args:
        view: (1 or 3, H, W) uint8.
        heat: (h, w) the map, of any range.
        title: what was predicted.
        path: where to.
    """
    pixels = view.expand(3, -1, -1).permute(1, 2, 0).numpy()
    large = upsampled(heat[None], (view.shape[1], view.shape[2]))[0].numpy()
    with style.context("default"):
        figure = Figure((2 * MAP_SIDE, MAP_SIDE + MAP_HEAD), facecolor="white")
        height = MAP_SIDE / (MAP_SIDE + MAP_HEAD)
        for column in range(2):
            ax = figure.add_axes((column / 2 + 0.01, 0.01, 0.48, height - 0.02))
            ax.set_axis_off()
            ax.imshow(pixels)
            if column:
                ax.imshow(large, cmap="magma", alpha=OPACITY)
        words = shortened(title, MAX_MAP_TITLE)
        figure.text(0.02, 0.985, words, va="top", fontsize=10, weight="bold", parse_math=False)
    write_figure(figure, path)
