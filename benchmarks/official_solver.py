"""How the official implementation solves a problem, re-created here to measure against.

Written from a description of that code, not from the code. What makes it what it is:

* a Python loop over the outputs; the penalties are torch operations on small tensors;
* each output's costs go to NumPy and through gco's alpha-beta swaps, which start from label 0 and
  compute with integers (costs x 1e5, weights x 1e3, pair table x 100, cut off);
* from the second pass on, an output may also hold even pairs of its three most used inputs, each
  for the mean cost less 5e-4; a pair beside one of its own inputs costs 0.25, others cost 1;
* hard clip: (mask * A) @ p where mask * (A @ p) may have been meant; soft clip: relu(A p - level);
* stops when an objective without clip and with A = I changes by less than 1e-6 of its size;
* before the last pass, outputs with the same inputs are driven apart (`resolve`).
"""

from __future__ import annotations

import itertools
import time

import numpy as np
import torch
from gco import cut_grid_graph
from torch import Tensor

from comixup import Labelling, Problem, objective, solve
from comixup.core.reference import pairwise_costs
from comixup.lab.paper.baseline_solvers import random_guess
from common import console, options, realistic, seeded, table

PAIR_BONUS = 5e-4
TOP_INPUTS = 3
STOP = 1e-6


def official_solver(
    problem: Problem, start: Labelling, *, passes: int = 4, resolve: bool = True, told: bool = False
) -> Labelling:
    """Returns the labelling that the released way finds, with up to two inputs per location.

    Args:
        problem: on a 2-d grid; its cost, A, prior, weights and clip are used.
        start: one-hot labels to start from.
        passes: most passes over the outputs.
        resolve: whether to drive equal outputs apart before the last pass, as released.
        told: give it the problem's own pair table and bonus in place of the released ones, so
            that it minimizes exactly what it is judged by.
    """
    height, width = problem.grid
    n, m = problem.num_locations, problem.num_inputs
    beta, gamma, eta = problem.beta / n, problem.gamma / n, problem.eta / n
    cost = problem.cost.float()
    if problem.prior is not None:
        cost = cost - eta * torch.log(problem.prior.float() + 1e-8).view(-1, 1, 1)
    matrix = problem.compatibility.float()
    bonus = (eta * np.log(2) / 2 if problem.prior is not None else 0.0) if told else PAIR_BONUS
    form = problem.smoothness if told else "official"
    vertical = np.full((height - 1, width), beta, dtype=np.float32)
    horizontal = np.full((height, width - 1), beta, dtype=np.float32)

    pure = torch.arange(m)[:, None].expand(-1, 2)
    halves = torch.full((2, height, width), 0.5)
    masks = start.masks.clone()  # (m', m, height, width)
    labels = torch.cat([start.sources, start.sources], 1)  # two inputs per location
    counts = masks.sum((2, 3))
    total = counts.sum(0)
    extra = torch.zeros(len(masks), m)
    before = _progress(cost, masks, counts, beta, gamma)
    for step in range(passes):
        for j in range(len(masks)):
            total = total - counts[j]
            penalty = 2 * gamma * _clipped(matrix, total, problem) + extra[j]
            unary = cost + penalty.view(-1, 1, 1)
            pairs = _pairs(counts[j]) if step > 0 else []
            meaning = pure
            if pairs:
                mixed = torch.tensor(pairs)
                unary = torch.cat([unary, unary[mixed].mean(1) - bonus])
                meaning = torch.cat([pure, mixed])
            chosen = cut_grid_graph(
                unary.permute(1, 2, 0).contiguous().numpy(),
                _pair_table(m, tuple(pairs), form),
                vertical,
                horizontal,
                algorithm="swap",
            )
            labels[j] = meaning[torch.from_numpy(chosen).long()].T.reshape(2, height, width)
            masks[j] = torch.zeros(m, height, width).scatter_add_(0, labels[j], halves)
            counts[j] = masks[j].sum((1, 2))
            total = total + counts[j]
        if resolve and step == passes - 2:
            extra = _resolving(counts, gamma)
        after = _progress(cost, masks, counts, beta, gamma)
        if abs(after - before) < STOP * abs(before):
            break
        before = after
    return Labelling(labels, m)


def _clipped(matrix: Tensor, total: Tensor, problem: Problem) -> Tensor:
    """Returns the penalized part of A p, p being what the other outputs use."""
    load = matrix @ total
    if problem.clip is None:
        return load
    level = problem.clip_level / 2  # without the factor 2 of Eq. (2), here as there
    if problem.clip == "soft":
        return (load - level).clamp(min=0)
    return ((load > level).float() * matrix) @ total


def _pairs(counts: Tensor) -> list[tuple[int, int]]:
    """Returns the pairs of an output's most used inputs: none, 1 or 3."""
    used = int((counts > 0).sum())
    top = torch.topk(counts, min(used, TOP_INPUTS)).indices.sort().values.tolist()
    return list(itertools.combinations(top, 2))


_tables: dict[tuple, np.ndarray] = {}


def _pair_table(m: int, pairs: tuple[tuple[int, int], ...], form: str) -> np.ndarray:
    """Returns the pairwise costs of neighbouring labels."""
    if not pairs:
        key = (m, form)
        if key not in _tables:
            _tables[key] = 1 - np.eye(m, dtype=np.float32)
        return _tables[key]
    if form == "official":
        size = m + len(pairs)
        pairwise = 1 - np.eye(size, dtype=np.float32)
        for row, pair in enumerate(pairs, start=m):
            pairwise[row, pair] = pairwise[pair, row] = 0.25
        return pairwise
    labels = np.array([(i, i) for i in range(m)] + list(pairs))
    return pairwise_costs(labels, m, form).astype(np.float32)


def _resolving(counts: Tensor, gamma: float) -> Tensor:
    """Returns + gamma for the first shared input of one, the second of the other equal output."""
    extra = torch.zeros_like(counts)
    supports = [tuple(row.nonzero().flatten().tolist()) for row in counts]
    for j, k in itertools.combinations(range(len(supports)), 2):
        if supports[j] == supports[k] and len(supports[j]) > 1:
            extra[j, supports[j][0]] = gamma
            extra[k, supports[k][1]] = gamma
    return extra


def _progress(cost: Tensor, masks: Tensor, counts: Tensor, beta: float, gamma: float) -> float:
    """Returns the objective that decides about stopping: no clip, A = I."""
    down = (masks[:, :, 1:] - masks[:, :, :-1]).square().sum() / 2
    right = (masks[:, :, :, 1:] - masks[:, :, :, :-1]).square().sum() / 2
    shared = counts.sum(0).square().sum() - counts.square().sum()
    return float((cost * masks).sum() + beta * (down + right) + gamma * shared)


def main() -> None:
    arguments = options(__doc__, inputs=20, seed=0)
    problem = realistic("U", arguments.inputs, arguments.seed)
    start = random_guess(problem, generator=seeded(arguments.seed))
    rows = []
    for name, call in {
        "released way": lambda: official_solver(problem, start),
        "without resolve": lambda: official_solver(problem, start, resolve=False),
        "told our energies": lambda: official_solver(problem, start, resolve=False, told=True),
        "comixup.solve": lambda: solve(problem, num_threads=1, generator=seeded(arguments.seed)),
    }.items():
        call()
        begin = time.perf_counter()
        labelling = call()
        took = time.perf_counter() - begin
        terms = objective(problem, labelling)
        rows.append([name, f"{took * 1e3:.2f}", f"{terms.total:.4f}", f"{terms.unary:.4f}"])
    table("One problem, one start", ["", "ms", "objective value", "of which minus saliency"], rows)
    console.print("Lower objective value is better. speed.py compares over many seeds.")


if __name__ == "__main__":
    main()
