"""What is drawn of a batch: how it was mixed, and whether its saliency follows augmentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from matplotlib import colormaps, style
from matplotlib.figure import Figure
from torch import Tensor

from comixup._figures import fitting, text_width
from comixup.core.labelling import Labelling
from comixup.core.mix import Plan, mix_targets, soft_targets
from comixup.mixers import Boxes, Mixed, Puzzle
from comixup.plots._page import Box, Page, colour_of, tinted

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
CAPTION, _HEADING = 9, 12
"""Font sizes."""
MAX_GRID = 32
"""Cells per side up to which lines are drawn between them."""
_TOLERANCE = 1e-3
"""By which means of colours may leave [0, 1]."""
_BORDERS = "Borders: the input of each cell, dashed where several are blended. Bar: the target."
_INSIDE = "Mixed in the model, after {layer}: images stay as they are. Bar: the target."
_SCALED = "Colours are scaled to the batch's range; `mean` and `std` undo normalisation."
_SIDE, _SPACE, _EDGE, _LINE_ABOVE = 1.15, 0.07, 0.12, 0.3
"""Inches of tracked images: a side, between two, around all, and the line above a row."""
_PER_ROW = 10
_CELLS = 8
"""Per side of a map that is drawn: as many as a memory keeps."""
_OPACITY = 0.75
"""Of the most salient cell; the least salient one shows the image as it is."""


class _Target(NamedTuple):
    """The soft target of an output: its classes, and their colours."""

    weights: list[float]
    names: list[str]
    colours: list[str]


class BatchPicture:
    """A batch and what was decided for it, checked; see `plot_batch` for the arguments.

    Inputs with their saliency stand above, outputs with their targets below.
    """

    def __init__(
        self,
        images: Tensor,
        targets: Tensor,
        decided: Mixed,
        class_names: Sequence[str] | None,
        num_classes: int | None,
    ) -> None:
        plan = decided.plan
        if images.ndim != 4 or images.shape[1] not in (1, 3):
            raise ValueError(
                "`images` must have shape (batch, 1 or 3, height, width) to be drawn, got "
                f"{tuple(images.shape)}. Choose the channels or the slice to draw."
            )
        if len(images) != plan.num_inputs:
            raise ValueError(
                f"`images` must be the {plan.num_inputs} that were mixed, got {len(images)}. Give "
                "those that the mixer got, not those that it returned."
            )
        self.decided = decided
        self.pixels = images.detach().float().cpu()
        # How images of one channel are coloured, and what a reader has to know about colours.
        self.cmap, self.bounds, self.note = "", (0.0, 1.0), ""
        columns = num_classes if class_names is None else len(class_names)
        self.soft = soft_targets(
            targets.cpu() if isinstance(targets, Tensor) else targets, len(images), columns
        )
        self.names = [
            str(name).replace("_", " ") for name in class_names or range(self.soft.shape[1])
        ]
        ratio = decided.target_ratio
        self.ratio = (plan.source_ratio(images.shape[2:]) if ratio is None else ratio).cpu()

    def prepare_pixels(
        self, mean: Sequence[float] | None, std: Sequence[float] | None, *, tint: bool
    ) -> None:
        """Turns images into colours to draw."""
        channels = self.pixels.shape[1]
        if (mean is None) != (std is None):
            raise ValueError(f"`mean` and `std` must be given together, got {mean} and {std}.")
        if mean is not None and std is not None:
            for name, values in (("mean", mean), ("std", std)):
                if len(values) not in (1, channels):
                    raise ValueError(
                        f"`{name}` must have a number for each of the {channels} channels, got "
                        f"{len(values)}."
                    )
            scale, shift = (torch.tensor(values).view(-1, 1, 1) for values in (std, mean))
            self.pixels = self.pixels * scale + shift
        low, high = (float(bound) for bound in self.pixels.aminmax())
        colours = mean is not None or (low >= -_TOLERANCE and high <= 1 + _TOLERANCE)
        if tint:
            if channels != 1:
                raise ValueError(
                    f"`tint` must be False for images of {channels} channels, got True. Only "
                    "images of one channel can be drawn in ink."
                )
            self.pixels = tinted(self.pixels if colours else _scaled(self.pixels))
        elif not colours and channels == 1:  # no colours: a spectrogram
            self.cmap, self.bounds = "viridis", (low, high)
        elif not colours:
            self.pixels, self.note = _scaled(self.pixels), _SCALED

    def figure(
        self,
        title: str | None,
        max_inputs: int | None,
        max_outputs: int | None,
        saliency: Tensor | None,
    ) -> Figure:
        """Returns the figure, with at most so many inputs and outputs; None leaves them out."""
        first = middle = TITLE if title else 0.12
        cells = None if max_inputs is None else self._saliency(saliency)
        if max_inputs is not None:
            rows = math.ceil(len(self.pixels[:max_inputs]) / INPUT_COLUMNS)
            middle += HEAD + rows * self._input_row(cells) + 0.08
        targets = [] if max_outputs is None else self._targets(max_outputs)
        column, _, image_height = self._fitted(OUTPUT_COLUMNS)
        captions = _captions(targets, column - 0.5 * GAP)
        tops = [middle + HEAD]
        for start in range(0, len(targets), OUTPUT_COLUMNS):
            row = captions[start : start + OUTPUT_COLUMNS]
            lines = max(text.count("\n") + 1 if text else 0 for text in row)
            tops.append(tops[-1] + image_height + BAR + 0.05 + LINE * lines + 0.14)
        with style.context("default"):
            page = Page(WIDTH, (tops[-1] if targets else middle) + 0.1)
            if title:
                page.text(MARGIN, 0.12, title, 15, bold=True)
            if max_inputs is not None:
                lined = saliency is None and cells is not None and max(cells.shape[1:]) <= MAX_GRID
                self._draw_inputs(page, first, max_inputs, cells, lined=lined)
            if targets:
                layer = self.decided.layer
                told = _BORDERS if layer is None else _INSIDE.format(layer=layer)
                _heading(page, middle, "Outputs", len(targets), len(self.ratio), told)
                self._draw_outputs(page, tops, targets, captions)
            return page.figure

    def _fitted(self, columns: int) -> tuple[float, float, float]:
        """Returns a column's width, and the width and height of an image in it."""
        column = (WIDTH - 2 * MARGIN + GAP) / columns
        tall = self.pixels.shape[-2] / self.pixels.shape[-1]
        width = (column - GAP) * min(1.0, MAX_TALL / tall)
        return column, width, width * tall

    def _input_row(self, cells: Tensor | None) -> float:
        _, _, height = self._fitted(INPUT_COLUMNS)
        return (1 if cells is None else 2) * (height + 0.06) + BELOW

    def _draw_inputs(
        self, page: Page, top: float, most: int, cells: Tensor | None, *, lined: bool
    ) -> None:
        images, count = self.pixels[:most], len(self.pixels)
        shadows = _scaled(images) if self.cmap else images
        told = self.note
        if cells is not None:
            told += " Below each: the stronger the colour, the more salient."
        _heading(page, top, "Inputs", len(images), count, told.strip())
        column, width, height = self._fitted(INPUT_COLUMNS)
        for i, image in enumerate(images):
            row, place = divmod(i, INPUT_COLUMNS)
            down = top + HEAD + row * self._input_row(cells)
            box = Box(MARGIN + place * column, down, width, height)
            page.image(box, image, bounds=self.bounds, cmap=self.cmap)
            page.frame(box, colour_of(i), 3)
            if count > 1:
                page.badge(box.left, box.top, [i])
            if cells is not None:
                box = box._replace(top=box.top + height + 0.06)
                page.saliency(box, cells[i], colour_of(i), shadows[i])
                if lined:
                    rows, columns = cells.shape[1:]
                    page.grid(box, rows, columns, (image.shape[-2], image.shape[-1]))
                page.frame(box)
            name = fitting(self._input_name(self.soft[i]), column - 0.5 * GAP, CAPTION)
            page.text(box.left, box.top + height + 0.04, name, CAPTION)

    def _saliency(self, given: Tensor | None) -> Tensor | None:
        """Returns the maps to show, (m, rows, columns); None if there are none."""
        if given is None:
            cells = self.decided.cells
            return None if cells is None else cells.float().cpu()
        count = len(self.pixels)
        if not isinstance(given, Tensor) or given.ndim != 3 or len(given) != count:
            kind = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(
                f"`saliency` must have shape ({count}, height, width), a map for each image, got "
                f"{kind}."
            )
        return given.detach().float().cpu()

    def _input_name(self, target: Tensor) -> str:
        """Returns the name of an input's class: of the largest, and how many more it has."""
        more = int((target > 0).sum()) - 1
        return self.names[int(target.argmax())] + (f" + {more}" if more > 0 else "")

    def _targets(self, most: int) -> list[_Target]:
        found = []
        targets = mix_targets(self.soft, self.ratio)[:most]
        for ratio, target in zip(self.ratio[:most], targets, strict=True):
            present = target.nonzero().flatten().tolist()
            # A class has the colour of the input that brings most of it.
            brings = (ratio.unsqueeze(1) * self.soft).argmax(0)
            found.append(
                _Target(
                    [float(target[index]) for index in present],
                    [self.names[index] for index in present],
                    [colour_of(int(brings[index])) for index in present],
                )
            )
        return found

    def _draw_outputs(
        self, page: Page, tops: Sequence[float], targets: Sequence[_Target], captions: Sequence[str]
    ) -> None:
        plan, inside = self.decided.plan, self.decided.layer is not None
        images = self.pixels if inside else plan.mix_images(self.pixels)
        column, width, height = self._fitted(OUTPUT_COLUMNS)
        for j, (image, target, words) in enumerate(zip(images, targets, captions, strict=False)):
            row, place = divmod(j, OUTPUT_COLUMNS)
            box = Box(MARGIN + place * column, tops[row], width, height)
            page.image(box, image, bounds=self.bounds, cmap=self.cmap)
            if inside:
                page.frame(box)
            else:
                inputs, shares = output_shares(plan, j)
                page.borders(box, shares, inputs, (image.shape[-2], image.shape[-1]))
            bar = Box(box.left, box.top + height + 0.05, width, BAR)
            page.bar(bar, *target)
            if words:
                page.text(box.left, bar.top + BAR + 0.04, words, CAPTION)


def _heading(page: Page, top: float, words: str, shown: int, count: int, told: str) -> None:
    more = "" if shown == count else f" ({shown} of {count}; {count - shown} more not shown)"
    page.text(MARGIN, top + 0.06, words + more, _HEADING, bold=True)
    behind = MARGIN + text_width(words + more, _HEADING, bold=True) + 0.25
    page.text(behind, top + 0.085, told, 10)


def _captions(targets: Sequence[_Target], width: float) -> list[str]:
    """Returns the targets in words; empty ones if all names are short enough for the bars."""
    longest = max((len(name) for target in targets for name in target.names), default=0)
    return [
        caption(target.weights, target.names, width) if longest > SHORT_NAME else ""
        for target in targets
    ]


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


def _scaled(images: Tensor) -> Tensor:
    """Returns images in [0, 1], by the range of them all."""
    low, high = images.aminmax()
    return (images - low) / (high - low).clamp_min(torch.finfo(images.dtype).tiny)


def output_shares(plan: Plan, output: int) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Returns the inputs of an output, and the share of each at each location, (k, rows, columns).

    `plan.masks` holds the same for all inputs and outputs: for boxes in a batch of large images
    that would be gigabytes.

    >>> halves = Labelling(torch.tensor([[[[0, 4]]]]), num_inputs=5)
    >>> inputs, shares = output_shares(halves, 0)
    >>> inputs, shares.tolist()
    ([0, 4], [[[1.0, 0.0]], [[0.0, 1.0]]])
    """
    if isinstance(plan, Puzzle):
        plan = plan.labelling
    if isinstance(plan, Labelling):
        return _counted(plan.sources[output].cpu())
    if isinstance(plan, Boxes):
        owner = plan.owner[output if len(plan.begin) > 1 else 0]
        who = torch.cat([torch.tensor([output], device="cpu"), plan.partners[output].cpu()])
        return _counted(who[owner].unsqueeze(0))
    masks = plan.masks[output].cpu()
    masks = masks.view(len(masks), *[1] * (3 - masks.ndim), *masks.shape[1:])
    inputs = masks.flatten(1).amax(1).nonzero().flatten()
    return inputs.tolist(), masks[inputs].double().numpy()


def _counted(sources: Tensor) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Returns inputs and their shares of sources, (levels, rows, columns)."""
    inputs = torch.tensor(sorted(set(sources.flatten().tolist())), device="cpu")
    shares = (sources.unsqueeze(0) == inputs.view(-1, 1, 1, 1)).double().mean(1)
    return inputs.tolist(), shares.numpy()


def plot_tracked(
    images: Tensor, maps: Tensor, augmented: Tensor, tracked_maps: Tensor, title: str = ""
) -> Figure:
    """Returns a picture of images with their maps over them, and of the same after augmentation.

    Where tracking is right, a map lies on the same object in both.

    Args:
        images: (m, C, H, W) in [0, 1].
        maps: (m, h, w) their saliency.
        augmented: (m, C, H, W) in [0, 1].
        tracked_maps: (m, h, w) the saliency of what these show.
        title: of the picture.
    """
    rows: Sequence[tuple[str, Tensor, Tensor]] = (
        ("Images, with their saliency", images, F.adaptive_avg_pool2d(maps.float(), _CELLS)),
        ("After augmentation, with the saliency remembered for what they show", augmented,
         tracked_maps),
    )  # fmt: skip
    across = min(_PER_ROW, len(images))
    lines = -(-len(images) // across)
    above = _LINE_ABOVE if title else 0.0
    height = 2 * (lines * (_SIDE + _SPACE) + _LINE_ABOVE) + 2 * _EDGE + above
    with style.context("default"):
        page = Page(max(across * (_SIDE + _SPACE) - _SPACE + 2 * _EDGE, 4.0), height)
        if title:
            page.text(_EDGE, _EDGE, title, bold=True)
        top = _EDGE + above
        for words, shown, heat in rows:
            page.text(_EDGE, top + 0.04, words, size=10)
            for k, (image, values) in enumerate(zip(shown, heat, strict=True)):
                down, right = divmod(k, across)
                left = _EDGE + right * (_SIDE + _SPACE)
                box = Box(left, top + _LINE_ABOVE + down * (_SIDE + _SPACE), _SIDE, _SIDE)
                page.image(box, image)
                page.image(box, _overlay(values, image.shape[1:]))
            top += _LINE_ABOVE + lines * (_SIDE + _SPACE)
    return page.figure


def _overlay(values: Tensor, size: Sequence[int]) -> Tensor:
    """Returns a map as colours, (4, H, W), more opaque where it is larger."""
    scaled = values.detach().float().cpu()
    scaled = scaled / scaled.max().clamp(min=torch.finfo(torch.float32).tiny)
    scaled = F.interpolate(scaled[None, None], tuple(size), mode="nearest")[0, 0]
    colours = torch.from_numpy(colormaps["inferno"](scaled.numpy())).permute(2, 0, 1).float()
    colours[3] = _OPACITY * scaled
    return colours
