"""Pictures of mixed images: all methods on one pair, the procedure, and sample sheets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from comixup import CoMixup, CutMix, InputMixup, Labelling, Mixer, PuzzleMix
from comixup._plots import shortened, write_figure
from comixup.reproduce._images import Batch, Images
from comixup.reproduce._store import Row

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#777777")
"""Colours that colour-blind readers tell apart."""
_DPI = 150
_SEED = 8
_PROCEDURE_INPUTS = 6
SHEET, SHEET_COLUMNS = 24, 8
SHEET_TAUS = (0.83, 1.0)
_MIN_WEIGHT = 0.05
_NAME = 12
_DRAWS, _EVEN = 40, 0.3
_FRAME = "#999999"


def draw_methods(images: Images, stem: Path) -> list[Row]:
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
    with style.context("default"):
        figure = Figure((11, 2.3), facecolor="white", layout="constrained")
        axes = figure.subplots(1, len(pictures))
        for ax, picture, title, caption in zip(axes, pictures, titles, captions, strict=True):
            _show(ax, picture)
            ax.set_title(title, fontsize=9)
            ax.set_xlabel(caption, fontsize=8)
    _write(figure, stem)
    return [
        {"method": name, **{f"input_{i + 1}": float(w) for i, w in enumerate(ratio) if w > 0}}
        for name, (_, ratio) in mixed.items()
    ]


def draw_procedure(images: Images, stem: Path) -> list[Row]:
    """Draws inputs, their saliency, outputs and source counts (Figure 3); returns the counts."""
    batch = images.batch(_PROCEDURE_INPUTS, _SEED, augment=False)
    mixer = CoMixup(None, generator=_seeded())
    outputs, _ = _mix(mixer, batch)
    plan = _plan(mixer)
    counts = plan.source_counts
    names = images.names(batch.targets)
    count = len(batch.images)
    with style.context("default"):
        figure = Figure((11, 6.4), facecolor="white", layout="constrained")
        axes = figure.subplots(4, count, height_ratios=(1, 1, 1, 0.75))
        for i in range(count):
            _show(axes[0, i], batch.pixels[i])
            axes[0, i].set_title(f"input {i + 1}: {shortened(names[i], _NAME)}", fontsize=9)
            axes[0, i].spines[:].set(visible=True, color=OKABE_ITO[i], linewidth=3)
            cells = adaptive_avg_pool2d(batch.saliency[i][None], (plan.grid[0], plan.grid[1]))[0]
            axes[1, i].imshow(cells.numpy(), cmap="Greys", vmin=0)
            _bare(axes[1, i])
            _show(axes[2, i], outputs[i])
            _outline(axes[2, i], plan.sources[i], outputs.shape[-2:])
            axes[2, i].set_title(f"output {i + 1}", fontsize=9)
            axes[3, i].bar(range(1, count + 1), counts[i].tolist(), color=OKABE_ITO[:count])
            axes[3, i].set(ylim=(0, math.prod(plan.grid)), xticks=range(1, count + 1))
            axes[3, i].tick_params(labelsize=8)
            axes[3, i].spines[["top", "right"]].set_visible(False)
            if i:
                axes[3, i].set_yticklabels([])
        for row, label in enumerate(("batch", "saliency on the grid", "mixed", "")):
            axes[row, 0].set_ylabel(label, fontsize=10)
        axes[3, 0].set_ylabel("locations, $o_j$", fontsize=10)
        axes[3, count // 2].set_xlabel("input", fontsize=9)
    _write(figure, stem)
    return [
        {"output": j + 1, **{f"input_{i + 1}": float(n) for i, n in enumerate(row)}}
        for j, row in enumerate(counts)
    ]


def draw_samples(images: Images, stem: Path) -> list[Row]:
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
    rows = -(-len(pictures) // SHEET_COLUMNS)
    with style.context("default"):
        figure = Figure((9, 0.5 + 1.3 * rows), facecolor="white", layout="constrained")
        figure.suptitle(title, fontsize=10)
        axes = figure.subplots(rows, SHEET_COLUMNS).flat
        for ax, picture, word in zip(axes, pictures, words, strict=True):
            _show(ax, picture)
            ax.set_xlabel(word, fontsize=8, labelpad=2)
    return figure


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

    A random partner may be the image itself, and a ratio near 0 or 1 shows nothing.
    """
    tries = [_mix(make(torch.Generator().manual_seed(seed)), pair) for seed in range(_DRAWS)]
    both = [(x[j], r[j]) for x, r in tries for j in (0, 1) if r[j].min() >= _EVEN]
    return both[0] if both else (tries[0][0][0], tries[0][1][0])


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


def _show(ax: Axes, picture: Tensor) -> None:
    """Shows an image, (C, H, W) in [0, 1] colours; one channel as black ink."""
    if len(picture) == 1:
        ax.imshow((1 - picture[0]).numpy(), cmap="gray", vmin=0, vmax=1)
    else:
        ax.imshow(picture.permute(1, 2, 0).numpy())
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(color=_FRAME, linewidth=0.6)


def _bare(ax: Axes) -> None:
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def _outline(ax: Axes, sources: Tensor, size: Sequence[int]) -> None:
    """Draws the borders between cells of different inputs, in the inputs' colours."""
    _, rows, columns = sources.shape
    tall, wide, inset = size[0] / rows, size[1] / columns, 0.4
    label = {
        (r, c): sorted(set(sources[:, r, c].tolist())) for r in range(rows) for c in range(columns)
    }
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
                ax.plot(x, y, color=OKABE_ITO[inputs[0]], lw=2, solid_capstyle="butt")
                if len(inputs) > 1:  # a blend: the second colour in the gaps of the first
                    ax.plot(x, y, color=OKABE_ITO[inputs[1]], lw=2, dashes=(2, 2))
    ax.set(xlim=(-0.5, size[1] - 0.5), ylim=(size[0] - 0.5, -0.5))


def _write(figure: Figure, stem: Path) -> None:
    for suffix in (".png", ".svg"):
        write_figure(figure, stem.with_name(stem.name + suffix), _DPI)


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(_SEED)


DRAWN: Mapping[str, Callable[[Images, Path], list[Row]]] = {
    "methods": draw_methods,
    "procedure": draw_procedure,
    "samples": draw_samples,
}
"""By the name of the item."""
