"""Mixes twelve photographs by Co-Mixup's solver, prints the objective and draws what it chose.

No model, no training, no download: the photographs come inside scikit-image (public domain, CC0
or without known restrictions), and a measure of contrast stands in for a model's gradients.
"""

from __future__ import annotations

import argparse
import textwrap
import time
from collections import Counter
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import skimage.data
import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from rich.console import Console
from rich.table import Table
from torch import Tensor

import comixup
from comixup.reproduce.rivals import identity, random_guess

SIZE = 128
"""Pixels a side of every input."""

# What is in the picture: photograph of skimage.data, top, left and side of the square cut out.
INPUTS = {
    "cat": ("cat", 0, 50, 300),
    "rocket": ("rocket", 70, 170, 357),
    "coffee": ("coffee", 0, 80, 400),
    "astronaut": ("astronaut", 0, 60, 300),
    "horse": ("horse", 0, 36, 328),
    "galaxy": ("hubble_deep_field", 400, 610, 140),
    "coin": ("coins", 150, 300, 84),
    "shuttle": ("astronaut", 0, 300, 212),
    "retina": ("retina", 0, 0, 1411),
    "camera": ("camera", 0, 0, 512),
    "tissue": ("immunohistochemistry", 250, 200, 230),
    "helmet": ("astronaut", 290, 230, 222),
}
COLOURS = (
    *("#e6194b", "#2f6df6", "#f07f09", "#0fa396", "#8e44ec", "#d3a400"),
    *("#7a4a1e", "#e93ad8", "#2ea043", "#6b7280", "#23aee0", "#86a81d"),
)
WHITE = {"color": "white", "weight": "bold", "ha": "center", "va": "center"}


def main() -> None:
    """Runs the demonstration from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the prior and the random start")
    parser.add_argument("--inputs", type=int, default=len(INPUTS), help=f"2 to {len(INPUTS)}")
    parser.add_argument("--out", type=Path, default=Path("out/demo.png"), help="where to draw")
    options = parser.parse_args()
    if not 2 <= options.inputs <= len(INPUTS):
        parser.error(f"--inputs must be 2 to {len(INPUTS)}, got {options.inputs}")

    names = list(INPUTS)[: options.inputs]
    images = torch.stack([load(*INPUTS[name]) for name in names])
    saliency = contrast(images)

    generator = torch.Generator().manual_seed(options.seed)
    problem = comixup.Problem.from_saliency(saliency, generator=generator)
    copy = torch.Generator()
    copy.set_state(generator.get_state())
    start = random_guess(problem, generator=copy)  # the very labels that `solve` starts from
    began = time.perf_counter()
    solved = comixup.solve(problem, generator=generator)
    milliseconds = 1e3 * (time.perf_counter() - began)

    console = Console()
    console.print(
        f"[bold]{len(names)} photographs, {problem.grid[0]} x {problem.grid[1]} cells each, solved "
        f"in {milliseconds:.2f} ms[/] (first call, whole Python function)\n"
    )
    labellings = {"no mixing": identity(problem), "random start": start, "solved": solved}
    console.print(table_of_terms(problem, labellings))
    console.print(table_of_counts(labellings))

    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure = draw(names, images, saliency, solved)
    figure.savefig(options.out, dpi=100)
    console.print(f"\nThe picture: [bold]{options.out}[/]")


# ---- The problem: images, and where they have something to show --------------------------------


def load(photograph: str, top: int, left: int, side: int) -> Tensor:
    """Returns a square of a photograph as (3, SIZE, SIZE) floats in [0, 1]."""
    pixels = np.asarray(getattr(skimage.data, photograph)())
    image = torch.from_numpy(pixels.astype(np.float32) / (1 if pixels.dtype == bool else 255))
    image = image.unsqueeze(-1).expand(-1, -1, 3) if image.ndim == 2 else image
    square = image[top : top + side, left : left + side].permute(2, 0, 1)[None]
    scaled = F.interpolate(square, (SIZE, SIZE), mode="bilinear", antialias=True)
    return scaled[0].clamp(0, 1)


def contrast(images: Tensor) -> Tensor:
    """Returns (m, H, W): how far a place is from the picture's border in colour, and how uneven.

    A stand-in for the gradient of a trained model's loss, which the method really uses.
    """
    rim = SIZE // 10
    border = torch.cat([images[..., :rim].flatten(2), images[..., -rim:].flatten(2)], 2)
    background = border.median(2).values[..., None, None]
    colour = (blur(images) - background).norm(dim=1)
    grey = images.mean(1, keepdim=True)
    down, right = grey.diff(dim=2, append=grey[:, :, -1:]), grey.diff(dim=3, append=grey[..., -1:])
    edges = blur(torch.hypot(down, right))[:, 0]
    return colour / colour.mean((1, 2), keepdim=True) + edges / edges.mean((1, 2), keepdim=True)


def blur(images: Tensor) -> Tensor:
    """Returns the images after three box means of 7 pixels, which is nearly a Gaussian."""
    for _ in range(3):
        images = F.avg_pool2d(images, 7, stride=1, padding=3, count_include_pad=False)
    return images


# ---- The tables --------------------------------------------------------------------------------


def table_of_terms(problem: comixup.Problem, labellings: dict[str, comixup.Labelling]) -> Table:
    """Returns the terms of Eq. (1), a column per labelling."""
    table = Table(title="The objective (lower is better)", title_justify="left")
    table.add_column("term")
    for name in labellings:
        table.add_column(name, justify="right", style="bold green" if name == "solved" else "")
    table.add_column("in words", style="dim")
    terms = {name: comixup.objective(problem, z) for name, z in labellings.items()}
    for term, words in (
        ("unary", "minus saliency kept"),
        ("smoothness", "unlike neighbours"),
        ("prior", "unlikely ratios"),
        ("compatibility", "shared inputs, no clip"),
        ("eq1_total", "Eq. (1) of the paper"),
        ("total", "Algorithm 1's merit"),
    ):
        if term == "eq1_total":
            table.add_section()
        table.add_row(term, *[f"{getattr(t, term):.3f}" for t in terms.values()], words)
    table.add_section()
    kept = [-terms[name].unary / z.num_outputs for name, z in labellings.items()]
    table.add_row("batch saliency", *[f"{k:.2f}" for k in kept], "saliency per output")
    return table


def table_of_counts(labellings: dict[str, comixup.Labelling]) -> Table:
    """Returns how many outputs are made of one, two, three ... inputs."""
    counts = {
        name: Counter((z.source_ratio() > 0).sum(1).tolist()) for name, z in labellings.items()
    }
    most = max(max(count) for count in counts.values())
    table = Table(title="Outputs made of so many inputs", title_justify="left")
    table.add_column("inputs")
    for number in range(1, most + 1):
        table.add_column(str(number), justify="right")
    for name, count in counts.items():
        cells = [str(count.get(number) or "·") for number in range(1, most + 1)]
        table.add_row(name, *cells, style="bold green" if name == "solved" else "")
    return table


# ---- The picture -------------------------------------------------------------------------------


def draw(names: list[str], images: Tensor, saliency: Tensor, z: comixup.Labelling) -> Figure:
    """Returns the figure: inputs, their saliency, and the mixed outputs with their sources."""
    mpl.use("Agg")
    mpl.rcParams.update({"font.size": 11, "font.family": "DejaVu Sans"})
    columns = 6
    rows = -(-z.num_outputs // columns)
    width, head, strip, output = 15.0, 0.95, 2.65, 3.0
    height = head + strip + 0.75 + rows * output + 0.15
    figure = plt.figure(figsize=(width, height), facecolor="white")

    def axes(left: float, top: float, side: float, tall: float | None = None) -> Axes:
        """Returns axes at a place given in inches from the top left corner."""
        tall = side if tall is None else tall
        box = (left / width, 1 - (top + tall) / height, side / width, tall / height)
        ax = figure.add_axes(box, xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
        return ax

    def say(left: float, top: float, text: str, **style: object) -> None:
        figure.text(left / width, 1 - top / height, text, va="top", **style)

    say(
        0.35,
        0.18,
        "Co-Mixup: every output is put together from the salient parts of a batch",
        fontsize=17,
        weight="bold",
    )
    say(
        0.35,
        0.58,
        "Each input has a colour and a number. Above: the inputs. Below: where each has "
        "something to show (bright), measured per cell of the grid.",
        color="#444444",
    )

    step = (width - 0.7) / len(INPUTS)
    for i, name in enumerate(names):
        left, side = 0.35 + i * step, step - 0.14
        ax = axes(left, head + 0.25, side)
        ax.imshow(images[i].permute(1, 2, 0).numpy())
        frame(ax, COLOURS[i])
        badge(ax, 13, 13, [i])
        ax.set_title(name, fontsize=11, color="black", pad=4)
        below = axes(left, head + 0.3 + side, side)
        below.imshow(saliency[i].numpy(), cmap="inferno")
        rules = [SIZE * cell / z.grid[0] - 0.5 for cell in range(1, z.grid[0])]
        for at in rules:
            below.axhline(at, color="white", lw=0.4, alpha=0.6)
            below.axvline(at, color="white", lw=0.4, alpha=0.6)

    top = head + strip + 0.1
    say(0.35, top, "The outputs the solver chose", fontsize=14, weight="bold")
    say(
        0.35,
        top + 0.32,
        "Lines and numbers tell which input a region comes from; two numbers: "
        "half of each, blended. The bar is the soft label to train on.",
        color="#444444",
    )
    step = (width - 0.7) / columns
    ratio = z.source_ratio((SIZE, SIZE))
    mixed = mix(images, z)
    for j in range(z.num_outputs):
        left = 0.35 + (j % columns) * step
        place = top + 0.7 + (j // columns) * output
        side = step - 0.22
        ax = axes(left, place, side)
        ax.imshow(mixed[j].permute(1, 2, 0).numpy())
        outline(ax, z.sources[j])
        bar(axes(left, place + side + 0.07, side, 0.24), ratio[j], names)
    return figure


def mix(images: Tensor, z: comixup.Labelling) -> Tensor:
    """Returns the mixed images: every pixel is the sum of its inputs' pixels, weighted by z."""
    masks = F.interpolate(z.masks, images.shape[-2:], mode="nearest")
    return torch.einsum("jihw,ichw->jchw", masks, images)


def frame(ax: Axes, colour: str) -> None:
    """Draws a thick frame of a colour around an image."""
    ax.spines[:].set(visible=True, color=colour, linewidth=4)


def badge(ax: Axes, x: float, y: float, inputs: list[int]) -> None:
    """Writes the numbers of inputs on their colours, side by side around a place."""
    for position, i in enumerate(inputs):
        shift = 15 * (position - (len(inputs) - 1) / 2)
        ax.text(
            x + shift,
            y,
            str(i + 1),
            fontsize=9,
            bbox={"boxstyle": "circle,pad=0.22", "fc": COLOURS[i], "ec": "white"},
            **WHITE,
        )


def outline(ax: Axes, sources: Tensor) -> None:
    """Outlines the regions of one output, (L, rows, columns), in their sources' colours."""
    _, rows, columns = sources.shape
    cell_height, cell_width = SIZE / rows, SIZE / columns
    label = {
        (r, c): tuple(sorted(set(sources[:, r, c].tolist())))
        for r in range(rows)
        for c in range(columns)
    }
    inset = 1.1
    for (r, c), inputs in label.items():
        top, left = r * cell_height - 0.5, c * cell_width - 0.5
        bottom, right = top + cell_height, left + cell_width
        sides = {
            (r - 1, c): ((left, right), (top + inset, top + inset)),
            (r + 1, c): ((left, right), (bottom - inset, bottom - inset)),
            (r, c - 1): ((left + inset, left + inset), (top, bottom)),
            (r, c + 1): ((right - inset, right - inset), (top, bottom)),
        }
        for neighbour, (x, y) in sides.items():
            if label.get(neighbour) != inputs:
                ax.plot(x, y, color=COLOURS[inputs[0]], lw=3, solid_capstyle="butt")
                if len(inputs) > 1:
                    ax.plot(x, y, color=COLOURS[inputs[1]], lw=3, dashes=(2, 2))
    ax.set(xlim=(-0.5, SIZE - 0.5), ylim=(SIZE - 0.5, -0.5))
    for cells in regions(label):
        # The cell nearest to the region's middle, so that the number lies inside it.
        middle = np.mean(cells, axis=0)
        r, c = min(cells, key=lambda cell: float(np.abs(np.array(cell) - middle).sum()))
        badge(ax, (c + 0.5) * cell_width, (r + 0.5) * cell_height, list(label[r, c]))


def regions(label: dict[tuple[int, int], tuple[int, ...]]) -> list[list[tuple[int, int]]]:
    """Returns the connected groups of cells with the same label."""
    left, groups = set(label), []
    for first, wanted in label.items():
        if first not in left:
            continue
        left.discard(first)
        group, todo = [first], [first]
        while todo:
            r, c = todo.pop()
            for cell in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
                if cell in left and label[cell] == wanted:
                    left.discard(cell)
                    group.append(cell)
                    todo.append(cell)
        groups.append(group)
    return groups


def bar(ax: Axes, ratio: Tensor, names: list[str]) -> None:
    """Draws an output's soft label as a bar, largest share first, with the inputs' names below."""
    ax.set(xlim=(0, 1), ylim=(0, 1))
    order = [i for i in ratio.argsort(descending=True, stable=True).tolist() if ratio[i] > 0]
    start = 0.0
    for i in order:
        share = float(ratio[i])
        ax.add_patch(Rectangle((start, 0), share, 1, fc=COLOURS[i], ec="white", lw=1.5))
        if share > 0.14:
            ax.text(start + share / 2, 0.47, f"{100 * share:.0f}%", fontsize=9, **WHITE)
        start += share
    caption = textwrap.fill(" + ".join(names[i] for i in order), 34)
    ax.set_xlabel(caption, fontsize=9.5, labelpad=3)


if __name__ == "__main__":
    main()
