"""The picture of compatibility (Figure 5), computed: three inputs, two outputs, two results."""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from comixup import Labelling, Problem, objective, solve
from comixup._figures import write_figure
from comixup.lab.paper._store import Row
from comixup.plots import colour_of

_SIDE = 2
_STARTS = 8
SPLIT, TOGETHER = ((0, 2), (1, 2)), ((0, 1), (2, 2))
"""Inputs of the left and the right half of each output: 1 and 2 apart, 1 and 2 together."""
_RESULTS = {"1 and 2 in different outputs": SPLIT, "1 and 2 in one output": TOGETHER}


def compatible_problem() -> Problem:
    """Returns a problem in which inputs 1 and 2 belong together, and nothing else matters.

    A has 0.9 between inputs 1 and 2 and 0.1 between others: what is large is unwelcome in
    *different* outputs, so that 1 and 2 are to meet in one.
    """
    matrix = torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.1], [0.1, 0.1, 1.0]])
    cost = torch.zeros(3, _SIDE, _SIDE)
    return Problem(cost, matrix, num_outputs=2, beta=0.1, clip=None)


def labelling_of(halves: tuple[tuple[int, int], tuple[int, int]]) -> Labelling:
    """Returns the labelling whose outputs have an input in the left and one in the right half."""
    rows = [[[left] + [right] * (_SIDE - 1)] * _SIDE for left, right in halves]
    return Labelling(torch.tensor(rows).unsqueeze(1), 3)


def draw_compatibility(stem: Path) -> list[Row]:
    """Draws both results with their inner products; returns these, and that of `solve`."""
    problem = compatible_problem()
    rows: list[Row] = []
    with style.context("default"):
        figure = Figure((8.4, 2.6), facecolor="white", layout="constrained")
        axes = figure.subplots(1, 2)
        for ax, (title, halves) in zip(axes, _RESULTS.items(), strict=True):
            labelling = labelling_of(halves)
            product = inner_product(problem, labelling)
            _draw(ax, halves)
            ax.set_title(
                f"{title}: $\\langle o_1, o_2 \\rangle_A$ = {product:.1f}", fontsize=10, pad=6
            )
            rows.append({"result": title, "inner_product": product})
    generator = torch.Generator().manual_seed(0)
    solved = solve(problem, levels=1, starts=_STARTS, num_threads=1, generator=generator)
    rows.append({"result": "solve", "inner_product": inner_product(problem, solved)})
    for suffix in (".png", ".svg"):
        write_figure(figure, stem.with_name(stem.name + suffix), 150)
    return rows


def inner_product(problem: Problem, labelling: Labelling) -> float:
    """Returns o_1 . A o_2, which the compatibility term holds twice."""
    value = objective(problem, labelling).compatibility
    return value * problem.num_locations / problem.weights.gamma / 2


def _draw(ax: Axes, halves: tuple[tuple[int, int], tuple[int, int]]) -> None:
    for j, inputs in enumerate(halves):
        for half, i in enumerate(inputs):
            corner = (2.6 * j + half, 0)
            ax.add_patch(Rectangle(corner, 1, 1.4, fc=colour_of(i), ec="white", lw=2))
            ax.text(
                corner[0] + 0.5, 0.7, str(i + 1), ha="center", va="center", fontsize=18,
                color="white", weight="bold",
            )  # fmt: skip
        ax.text(2.6 * j + 1, -0.18, f"output {j + 1}", ha="center", va="top", fontsize=10)
    ax.set(xlim=(-0.2, 4.8), ylim=(-0.5, 1.5), xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
