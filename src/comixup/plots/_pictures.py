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
_SIDE, _SPACE, _EDGE, _LINE_ABOVE = 1.15, 0.07, 0.12, 0.3
"""Inches of tracked images: a side, between two, around all, and the line above a row."""
_PER_ROW = 10
_CELLS = 8
"""Per side of a map that is drawn: as many as a memory keeps."""
_OPACITY = 0.75
"""Of the most salient cell; the least salient one shows the image as it is."""


class Colours(NamedTuple):
    """Images as they are drawn: pixels, the colours of one channel, and a note for the reader."""

    pixels: Tensor
    cmap: str = ""
    bounds: tuple[float, float] = (0.0, 1.0)
    note: str = ""


def prepare_pixels(
    images: Tensor, mean: Sequence[float] | None, std: Sequence[float] | None, *, tint: bool
) -> Colours:
    """Turns images into colours to draw; see `plot_batch` for the arguments."""
    pixels = images.detach().float().cpu()
    channels = pixels.shape[1]
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
        pixels = pixels * scale + shift
    low, high = (float(bound) for bound in pixels.aminmax())
    colours = mean is not None or (low >= -_TOLERANCE and high <= 1 + _TOLERANCE)
    if tint:
        if channels != 1:
            raise ValueError(
                f"`tint` must be False for images of {channels} channels, got True. Only images of "
                "one channel can be drawn in ink."
            )
        return Colours(tinted(pixels if colours else _scaled(pixels)))
    if colours:
        return Colours(pixels)
    if channels == 1:  # no colours: a spectrogram
        return Colours(pixels, "viridis", (low, high))
    note = "Colours are scaled to the batch's range; `mean` and `std` undo normalization."
    return Colours(_scaled(pixels), note=note)


def _scaled(images: Tensor) -> Tensor:
    """Returns images in [0, 1], by the range of them all."""
    low, high = images.aminmax()
    return (images - low) / (high - low).clamp_min(torch.finfo(images.dtype).tiny)


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
        plan, count = decided.plan, len(images)
        if images.ndim != 4 or images.shape[1] not in (1, 3):
            raise ValueError(
                "`images` must have shape (batch, 1 or 3, height, width) to be drawn, got "
                f"{tuple(images.shape)}. Choose the channels or the slice to draw."
            )
        if count != plan.num_inputs:
            raise ValueError(
                f"`images` must be the {plan.num_inputs} that were mixed, got {count}. Give "
                "those that the mixer got, not those that it returned."
            )
        self.decided, self.size = decided, (images.shape[-2], images.shape[-1])
        columns = num_classes if class_names is None else len(class_names)
        given = targets.cpu() if isinstance(targets, Tensor) else targets
        self.soft = soft_targets(given, count, columns)
        names = class_names or range(self.soft.shape[1])
        self.names = [str(name).replace("_", " ") for name in names]
        ratio = decided.target_ratio
        self.ratio = (plan.source_ratio(self.size) if ratio is None else ratio).cpu()

    def figure(
        self,
        colours: Colours,
        title: str | None,
        max_inputs: int | None,
        max_outputs: int | None,
        saliency: Tensor | None,
    ) -> Figure:
        """Returns the figure, with at most so many inputs and outputs; None leaves them out."""
        first = middle = TITLE if title else 0.12
        cells = None if max_inputs is None else self._saliency(saliency)
        lined = saliency is None and cells is not None and max(cells.shape[1:]) <= MAX_GRID
        if max_inputs is not None:
            rows = math.ceil(min(len(self.soft), max_inputs) / INPUT_COLUMNS)
            middle += HEAD + rows * self._input_row(cells) + 0.08
        targets = [] if max_outputs is None else self._targets(max_outputs)
        column, _, image_height = self._fitted(OUTPUT_COLUMNS)
        longest = max((len(name) for target in targets for name in target.names), default=0)
        captions = [
            caption(target.weights, target.names, column - 0.5 * GAP)
            if longest > SHORT_NAME
            else ""
            for target in targets
        ]
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
                self._draw_inputs(page, first, colours, max_inputs, cells, lined=lined)
            if targets:
                layer = self.decided.layer
                note = "Borders: the input of each cell, dashed where several are blended."
                if layer is not None:
                    note = f"Mixed in the model, after {layer}: images stay as they are."
                note += " Bar: the target."
                _write_heading(page, middle, "Outputs", len(targets), len(self.ratio), note)
                self._draw_outputs(page, tops, colours, targets, captions)
            return page.figure

    def _fitted(self, columns: int) -> tuple[float, float, float]:
        """Returns a column's width, and the width and height of an image in it."""
        column = (WIDTH - 2 * MARGIN + GAP) / columns
        tall = self.size[0] / self.size[1]
        width = (column - GAP) * min(1.0, MAX_TALL / tall)
        return column, width, width * tall

    def _input_row(self, cells: Tensor | None) -> float:
        _, _, height = self._fitted(INPUT_COLUMNS)
        return (1 if cells is None else 2) * (height + 0.06) + BELOW

    def _draw_inputs(
        self,
        page: Page,
        top: float,
        colours: Colours,
        most: int,
        cells: Tensor | None,
        *,
        lined: bool,
    ) -> None:
        images, count = colours.pixels[:most], len(colours.pixels)
        shadows = _scaled(images) if colours.cmap else images
        note = colours.note
        if cells is not None:
            note += " Below each: the stronger the colour, the more salient."
        _write_heading(page, top, "Inputs", len(images), count, note.strip())
        column, width, height = self._fitted(INPUT_COLUMNS)
        for i, image in enumerate(images):
            row, place = divmod(i, INPUT_COLUMNS)
            down = top + HEAD + row * self._input_row(cells)
            box = Box(MARGIN + place * column, down, width, height)
            page.image(box, image, bounds=colours.bounds, cmap=colours.cmap)
            page.frame(box, colour_of(i), 3)
            if count > 1:
                page.badge(box.left, box.top, [i])
            if cells is not None:
                box = box._replace(top=box.top + height + 0.06)
                page.saliency(box, cells[i], colour_of(i), shadows[i])
                if lined:
                    page.grid(box, cells.shape[1], cells.shape[2], self.size)
                page.frame(box)
            # The name of the largest class, and how many more it has.
            more = int((self.soft[i] > 0).sum()) - 1
            name = self.names[int(self.soft[i].argmax())] + (f" + {more}" if more > 0 else "")
            words = fitting(name, column - 0.5 * GAP, CAPTION)
            page.text(box.left, box.top + height + 0.04, words, CAPTION)

    def _saliency(self, given: Tensor | None) -> Tensor | None:
        """Returns the maps to show, (m, rows, columns); None if there are none."""
        if given is None:
            cells = self.decided.cells
            return None if cells is None else cells.float().cpu()
        count = len(self.soft)
        if not isinstance(given, Tensor) or given.ndim != 3 or len(given) != count:
            kind = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(
                f"`saliency` must have shape ({count}, height, width), a map for each image, got "
                f"{kind}."
            )
        return given.detach().float().cpu()

    def _targets(self, most: int) -> list[_Target]:
        found = []
        targets = mix_targets(self.soft, self.ratio)[:most]
        for ratio, target in zip(self.ratio[:most], targets, strict=True):
            present = target.nonzero().flatten().tolist()
            # A class has the colour of the input that brings most of it.
            brings = (ratio.unsqueeze(1) * self.soft).argmax(0)
            names = [self.names[index] for index in present]
            colours = [colour_of(int(brings[index])) for index in present]
            found.append(_Target(target[present].tolist(), names, colours))
        return found

    def _draw_outputs(
        self,
        page: Page,
        tops: Sequence[float],
        colours: Colours,
        targets: Sequence[_Target],
        captions: Sequence[str],
    ) -> None:
        plan, inside = self.decided.plan, self.decided.layer is not None
        images = colours.pixels if inside else plan.mix_images(colours.pixels)
        column, width, height = self._fitted(OUTPUT_COLUMNS)
        for j, (image, target, words) in enumerate(zip(images, targets, captions, strict=False)):
            row, place = divmod(j, OUTPUT_COLUMNS)
            box = Box(MARGIN + place * column, tops[row], width, height)
            page.image(box, image, bounds=colours.bounds, cmap=colours.cmap)
            if inside:
                page.frame(box)
            else:
                inputs, shares = masks_of_output(plan, j)
                page.borders(box, shares, inputs, self.size)
            bar = Box(box.left, box.top + height + 0.05, width, BAR)
            page.bar(bar, *target)
            if words:
                page.text(box.left, bar.top + BAR + 0.04, words, CAPTION)


def _write_heading(page: Page, top: float, words: str, shown: int, count: int, note: str) -> None:
    words += "" if shown == count else f" ({shown} of {count}; {count - shown} more not shown)"
    page.text(MARGIN, top + 0.06, words, _HEADING, bold=True)
    behind = MARGIN + text_width(words, _HEADING, bold=True) + 0.25
    page.text(behind, top + 0.085, note, 10)


def caption(weights: Sequence[float], names: Sequence[str], width: float) -> str:
    """Returns a soft target in words, the largest weight first, in a few lines of so many inches.

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
        tail = "" if left == 1 else "," if len(written) < MAX_LINES else f", {left - 1} more"
        if text_width(line + tail, CAPTION) <= width:
            written[-1] = line
        elif len(written) < MAX_LINES:
            written[-1] += ","
            written.append(words)
        else:
            more = f", {left} more"
            written[-1] = fitting(written[-1], width - text_width(more, CAPTION), CAPTION) + more
            break
    return "\n".join(written)


def masks_of_output(plan: Plan, output: int) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Returns the inputs of an output, and the share of each at each location, (k, rows, columns).

    `plan.masks` holds the same for all inputs and outputs: for boxes in a batch of large images
    that would be gigabytes.

    >>> halves = Labelling(torch.tensor([[[[0, 4]]]]), num_inputs=5)
    >>> inputs, shares = masks_of_output(halves, 0)
    >>> inputs, shares.tolist()
    ([0, 4], [[[1.0, 0.0]], [[0.0, 1.0]]])
    """
    if isinstance(plan, Puzzle):
        plan = plan.labelling
    if isinstance(plan, Labelling):
        sources = plan.sources[output].cpu()
    elif isinstance(plan, Boxes):
        owner = plan.owner[output if len(plan.begin) > 1 else 0]
        who = torch.cat([torch.tensor([output], device="cpu"), plan.partners[output].cpu()])
        sources = who[owner].unsqueeze(0)
    else:
        masks = plan.masks[output].cpu()
        masks = masks.view(len(masks), *[1] * (3 - masks.ndim), *masks.shape[1:])
        inputs = masks.flatten(1).amax(1).nonzero().flatten()
        return inputs.tolist(), masks[inputs].double().numpy()
    inputs = torch.unique(sources)
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
    pooled = F.adaptive_avg_pool2d(maps.float(), _CELLS)
    after = "After augmentation, with the saliency remembered for what they show"
    across = min(_PER_ROW, len(images))
    lines = -(-len(images) // across)
    above = _LINE_ABOVE if title else 0.0
    height = 2 * (lines * (_SIDE + _SPACE) + _LINE_ABOVE) + 2 * _EDGE + above
    with style.context("default"):
        page = Page(max(across * (_SIDE + _SPACE) - _SPACE + 2 * _EDGE, 4.0), height)
        if title:
            page.text(_EDGE, _EDGE, title, bold=True)
        top = _EDGE + above
        for words, shown, heat in (
            ("Images, with their saliency", images, pooled),
            (after, augmented, tracked_maps),
        ):
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
