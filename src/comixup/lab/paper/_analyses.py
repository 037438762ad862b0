"""The analyses: of Algorithm 1 (appendices C and D), and of mixed batches (Figure 2)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from comixup import CoMixup, Labelling, Mixer, NoMix, Problem, objective, solve
from comixup.lab.paper._images import Source
from comixup.lab.paper._store import Row
from comixup.lab.paper.baseline_solvers import exhaustive, identity, narasimhan_bilmes, random_guess
from comixup.lab.training._mixers import MIXERS

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


OF_THE_SOLVER: Mapping[str, Callable[..., list[Row]]] = {
    "exhaustive": exhaustive_rows,
    "narasimhan-bilmes": narasimhan_bilmes_rows,
    "run-time": run_time_rows,
}
"""By the maker of their jobs."""


# ---- Mixed batches -------------------------------------------------------------------------------

_PARTITION = 20
POSITIONS = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""Of solutions in panel (a): the weight of the unary term; 0.5 is the solution itself."""
_TAUS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.83, 0.9, 1.0)
MOST_INPUTS = 6
_OTHERS = ("vanilla", "input", "cutmix", "puzzlemix")
_SAME = ("panel", "method", "tau", "grid", "x")
_SPREAD = ("saliency", "diversity")


def mixed_batches_rows(
    seeds: Sequence[int], images: Source, size: int, grids: Sequence[int] = ()
) -> list[Row]:
    """Returns what is measured of batches, one batch per seed, as means over the seeds.

    Rows have a `panel` each: "arrangement" (terms along solutions), "method" (batch saliency and
    diversity), "tau" (the same of Co-Mixup, and its inputs per output) and "grid".

    Args:
        seeds: number of a batch of training images.
        images: which they are, and the network whose gradients are the saliency.
        size: images of a batch.
        grids: cells per side that are tried too.
    """
    rows: list[Row] = []
    for seed in seeds:
        batch = images.batch(size, seed)
        rows += arrangement(batch.saliency[:_PARTITION], seed)
        mixers: list[tuple[Row, Mixer]] = []
        for name in _OTHERS:
            kind = MIXERS[name]
            mixer = NoMix() if kind is NoMix else kind(None, generator=_seeded(seed))
            mixers.append(({"panel": "method", "method": name}, mixer))
        for setting, values in (("tau", _TAUS), ("grid", grids)):
            for value in values:
                own: dict[str, Any] = {setting: value}
                mixer = CoMixup(None, **own, generator=_seeded(seed))
                mixers.append(({"panel": setting, "method": "comixup", **own}, mixer))
        rows += [
            {**row, **batch_statistics(mixer, batch.images, batch.saliency)}
            for row, mixer in mixers
        ]
    return averaged(rows)


def averaged(rows: Sequence[Row]) -> list[Row]:
    """Returns a row for all seeds of the same panel, method, tau, grid and x.

    It has the means of all columns, the standard deviations of saliency and diversity, and the
    number of seeds: rows of every seed would be too many to commit.

    >>> averaged([{"panel": "method", "saliency": float(s)} for s in (1, 2, 3)])
    [{'panel': 'method', 'seeds': 3, 'saliency': 2.0, 'saliency_sd': 1.0}]
    """
    groups: dict[tuple[tuple[str, float | str], ...], list[Row]] = {}
    for row in rows:
        same = tuple((name, row[name]) for name in _SAME if name in row)
        groups.setdefault(same, []).append(row)
    found: list[Row] = []
    for same, own in groups.items():
        mean: Row = {**dict(same), "seeds": len(own)}
        for name in own[0]:
            if name not in _SAME:
                values = [float(row[name]) for row in own]
                mean[name] = statistics.fmean(values)
                if name in _SPREAD and len(own) > 1:
                    mean[f"{name}_sd"] = statistics.stdev(values)
        found.append(mean)
    return found


def arrangement(saliency: Tensor, seed: int) -> list[Row]:
    """Returns unary and supermodular term of solutions from diverse to salient, per output.

    The solution at x minimizes x times the unary plus 1 - x times the supermodular term: gamma is
    multiplied by (1 - x) / x. Smoothness and prior are left out, as in the paper's figure. Of the
    solutions found for all x each x has the best, since Algorithm 1 finds local optima.

    Args:
        saliency: (m, H, W).
        seed: of the solver.
    """
    problem = Problem.from_saliency(saliency.double(), beta=0.0, eta=0.0, alpha=None)
    found: list[tuple[float, float]] = []
    for x in POSITIONS:
        weighted = problem.replace(gamma=problem.gamma * (1 - x) / x)
        labelling = solve(weighted, starts=4, num_threads=1, generator=_seeded(seed))
        terms = objective(problem, labelling)
        count = problem.num_outputs
        found.append((terms.unary / count, (terms.total - terms.unary) / count))
    rows: list[Row] = []
    for x in POSITIONS:
        unary, supermodular = min(found, key=lambda terms: x * terms[0] + (1 - x) * terms[1])
        rows.append({"panel": "arrangement", "x": x, "unary": unary, "supermodular": supermodular})
    return rows


def batch_statistics(mixer: Mixer, images: Tensor, saliency: Tensor) -> Row:
    """Returns batch saliency, diversity and inputs per output of a mixed batch.

    Batch saliency is what an output shows of its inputs' saliency, each map summing to one: 1
    without mixing. Diversity is 1 - sum_j sum_j' o~_j . o~_j' / m over pairs of different outputs.

    >>> row = batch_statistics(NoMix(), torch.rand(4, 3, 8, 8), torch.rand(4, 8, 8))
    >>> round(row["saliency"], 4), round(row["diversity"], 4), row["inputs_1"]
    (1.0, 1.0, 4)
    """
    count = len(images)
    mixer(images, torch.eye(count), saliency if mixer.needs_saliency else None)
    plan = mixer.last.plan
    share = saliency / saliency.flatten(1).sum(1).view(-1, 1, 1)
    shown = plan.mix_images(share.unsqueeze(1)).sum() / count
    ratio = plan.source_ratio(images.shape[2:])
    together = ratio.sum(0).square().sum() - ratio.square().sum()
    used = (ratio > 0).sum(1).clamp(max=MOST_INPUTS)
    counts = torch.bincount(used - 1, minlength=MOST_INPUTS).tolist()
    return {
        "saliency": float(shown),
        "diversity": 1 - float(together) / count,
        **{f"inputs_{number}": n for number, n in enumerate(counts, 1)},
    }
