"""The analyses of Algorithm 1 in appendices C and D, a row for each seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from comixup import Labelling, Problem, objective, solve
from comixup.lab.paper._store import Row
from comixup.lab.paper.baseline_solvers import exhaustive, identity, narasimhan_bilmes, random_guess

_SIDES = {4: (2, 2), 9: (3, 3), 16: (4, 4)}
_HARD_POWER, _HARD_GAMMA = 3.0, 0.1
CONVERGED = 10
"""Sweeps after which Algorithm 1 has settled; its baseline runs until nothing changes too."""
_GUESS_SEED = 10**6
"""Added to the seed of a random guess, or it would be the start of Algorithm 1."""


def exhaustive_rows(seeds: Sequence[int], kind: str, size: tuple[int, int, int]) -> list[Row]:
    """Returns the objective of Algorithm 1, of the optimum and of guesses (Table 6).

    Args:
        seeds: one problem each.
        kind: "paper" has costs U, each input's scaled to sum 1, gamma 1 and beta 0.32; "hard" has
            costs -U^3, scaled likewise, and gamma 0.1. No clip, A = I, one-hot labels.
        size: (m, m', n).
    """
    m, m_out, n = size
    rows: list[Row] = []
    for seed in seeds:
        if kind == "paper":
            problem = _plain(-_unit_maps(m, n, seed), m_out, gamma=1.0)
        else:
            problem = _plain(_unit_maps(m, n, seed, _HARD_POWER), m_out, gamma=_HARD_GAMMA)
        found = {
            "ours": solve(problem, levels=1, num_threads=1, generator=_seeded(seed)),
            "ours_4_starts": solve(
                problem, levels=1, starts=4, num_threads=1, generator=_seeded(seed)
            ),
            "optimum": exhaustive(problem),
            "identity": identity(problem),
            "random": random_guess(problem, generator=_seeded(_GUESS_SEED + seed)),
        }
        values = {name: objective(problem, z).total for name, z in found.items()}
        rows.append({"kind": kind, "m": m, "outputs": m_out, "n": n, "seed": seed, **values})
    return rows


def narasimhan_bilmes_rows(seeds: Sequence[int], m: int, n: int = 16) -> list[Row]:
    """Returns objectives and CPU milliseconds of both algorithms, and guesses (Tables 7 and 8).

    Args:
        seeds: one problem each: costs U, each input's scaled to sum 1, gamma 1, beta 0.32, no
            clip, A = I, one-hot labels.
        m: inputs and outputs.
        n: locations.
    """
    ways: dict[str, Callable[[Problem, int], Labelling]] = {
        "ours": lambda p, s: solve(
            p, levels=1, sweeps=CONVERGED, num_threads=1, generator=_seeded(s)
        ),
        "ours_4_sweeps": lambda p, s: solve(p, levels=1, num_threads=1, generator=_seeded(s)),
        "narasimhan_bilmes": lambda p, s: narasimhan_bilmes(p, generator=_seeded(s)),
        "random": lambda p, s: random_guess(p, generator=_seeded(_GUESS_SEED + s)),
    }
    rows = []
    for seed in seeds:
        problem = _plain(-_unit_maps(m, n, seed), m, gamma=1.0)
        row: Row = {"m": m, "seed": seed}
        for name, way in ways.items():
            begin = time.thread_time()
            labelling = way(problem, seed)
            row[f"{name}_ms"] = (time.thread_time() - begin) * 1e3
            row[name] = objective(problem, labelling).total
        row["infeasible"] = infeasible_guess(problem, _seeded(seed))
        rows.append(row)
    return rows


def infeasible_guess(problem: Problem, generator: torch.Generator) -> float:
    """Returns the unary and compatibility terms of masks whose entries are drawn one by one.

    That is the paper's row "Random": each z_jk[i] is 0 or 1 with equal chances, so that a location
    holds m / 2 inputs on average. Such masks do not sum to one and are no labelling.
    """
    m, n = problem.num_inputs, problem.num_locations
    masks = torch.randint(2, (problem.num_outputs, m, n), generator=generator).double()
    counts = masks.sum(2)
    together = counts.sum(0).square().sum() - counts.square().sum()  # with A = I
    unary = (problem.cost.double().reshape(m, n) * masks).sum()
    return float(unary + problem.gamma / n * together)


def run_time_rows(seeds: Sequence[int], m: int, levels: int, repeats: int = 3) -> list[Row]:
    """Returns the CPU milliseconds of Algorithm 1 on one thread (Figure 6).

    Args:
        seeds: one problem each, of uniform maps with the paper's settings.
        m: inputs and outputs.
        levels: L; the paper's |L| is one more.
        repeats: the fastest of so many calls counts.
    """
    rows: list[Row] = []
    for seed in seeds:
        maps = _unit_maps(m, 16, seed)
        problem = Problem.from_saliency(maps, generator=_seeded(seed))
        times = []
        for _ in range(repeats):
            generator = _seeded(seed)
            begin = time.thread_time()
            solve(problem, levels=levels, num_threads=1, generator=generator)
            times.append((time.thread_time() - begin) * 1e3)
        rows.append({"m": m, "levels": levels, "seed": seed, "ms": min(times)})
    return rows


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _unit_maps(m: int, n: int, seed: int, power: float = 1.0) -> Tensor:
    """Returns U^power at every location, each input's map scaled to sum 1."""
    maps = torch.rand(m, *_SIDES[n], generator=_seeded(seed), dtype=torch.float64) ** power
    return maps / maps.flatten(1).sum(1).view(-1, 1, 1)


def _plain(maps: Tensor, num_outputs: int, gamma: float) -> Problem:
    """Returns a problem without clip, prior and distances (A = I)."""
    eye = torch.eye(len(maps), dtype=torch.float64)
    return Problem(-maps, eye, num_outputs=num_outputs, gamma=gamma, clip=None, prior=None)
