"""Pictures of mixed images: all methods on one pair, the procedure, and sample sheets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from matplotlib import style
from matplotlib.figure import Figure
from torch import Tensor

from comixup import CoMixup, CutMix, InputMixup, Labelling, Mixer, PuzzleMix
from comixup._figures import shortened, write_figure
from comixup.lab.paper._images import Batch, Images, Photographs
from comixup.lab.paper._store import Row
from comixup.plots import Box, Page, colour_of

_DPI = 150
_SEED = 8
_PROCEDURE_INPUTS = 6
SHEET, SHEET_COLUMNS = 24, 8
SHEET_TAUS = (0.83, 1.0)
_MIN_WEIGHT = 0.05
_NAME = 12
_DRAWS, _EVEN = 40, 0.3
_WIDTH, _MARGIN, _GAP = 11.0, 0.15, 0.12
_LINE = 0.15
"""Inches: of a figure, around it and between images, and of a line of text."""


def draw_methods(images: Images | Photographs, stem: Path) -> list[Row]:
    """Draws a pair of images as each method mixes it (Figure 1); returns the targets."""
    batch = images.batch(CoMixup().partition_size or 2, _SEED, augment=False)
    pair = _first(batch, 2)
    mixed: dict[str, tuple[Tensor, Tensor]] = {}
    makers: dict[str, Callable[[torch.Generator], Mixer]] = {
        "Input mixup": lambda g: InputMixup(None, generator=g),
        "CutMix": lambda g: CutMix(None, generator=g),
        "Puzzle Mix": lambda g: PuzzleMix(None, grid=4, generator=g),
        "Co-Mixup, m = 2": lambda g: CoMixup(None, generator=g),
    }
    for name, make in makers.items():
        mixed[name] = _evenly_mixed(make, pair)
    whole, ratios = _mix(CoMixup(None, generator=_seeded()), batch)
    with_first = int(ratios[:, 0].argmax())
    mixed[f"Co-Mixup, m = {len(batch.images)}"] = whole[with_first], ratios[with_first]

    names = images.names(batch.targets)
    titles = ["input 1", "input 2", *mixed]
    pictures = [*pair.pixels, *(picture for picture, _ in mixed.values())]
    captions = [*names[:2], *(_caption(ratio, names) for _, ratio in mixed.values())]
    column = (_WIDTH - 2 * _MARGIN + _GAP) / len(pictures)
    side = column - _GAP
    lines = max(caption.count("\n") + 1 for caption in captions)
    with style.context("default"):
        page = Page(_WIDTH, 0.35 + side + 0.1 + _LINE * lines)
        for k, (picture, title, caption) in enumerate(zip(pictures, titles, captions, strict=True)):
            box = Box(_MARGIN + k * column, 0.3, side, side)
            _show(page, box, picture)
            page.text(box.left + side / 2, 0.08, title, 9, align="center")
            page.text(box.left + side / 2, 0.35 + side, caption, 8, align="center")
        figure = page.figure
    _write(figure, stem)
    return [
        {"method": name, **{f"input_{i + 1}": float(w) for i, w in enumerate(ratio) if w > 0}}
        for name, (_, ratio) in mixed.items()
    ]


def draw_procedure(images: Images | Photographs, stem: Path) -> list[Row]:
    """Draws inputs, their saliency, outputs and source counts (Figure 3); returns the counts."""
    batch = images.batch(_PROCEDURE_INPUTS, _SEED, augment=False)
    mixer = CoMixup(None, generator=_seeded())
    outputs, _ = _mix(mixer, batch)
    plan = _plan(mixer)
    counts = plan.source_counts
    names = images.names(batch.targets)
    count, label = len(batch.images), 0.6
    column = (_WIDTH - _MARGIN - label) / count
    side, tall = column - _GAP, 1.0
    tops = [0.3, 0.36 + side, 0.66 + 2 * side, 0.8 + 3 * side]
    with style.context("default"):
        page = Page(_WIDTH, tops[-1] + tall + 0.45)
        for i in range(count):
            left = label + i * column
            boxes = [Box(left, top, side, side) for top in tops[:3]]
            _show(page, boxes[0], batch.pixels[i])
            page.frame(boxes[0], colour_of(i), 3)
            name = f"input {i + 1}: {shortened(names[i], _NAME)}"
            page.text(left, 0.1, name, 9)
            assert mixer.last.cells is not None
            page.saliency(boxes[1], mixer.last.cells[i], colour_of(i), _ink(batch.pixels[i]))
            page.grid(boxes[1], plan.grid[0], plan.grid[1], _size(outputs[i]))
            page.frame(boxes[1])
            page.text(left, tops[2] - 0.2, f"output {i + 1}", 9)
            _show(page, boxes[2], outputs[i])
            page.borders(boxes[2], plan.masks[i], range(count), _size(outputs[i]))
            ax = page.axes(Box(left, tops[3], side, tall))
            ax.bar(
                range(1, count + 1), counts[i].tolist(), color=[colour_of(k) for k in range(count)]
            )
            ax.set(ylim=(0, math.prod(plan.grid)), xticks=range(1, count + 1))
            ax.tick_params(labelsize=8)
            ax.spines[["top", "right"]].set_visible(False)
            if i:
                ax.set_yticklabels([])
        for top, words in zip(tops, ("batch", "saliency", "mixed", "locations"), strict=True):
            middle = top + (tall if top == tops[-1] else side) / 2
            page.text(0.02, middle, words, 10, vertical="center").set_rotation(90)
        page.text(_WIDTH / 2, tops[-1] + tall + 0.25, "input", 9, align="center")
        figure = page.figure
    _write(figure, stem)
    return [
        {"output": j + 1, **{f"input_{i + 1}": float(n) for i, n in enumerate(row)}}
        for j, row in enumerate(counts)
    ]


def draw_samples(images: Images | Photographs, stem: Path) -> list[Row]:
    """Draws 24 inputs, and their outputs at two values of tau (Figures 11 to 13).

    Returns the inputs per output at each tau.
    """
    batch = images.batch(SHEET, _SEED, augment=False)
    sheets: dict[str, tuple[Tensor, list[str]]] = {}
    names = images.names(batch.targets)
    sheets["inputs"] = batch.pixels, [shortened(name, _NAME) for name in names]
    rows: list[Row] = []
    for tau in SHEET_TAUS:
        mixer = CoMixup(None, tau=tau, partition_size=SHEET, generator=_seeded())
        outputs, ratios = _mix(mixer, batch)
        used = (ratios > 0).sum(1)
        words = [f"{n} input{'s' if n > 1 else ''}" for n in used.tolist()]
        title = f"outputs, tau = {tau:g}: {used.double().mean():.1f} inputs each on average"
        sheets[title] = outputs, words
        rows += [
            {"tau": tau, "inputs": n, "outputs": int((used == n).sum())}
            for n in range(1, int(used.max()) + 1)
        ]
    for number, (title, (pictures, words)) in enumerate(sheets.items()):
        name = ("inputs", "outputs", "outputs-large-tau")[number]
        _write(_sheet(pictures, words, title), stem.with_name(f"{stem.name}-{name}"))
    return rows


def _sheet(pictures: Tensor, words: Sequence[str], title: str) -> Figure:
    column = (_WIDTH - 2 * _MARGIN + _GAP) / SHEET_COLUMNS
    side = column - _GAP
    row = side + 0.3
    with style.context("default"):
        page = Page(_WIDTH, 0.4 + row * -(-len(pictures) // SHEET_COLUMNS))
        page.text(_WIDTH / 2, 0.1, title, 10, align="center")
        for k, (picture, word) in enumerate(zip(pictures, words, strict=True)):
            down, across = divmod(k, SHEET_COLUMNS)
            box = Box(_MARGIN + across * column, 0.4 + down * row, side, side)
            _show(page, box, picture)
            page.text(box.left + side / 2, box.top + side + 0.05, word, 8, align="center")
        return page.figure


def _mix(mixer: Mixer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Returns a batch's outputs in [0, 1] colours, and the inputs' ratios in each."""
    count = len(batch.images)
    _, ratios = mixer(
        batch.images, torch.eye(count), batch.saliency if mixer.needs_saliency else None
    )
    assert mixer.last is not None
    return mixer.last.plan.mix_images(batch.pixels), ratios


def _evenly_mixed(make: Callable[[torch.Generator], Mixer], pair: Batch) -> tuple[Tensor, Tensor]:
    """Returns an output of a pair that shows both, and its ratios: the first of some draws.

    A random partner may be the image itself, and a ratio near 0 or 1 shows nothing. Where no draw
    shows enough of both, it is the one that shows most.
    """
    tries = [_mix(make(torch.Generator().manual_seed(seed)), pair) for seed in range(_DRAWS)]
    found = [(x[j], r[j]) for x, r in tries for j in (0, 1)]
    return max(found, key=lambda output: min(float(output[1].min()), _EVEN))


def _plan(mixer: CoMixup) -> Labelling:
    assert mixer.last is not None
    plan = mixer.last.plan
    assert isinstance(plan, Labelling)
    return plan


def _first(batch: Batch, count: int) -> Batch:
    return Batch(
        batch.images[:count], batch.pixels[:count], batch.targets[:count], batch.saliency[:count]
    )


def _caption(ratio: Tensor, names: Sequence[str]) -> str:
    """Returns the weights of a target in words, the largest first, of classes that matter."""
    weights: dict[str, float] = {}
    for name, weight in zip(names, ratio.tolist(), strict=False):
        weights[name] = weights.get(name, 0.0) + weight
    order = sorted(weights.items(), key=lambda pair: -pair[1])
    lines = [f"{shortened(n, _NAME)}: {w:.2f}" for n, w in order if w >= _MIN_WEIGHT]
    return "\n".join(lines)


def _show(page: Page, box: Box, picture: Tensor) -> None:
    """Shows an image, (C, H, W) in [0, 1] colours; one channel as black ink."""
    page.image(box, _ink(picture))
    page.frame(box, "#999999", 0.6)


def _ink(picture: Tensor) -> Tensor:
    return 1 - picture if len(picture) == 1 else picture


def _size(picture: Tensor) -> tuple[int, int]:
    return picture.shape[-2], picture.shape[-1]


def _write(figure: Figure, stem: Path) -> None:
    for suffix in (".png", ".svg"):
        write_figure(figure, stem.with_name(stem.name + suffix), _DPI)


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(_SEED)


DRAWN: Mapping[str, Callable[[Images | Photographs, Path], list[Row]]] = {
    "methods": draw_methods,
    "procedure": draw_procedure,
    "samples": draw_samples,
}
"""By the name of the item."""
