"""What mixed batches are like: the measurements of Figure 2, a few rows for each batch."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch
from torch import Tensor

from comixup import (
    CoMixup,
    CutMix,
    InputMixup,
    Labelling,
    Mixer,
    NoMix,
    Problem,
    PuzzleMix,
    objective,
    solve,
)
from comixup.lab.paper._images import Images, Photographs
from comixup.lab.paper._store import Row

PARTITION = 20
POSITIONS = tuple(round(0.05 * step, 2) for step in range(1, 20))
"""Of solutions in panel (a): the weight of the unary term; 0.5 is the solution itself."""
TAUS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.83, 0.9, 1.0)
MOST_INPUTS = 6
_SAME = ("panel", "method", "tau", "grid", "x")
_SPREAD = ("saliency", "diversity")
METHODS: dict[str, type[Mixer]] = {
    "vanilla": NoMix,
    "input": InputMixup,
    "cutmix": CutMix,
    "puzzlemix": PuzzleMix,
}


def mixed_batches_rows(
    seeds: Sequence[int], images: Images | Photographs, size: int, grids: Sequence[int] = ()
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
        rows += [{"seed": seed, **row} for row in arrangement(batch.saliency[:PARTITION], seed)]
        for name, kind in METHODS.items():
            mixer = kind() if kind is NoMix else kind(None, generator=_seeded(seed))
            row = batch_statistics(mixer, batch.images, batch.saliency)
            rows.append({"seed": seed, "panel": "method", "method": name, **row})
        for tau in TAUS:
            mixer = CoMixup(None, tau=tau, generator=_seeded(seed))
            row = batch_statistics(mixer, batch.images, batch.saliency)
            rows.append({"seed": seed, "panel": "tau", "method": "comixup", "tau": tau, **row})
        for grid in grids:
            mixer = CoMixup(None, grid=grid, generator=_seeded(seed))
            row = batch_statistics(mixer, batch.images, batch.saliency)
            rows.append({"seed": seed, "panel": "grid", "method": "comixup", "grid": grid, **row})
    return averaged(rows)


def averaged(rows: Sequence[Row]) -> list[Row]:
    """Returns a row for all seeds of the same panel, method, tau, grid and x.

    It has the means of all columns, the standard deviations of saliency and diversity, and the
    number of seeds: rows of every seed would be too many to commit.

    >>> averaged([{"seed": s, "panel": "method", "saliency": float(s)} for s in (1, 2, 3)])
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
            if name not in (*_SAME, "seed"):
                values = [float(row[name]) for row in own]
                mean[name] = statistics.fmean(values)
                if name in _SPREAD and len(own) > 1:
                    mean[f"{name}_sd"] = statistics.stdev(values)
        found.append(mean)
    return found


def arrangement(saliency: Tensor, seed: int) -> list[Row]:
    """Returns unary and supermodular term of solutions from diverse to salient, per output.

    The solution at x minimises x times the unary plus 1 - x times the supermodular term: gamma is
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
    plan = mixer.last.plan if mixer.last is not None else _unmixed(count)
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


def _unmixed(count: int) -> Labelling:
    return Labelling(torch.arange(count).view(-1, 1, 1, 1), count)


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
