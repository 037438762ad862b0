"""The inner step alone: one output's labels given all others, against the exact minimum.

The energies are harvested from real runs of Algorithm 1 at m = 20 on a 4 x 4 grid (all outputs,
sweeps and clips), with the penalty folded into the costs and the labels that the run stood at.
The exact minimum is found by dynamic programming over all labels, sharing no code with the solver.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

import numpy as np
from gco import cut_grid_graph

from comixup import Problem, _native
from comixup.core import reference as numpy_reference
from comixup.core.grid import edges
from comixup.core.solve import scaled_problem
from comixup.lab.paper.baseline_solvers import random_guess
from common import (
    has_images,
    image_saliency,
    noise_saliency,
    options,
    progress,
    seeded,
    smooth_saliency,
    table,
    target,
)

GRID = (4, 4)
INPUTS = 20
MAPS = {
    "U": noise_saliency,
    "U^3": lambda m, seed: noise_saliency(m, seed, power=3),
    "smooth": smooth_saliency,
    "images": image_saliency,
}
OPTIMAL_WITHIN = 1e-5
GCO_SCALE = 1_000_000
GCO_LARGEST = 9_000_000
"""gco takes whole numbers below 1e7. Costs this far above the least one can never be best."""


@dataclass
class Step:
    """One inner step: minimize sum_k unary[x_k, k] + sum_(k,k') pairwise[x_k, x_k']."""

    maps: str
    kind: str
    unary: np.ndarray
    pairwise: np.ndarray
    start: np.ndarray


def harvest(maps: str, seed: int) -> list[Step]:
    """Returns every inner step of one run of Algorithm 1."""
    steps: list[Step] = []

    def record(
        unary: np.ndarray, pairwise: np.ndarray, grid: tuple, start: np.ndarray
    ) -> np.ndarray:
        kind = "one-hot" if len(unary) == INPUTS else "with pairs"
        steps.append(Step(maps, kind, unary, pairwise, start))
        return native(steps[-1])

    clip = ("soft", "hard")[seed % 2]
    saliency = MAPS[maps](INPUTS, seed)
    problem = Problem.from_saliency(saliency, clip=clip, generator=seeded(seed))
    start = random_guess(problem, generator=seeded(seed)).sources.flatten(1).numpy()
    with mock.patch.object(numpy_reference, "minimize", record):
        numpy_reference.solve(scaled_problem(problem), start, sweeps=4, levels=2, resolve=False)
    return steps


# ---- The exact minimum and the four ways to look for it -----------------------------------------


def exact_minimum(unary: np.ndarray, pairwise: np.ndarray) -> float:
    """Returns the least energy, by dynamic programming over all labels of the last row.

    `table` has one axis per column: the label of the latest location in that column. Walking on
    by one location minimizes over the label above it.
    """
    height, width = GRID
    kinds = len(unary)
    table = np.zeros((1,) * width)
    for k in range(height * width):
        row, column = divmod(k, width)
        above = np.moveaxis(table, column, 0)
        shape = np.broadcast_shapes(above.shape[1:], (1,) * (width - 1))
        new = np.empty((kinds, *shape))
        for x in range(kinds):
            met = pairwise[:, x] if row > 0 else np.zeros(1)
            new[x] = (above + met.reshape(-1, *[1] * (width - 1))).min(0) + unary[x, k]
        table = np.moveaxis(new, 0, column)
        if column > 0:
            shape = [1] * width
            shape[column - 1], shape[column] = kinds, kinds
            table = table + pairwise.reshape(shape)
    return float(table.min())


def native(step: Step) -> np.ndarray:
    labels = np.empty(len(step.start), dtype=np.int32)
    start = step.start.astype(np.int32)
    _native.minimize(step.unary, step.pairwise, list(GRID), start, labels)
    return labels.astype(np.int64)


def reference(step: Step) -> np.ndarray:
    return numpy_reference.minimize(step.unary, step.pairwise, GRID, step.start)


def gco_swap(step: Step) -> np.ndarray:
    """Returns gco's answer, on energies rounded to a millionth (finer than the released way's)."""
    above = step.unary - step.unary.min(0)
    costs = np.minimum(np.rint(above * GCO_SCALE), GCO_LARGEST).astype(np.int32)
    pairs = np.rint(step.pairwise * GCO_SCALE).astype(np.int32)
    height, width = GRID
    return cut_grid_graph(
        np.ascontiguousarray(costs.T).reshape(height, width, -1),
        pairs,
        np.ones((height - 1, width), dtype=np.int32),
        np.ones((height, width - 1), dtype=np.int32),
        algorithm="swap",
    ).astype(np.int64)


def conditional_modes(step: Step) -> np.ndarray:
    """Returns the end of changing one location at a time to its best label."""
    x = step.start.copy()
    neighbours: list[list[int]] = [[] for _ in x]
    for k, other in edges(GRID).tolist():
        neighbours[k].append(other)
        neighbours[other].append(k)
    changed = True
    while changed:
        changed = False
        for k in range(len(x)):
            energy = step.unary[:, k] + step.pairwise[:, x[neighbours[k]]].sum(1)
            best = int(energy.argmin())
            if energy[best] < energy[x[k]] - 1e-12:
                x[k], changed = best, True
    return x


WAYS: dict[str, Callable[[Step], np.ndarray]] = {
    "ours (native)": native,
    "ours (reference)": reference,
    "gco swap": gco_swap,
    "conditional modes": conditional_modes,
}


def optimal_share(gaps: list[float]) -> float:
    return statistics.fmean(gap <= OPTIMAL_WITHIN for gap in gaps)


def main() -> None:
    arguments = options(__doc__, steps=240, runs=8)
    steps: dict[tuple[str, str], list[Step]] = {}
    for maps in MAPS if has_images() else [name for name in MAPS if name != "images"]:
        for seed in range(arguments.runs):
            for step in harvest(maps, seed):
                steps.setdefault((maps, step.kind), []).append(step)
    share = max(1, arguments.steps // len(steps))
    random = np.random.default_rng(0)
    sample = [
        group[index]
        for group in steps.values()
        for index in random.choice(len(group), min(share, len(group)), replace=False)
    ]
    pairs = edges(GRID)
    gaps: dict[str, dict[tuple[str, str], list[float]]] = {name: {} for name in WAYS}
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for step in progress(sample, "exact minimum of each step"):
        least = exact_minimum(step.unary, step.pairwise)
        for name, way in WAYS.items():
            begin = time.perf_counter()
            labels = way(step)
            times[name].append(time.perf_counter() - begin)
            energy = numpy_reference.energy(step.unary, step.pairwise, pairs, labels)
            gaps[name].setdefault((step.maps, step.kind), []).append(energy - least)
            if energy < least - 1e-9:
                raise RuntimeError(f"{name} is below the exact minimum: the benchmark is wrong")
    table(
        "Optimal, and mean gap, on each kind of step",
        ["", *(f"{maps}\n{kind}" for maps, kind in steps)],
        [
            [name, *(f"{optimal_share(g):.1%}\n{max(0.0, np.mean(g)):.1e}" for g in found.values())]
            for name, found in gaps.items()
        ],
    )
    summary = {name: [gap for found in gaps[name].values() for gap in found] for name in WAYS}
    optimal = {name: optimal_share(found) for name, found in summary.items()}
    mean = {name: max(0.0, statistics.fmean(found)) for name, found in summary.items()}
    rows = [
        [name, f"{optimal[name]:.1%}", f"{mean[name]:.2e}", f"{np.median(times[name]) * 1e6:.1f}"]
        for name in WAYS
    ]
    table(f"All {len(sample)} steps", ["", "optimal", "mean gap", "median time, us"], rows)
    ours, rival = "ours (native)", "gco swap"
    target(f"optimal in at least 95 % (got {optimal[ours]:.1%})", optimal[ours] >= 0.95)
    target("mean gap no larger than gco's swap", mean[ours] <= mean[rival])


if __name__ == "__main__":
    main()
