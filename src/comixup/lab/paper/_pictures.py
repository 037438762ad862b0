"""The paper's pictures: methods on one pair, the procedure, compatibility, and sample sheets."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from comixup import CoMixup, Labelling, Mixer, Problem, objective, solve
from comixup._figures import shortened, write_figure
from comixup._methods import METHODS
from comixup.lab.paper._images import Batch, Source
from comixup.lab.paper._store import Row
from comixup.lab.training._mixers import MIXERS
from comixup.plots import Box, Page, colour_of

_DPI = 150
_SEED = 8
_PROCEDURE_INPUTS = 6
SHEET, _SHEET_COLUMNS = 24, 8
_SHEET_TAUS = {0.83: "outputs", 1.0: "outputs-large-tau"}
_MIN_WEIGHT = 0.05
_NAME = 12
_DRAWS, _EVEN = 40, 0.3
_WIDTH, _MARGIN, _GAP = 11.0, 0.15, 0.12
_LINE = 0.15
"""Inches: of a figure, around it and between images, and of a line of text."""


def draw_methods(images: Source, stem: Path) -> list[Row]:
    """Draws a pair of images as each method mixes it (Figure 1); returns the targets."""
    batch = images.batch(CoMixup().partition_size or 2, _SEED, augment=False)
    pair = batch.chosen(torch.arange(2))
    mixed: dict[str, tuple[Tensor, Tensor]] = {}
    for method in ("input", "cutmix", "puzzlemix", "comixup"):
        title = METHODS[method].title if method != "comixup" else "Co-Mixup, m = 2"
        own = {"grid": 4} if method == "puzzlemix" else {}
        kind: Callable[..., Mixer] = MIXERS[method]
        make = functools.partial(kind, None, **own)
        mixed[title] = _evenly_mixed(make, pair)
    whole, ratios = _mix(CoMixup(None, generator=_seeded()), batch)
    with_first = int(ratios[:, 0].argmax())
    mixed[f"Co-Mixup, m = {len(batch.images)}"] = whole[with_first], ratios[with_first]

    pictures = [*pair.pixels, *(picture for picture, _ in mixed.values())]
    captions = [*pair.names, *(_caption(ratio, batch.names) for _, ratio in mixed.values())]
    with style.context("default"):
        page, boxes = _sheet(pictures, captions, len(pictures), 0.3)
        for box, title in zip(boxes, ("input 1", "input 2", *mixed), strict=True):
            page.text(box.left + box.width / 2, 0.08, title, 9, align="center")
    _write(page.figure, stem)
    return [
        {"method": name, **{f"input_{i + 1}": float(w) for i, w in enumerate(ratio) if w > 0}}
        for name, (_, ratio) in mixed.items()
    ]


def draw_procedure(images: Source, stem: Path) -> list[Row]:
    """Draws inputs, their saliency, outputs and source counts (Figure 3); returns the counts."""
    batch = images.batch(_PROCEDURE_INPUTS, _SEED, augment=False)
    mixer = CoMixup(None, generator=_seeded())
    outputs, _ = _mix(mixer, batch)
    plan, cells = mixer.last.plan, mixer.last.cells
    assert isinstance(plan, Labelling)
    assert cells is not None
    counts = plan.source_counts
    count, label = len(batch.images), 0.6
    colours = [colour_of(i) for i in range(count)]
    size = (outputs.shape[-2], outputs.shape[-1])
    column = (_WIDTH - _MARGIN - label) / count
    side, tall = column - _GAP, 1.0
    tops = [0.3, 0.36 + side, 0.66 + 2 * side, 0.8 + 3 * side]
    with style.context("default"):
        page = Page(_WIDTH, tops[-1] + tall + 0.45)
        for i in range(count):
            left = label + i * column
            boxes = [Box(left, top, side, side) for top in tops[:3]]
            _show(page, boxes[0], batch.pixels[i])
            page.frame(boxes[0], colours[i], 3)
            page.text(left, 0.1, f"input {i + 1}: {shortened(batch.names[i], _NAME)}", 9)
            page.saliency(boxes[1], cells[i], colours[i], _ink(batch.pixels[i]))
            page.grid(boxes[1], plan.grid[0], plan.grid[1], size)
            page.frame(boxes[1])
            page.text(left, tops[2] - 0.2, f"output {i + 1}", 9)
            _show(page, boxes[2], outputs[i])
            page.borders(boxes[2], plan.masks[i], range(count), size)
            ax = page.axes(Box(left, tops[3], side, tall))
            ax.bar(range(1, count + 1), counts[i].tolist(), color=colours)
            ax.set(ylim=(0, math.prod(plan.grid)), xticks=range(1, count + 1))
            ax.tick_params(labelsize=8)
            ax.spines[["top", "right"]].set_visible(False)
            if i:
                ax.set_yticklabels([])
        for top, words in zip(tops, ("batch", "saliency", "mixed", "locations"), strict=True):
            middle = top + (tall if top == tops[-1] else side) / 2
            page.text(0.02, middle, words, 10, vertical="center").set_rotation(90)
        page.text(_WIDTH / 2, tops[-1] + tall + 0.25, "input", 9, align="center")
    _write(page.figure, stem)
    return [
        {"output": j + 1, **{f"input_{i + 1}": float(n) for i, n in enumerate(row)}}
        for j, row in enumerate(counts)
    ]


def draw_samples(images: Source, stem: Path) -> list[Row]:
    """Draws 24 inputs, and their outputs at two values of tau (Figures 11 to 13).

    Returns the inputs per output at each tau.
    """
    batch = images.batch(SHEET, _SEED, augment=False)
    names = [shortened(name, _NAME) for name in batch.names]
    sheets = {"inputs": ("inputs", batch.pixels, names)}
    rows: list[Row] = []
    for tau, file in _SHEET_TAUS.items():
        mixer = CoMixup(None, tau=tau, partition_size=SHEET, generator=_seeded())
        outputs, ratios = _mix(mixer, batch)
        used = (ratios > 0).sum(1)
        words = [f"{n} input{'s' if n > 1 else ''}" for n in used.tolist()]
        title = f"outputs, tau = {tau:g}: {used.double().mean():.1f} inputs each on average"
        sheets[file] = title, outputs, words
        rows += [
            {"tau": tau, "inputs": n, "outputs": int((used == n).sum())}
            for n in range(1, int(used.max()) + 1)
        ]
    for file, (title, pictures, words) in sheets.items():
        with style.context("default"):
            page, _ = _sheet(list(pictures), words, _SHEET_COLUMNS, 0.4)
            page.text(_WIDTH / 2, 0.1, title, 10, align="center")
        _write(page.figure, stem.with_name(f"{stem.name}-{file}"))
    return rows


def _sheet(
    pictures: Sequence[Tensor], captions: Sequence[str], columns: int, top: float
) -> tuple[Page, list[Box]]:
    """Returns a page with rows of pictures and what stands below them, and where they are."""
    column = (_WIDTH - 2 * _MARGIN + _GAP) / columns
    side = column - _GAP
    row = side + _LINE * (2 + max(caption.count("\n") for caption in captions))
    page, boxes = Page(_WIDTH, top + row * -(-len(pictures) // columns)), []
    for k, (picture, caption) in enumerate(zip(pictures, captions, strict=True)):
        down, across = divmod(k, columns)
        box = Box(_MARGIN + across * column, top + down * row, side, side)
        _show(page, box, picture)
        page.text(box.left + side / 2, box.top + side + 0.05, caption, 8, align="center")
        boxes.append(box)
    return page, boxes


def _mix(mixer: Mixer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Returns a batch's outputs in [0, 1] colours, and the inputs' ratios in each."""
    count = len(batch.images)
    _, ratios = mixer(
        batch.images, torch.eye(count), batch.saliency if mixer.needs_saliency else None
    )
    return mixer.last.plan.mix_images(batch.pixels), ratios


def _evenly_mixed(make: Callable[..., Mixer], pair: Batch) -> tuple[Tensor, Tensor]:
    """Returns an output of a pair that shows both, and its ratios: the first of some draws.

    A random partner may be the image itself, and a ratio near 0 or 1 shows nothing. Where no draw
    shows enough of both, it is the one that shows most.
    """
    tries = [_mix(make(generator=_seeded(seed)), pair) for seed in range(_DRAWS)]
    found = [(x[j], r[j]) for x, r in tries for j in (0, 1)]
    return max(found, key=lambda output: min(float(output[1].min()), _EVEN))


def _caption(ratio: Tensor, names: Sequence[str]) -> str:
    """Returns the weights of a target in words, the largest first, of classes that matter."""
    weights: dict[str, float] = {}
    for name, weight in zip(names, ratio.tolist(), strict=False):
        weights[name] = weights.get(name, 0.0) + weight
    order = sorted(weights.items(), key=lambda pair: -pair[1])
    return "\n".join(f"{shortened(n, _NAME)}: {w:.2f}" for n, w in order if w >= _MIN_WEIGHT)


def _show(page: Page, box: Box, picture: Tensor) -> None:
    """Shows an image, (C, H, W) in [0, 1] colours; one channel as black ink."""
    page.image(box, _ink(picture))
    page.frame(box, "#999999", 0.6)


def _ink(picture: Tensor) -> Tensor:
    return 1 - picture if len(picture) == 1 else picture


def _write(figure: Figure, stem: Path) -> None:
    write_figure(figure, stem.with_name(f"{stem.name}.png"), _DPI)


def _seeded(seed: int = _SEED) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


DRAWN: Mapping[str, Callable[[Source, Path], list[Row]]] = {
    "methods": draw_methods,
    "procedure": draw_procedure,
    "samples": draw_samples,
}
"""By the name of the item."""


# ---- Compatibility (Figure 5), computed: three inputs, two outputs, two results ------------------

_CELLS = 2
"""Per side."""
SPLIT, TOGETHER = ((0, 2), (1, 2)), ((0, 1), (2, 2))
"""Inputs of the left and the right half of each output: 1 and 2 apart, 1 and 2 together."""
_RESULTS = {"1 and 2 in different outputs": SPLIT, "1 and 2 in one output": TOGETHER}


def compatible_problem() -> Problem:
    """Returns a problem in which inputs 1 and 2 belong together, and nothing else matters.

    A has 0.9 between inputs 1 and 2 and 0.1 between others: what is large is unwelcome in
    *different* outputs, so that 1 and 2 are to meet in one.
    """
    matrix = torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.1], [0.1, 0.1, 1.0]])
    cost = torch.zeros(3, _CELLS, _CELLS)
    return Problem(cost, matrix, num_outputs=2, beta=0.1, clip=None)


def labelling_of(halves: tuple[tuple[int, int], tuple[int, int]]) -> Labelling:
    """Returns the labelling whose outputs have an input in the left and one in the right half."""
    rows = [[[left] + [right] * (_CELLS - 1)] * _CELLS for left, right in halves]
    return Labelling(torch.tensor(rows).unsqueeze(1), 3)


def draw_compatibility(stem: Path) -> list[Row]:
    """Draws both results with their inner products; returns these, and that of `solve`."""
    problem = compatible_problem()
    rows: list[Row] = []
    with style.context("default"):
        figure = Figure((8.4, 2.6), facecolor="white", layout="constrained")
        axes = figure.subplots(1, 2)
        for ax, (title, halves) in zip(axes, _RESULTS.items(), strict=True):
            product = inner_product(problem, labelling_of(halves))
            _draw_halves(ax, halves)
            words = f"{title}: $\\langle o_1, o_2 \\rangle_A$ = {product:.1f}"
            ax.set_title(words, fontsize=10, pad=6)
            rows.append({"result": title, "inner_product": product})
    solved = solve(problem, levels=1, starts=8, num_threads=1, generator=_seeded(0))
    rows.append({"result": "solve", "inner_product": inner_product(problem, solved)})
    _write(figure, stem)
    return rows


def inner_product(problem: Problem, labelling: Labelling) -> float:
    """Returns o_1 . A o_2, which the compatibility term holds twice."""
    value = objective(problem, labelling).compatibility
    return value * problem.num_locations / problem.gamma / 2


def _draw_halves(ax: Axes, halves: tuple[tuple[int, int], tuple[int, int]]) -> None:
    for j, inputs in enumerate(halves):
        for half, i in enumerate(inputs):
            left = 2.6 * j + half
            ax.add_patch(Rectangle((left, 0), 1, 1.4, fc=colour_of(i), ec="white", lw=2))
            font: Any = {"fontsize": 18, "color": "white", "weight": "bold"}
            ax.text(left + 0.5, 0.7, str(i + 1), ha="center", va="center", **font)
        ax.text(2.6 * j + 1, -0.18, f"output {j + 1}", ha="center", va="top", fontsize=10)
    ax.set(xlim=(-0.2, 4.8), ylim=(-0.5, 1.5), xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
