"""Algorithm 1 in NumPy, written to be read beside the paper; the kernel is tested against it.

`algorithm_1` is the paper's listing; `solve` adds what the listing lacks: energy unit, best sweep,
perturbations, duplicates. `native/solver/algorithm.hpp` runs the same outer loop, with the same
steps and letters; its header maps its functions to these. The inner step, from `minimize` on,
differs from the kernel's: it is exact more often, and slow.

Letters are the paper's in both: i input, j output, k location, m inputs, n locations, L levels, z_j
the labels of output j, o_j its source counts, v the load, A the compatibility. A label is a
multiset of L inputs, kept as a sorted row of a (labels, L) array: z = (1/L) sum_l onehot.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from comixup.core.grid import edges

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

TOP_SOURCES = 3
"""Mixed labels are built from this many of the inputs that an output uses most."""

EXACT_STATES = 2**16
"""Largest table of the exact step; beyond it, fusion moves."""

TIE = 1e-12
"""Energies closer than this, relative to their size, are equal: rounding must not decide."""

ROUNDING = 1e-14
"""Objective values closer than this, relative to their size, are equal."""

_WIDEST = 1e-200
"""Lower bound of the energy unit, relative to the largest penalty or cost."""


class ScaledProblem(NamedTuple):
    """A problem as plain arrays, with weights per location: beta / n, gamma / n, eta / n."""

    cost: Floats  # (m, n), the prior of one-hot labels folded in
    compatibility: Floats  # (m, m)
    grid: tuple[int, ...]
    beta: float
    gamma: float
    eta: float  # 0 where there is no prior
    clip: str | None
    clip_level: float  # tau'
    smoothness: str


class Modular(NamedTuple):
    """The modularized f_j: sum_k unary[z_k, k] + sum_(k,k') pairwise[z_k, z_k']."""

    labels: Ints  # (labels, L), those that the output may take
    unary: Floats  # (labels, n)
    pairwise: Floats  # (labels, labels)


# ---- Algorithm 1 ---------------------------------------------------------------------------------


def algorithm_1(p: ScaledProblem, z: Ints, *, T: int, L: int, extra: Floats) -> Ints:
    """Returns z^(T) of Algorithm 1, from labels z^(0), (m', n, levels).

    A label mixes up to L inputs. `extra`, (m', m), is added to Eq. (2)'s penalty: 0, or
    `resolving_penalty`.
    """
    for _t in range(T):
        z = z.copy()  # z^(t), starting from z^(t-1)
        for j in range(len(z)):
            v = load_from_others(p, z, j)  # all that f_j(z_j) needs of the other outputs
            f = modularize(p, v, extra[j], z[j], L)  # Phi(f_j)
            z[j] = argmin(f, p.grid, z[j])
    return z


def load_from_others(p: ScaledProblem, z: Ints, j: int) -> Floats:
    """Returns v_-j = 2 A sum_(j' != j) o_j', (m,)."""
    o = np.stack([source_counts(z_j, len(p.cost)) for z_j in z])
    v: Floats = 2 * p.compatibility @ (o.sum(0) - o[j])
    return v


def modularize(p: ScaledProblem, v: Floats, extra: Floats, z_j: Ints, L: int) -> Modular:
    """Returns f_j with the penalty of Eq. (2): costs of labels and of pairs of them."""
    m = len(p.cost)
    penalty = p.gamma * phi(v, p) + extra
    labels = candidate_labels(z_j, m, L)
    unary = (p.cost + penalty[:, None])[labels].mean(1) - p.eta * mixing_bonus(labels)[:, None]
    return Modular(labels, unary, p.beta * pairwise_costs(labels, m, p.smoothness))


def argmin(f: Modular, grid: Sequence[int], z_j: Ints) -> Ints:
    """Returns labels of one output that minimize f, starting from z_j."""
    start = np.array([index_of(f.labels, z_jk) for z_jk in z_j])
    return f.labels[minimize(f.unary, f.pairwise, grid, start)]


# ---- Around it: the best sweep, perturbations, duplicates ---------------------------------------


def solve(
    p: ScaledProblem, start: Ints, *, sweeps: int, levels: int, resolve: bool
) -> tuple[Ints, Floats]:
    """Returns the labels, (m', n, L), and the objective value after every sweep.

    A sweep is one t of Algorithm 1; the first uses one-hot labels only. The best sweep is returned.
    With `resolve`, the last sweep penalizes outputs with the same support, and a labelling with
    fewer of them is better whatever its objective value.

    Paper: the algorithm ends when a sweep changes nothing. The remaining sweeps start from
    perturbed labels: see `perturb`.
    """
    unit = energy_unit(p, len(start))
    p = p._replace(cost=p.cost / unit, beta=p.beta / unit, gamma=p.gamma / unit, eta=p.eta / unit)
    z = best = np.repeat(start[..., None], levels, axis=2)
    best_rank = (math.inf, math.inf)
    objective_values = np.zeros(sweeps)
    settled = False  # whether a sweep changed nothing: the remaining ones are spare
    perturbations = itertools.count()
    for sweep in range(sweeps):
        resolving = resolve and 0 < sweep == sweeps - 1
        spare = settled and not resolving
        before: Ints | None = best if resolving or settled else z
        if spare:
            before = perturb(best, len(p.cost), next(perturbations))
        if before is None:  # all perturbations have been tried
            objective_values[sweep] = objective_values[sweep - 1]
            continue
        extra = resolving_penalty(p, before) if resolving else np.zeros((len(z), len(p.cost)))
        z = algorithm_1(p, before, T=1, L=levels if sweep > 0 else 1, extra=extra)
        z_rank = rank(p, z, resolve)
        objective_values[sweep] = z_rank[1]
        better = sweep == 0 or is_better(z_rank, best_rank)
        if better:
            best, best_rank = z, z_rank
        settled = not better if spare else sweep > 0 and np.array_equal(z, before)
        if spare and not better:  # the result of the perturbation is discarded
            objective_values[sweep] = objective_values[sweep - 1]
    return best, objective_values * unit


def energy_unit(p: ScaledProblem, num_outputs: int) -> float:
    """Returns the power of two nearest to the largest energy that decides between labels.

    In this unit energies are neither too large nor too small for the tolerances above. The largest
    is taken of beta, eta and the cost differences at a location, or of the penalties if all are 0.
    """
    penalty = 2 * p.gamma * float(p.compatibility.max()) * p.cost.shape[1] * num_outputs
    largest = max(float(np.ptp(p.cost, axis=0).max()), p.beta, p.eta) or penalty
    # All other terms have to stay finite.
    largest = max(largest, _WIDEST * max(penalty, float(np.abs(p.cost).max())))
    return 2.0 ** (math.frexp(largest)[1] - 1) if largest > 0 else 1.0


def rank(p: ScaledProblem, z: Ints, resolve: bool) -> tuple[float, float]:
    """Returns (duplicated outputs if they are to be resolved, objective value): lower is better."""
    return (duplicates(z) if resolve else 0, objective_value(p, z))


def is_better(rank: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether a pair (duplicates, objective value) is better by more than rounding."""
    if rank[0] != other[0]:
        return rank[0] < other[0]
    return rank[1] < other[1] - ROUNDING * abs(other[1])


def perturb(z: Ints, m: int, number: int) -> Ints | None:
    """Returns perturbed labels to escape a local optimum; None if all were tried.

    The first perturbation assigns each output one input, the one it uses most among those not yet
    assigned; the others set one output to one input.
    """
    z = z.copy()
    if number == 0:
        taken = np.zeros(m, dtype=bool)
        for j, z_j in enumerate(z):
            free = ~taken if not taken.all() else np.ones(m, dtype=bool)
            own = int(np.where(free, source_counts(z_j, m), -1).argmax())
            z[j] = own
            taken[own] = True
        return z
    i, j = divmod(number - 1, len(z))
    if i >= m:
        return None
    z[j] = i
    return z


def phi(v: Floats, p: ScaledProblem) -> Floats:
    """Returns the penalty of inputs of load v, Eq. (2) (less the constant tau')."""
    if p.clip is None:
        return v
    if p.clip == "soft":
        return np.maximum(v - p.clip_level, 0)
    return np.where(v > p.clip_level, v, 0.0)


def objective_value(p: ScaledProblem, z: Ints) -> float:
    """Returns `total` of `objective`, from plain arrays."""
    m = len(p.cost)
    counts = np.stack([source_counts(z_j, m) for z_j in z])
    v = 2 * (counts.sum(0) - counts) @ p.compatibility
    value = p.gamma / 2 * float((phi(v, p) * counts).sum())
    pairs = edges(p.grid)
    for z_j in z:
        labels, site = np.unique(z_j, axis=0, return_inverse=True)
        unary = p.cost[labels].mean(1) - p.eta * mixing_bonus(labels)[:, None]
        pairwise = p.beta * pairwise_costs(labels, m, p.smoothness)
        site = site.ravel()
        value += float(unary[site, np.arange(len(site))].sum())
        value += float(pairwise[site[pairs[:, 0]], site[pairs[:, 1]]].sum())
    return value


def source_counts(z_j: Ints, m: int) -> Floats:
    """Returns o_j = sum_k z_jk of one output, (m,)."""
    counts: Floats = np.bincount(z_j.ravel(), minlength=m) / z_j.shape[1]
    return counts


def candidate_labels(z_j: Ints, m: int, levels: int) -> Ints:
    """Returns the labels an output may take, one-hot ones first.

    All one-hot labels; the multisets of the inputs it uses most; the labels it holds now.
    """
    width = z_j.shape[1]
    rows = {(i,) * width: None for i in range(m)}
    if levels > 1:
        counts = source_counts(z_j, m)
        used = np.flatnonzero(counts)
        top = sorted(used[np.argsort(-counts[used], kind="stable")][:TOP_SOURCES].tolist())
        rows.update(dict.fromkeys(itertools.combinations_with_replacement(top, width)))
        rows.update(dict.fromkeys(map(tuple, z_j.tolist())))
    return np.array(list(rows))


def mixing_bonus(labels: Ints) -> Floats:
    """Returns (1/L) log of the number of orders each label can be drawn in: 0 if one-hot."""
    levels = labels.shape[1]
    log_orders = [
        math.lgamma(levels + 1) - sum(math.lgamma(row.count(i) + 1) for i in set(row))
        for row in labels.tolist()
    ]
    bonus: Floats = np.array(log_orders) / levels
    return bonus


def pairwise_costs(labels: Ints, m: int, form: str) -> Floats:
    """Returns V(z, z') between all labels, (labels, labels)."""
    z = np.stack([np.bincount(row, minlength=m) for row in labels]) / labels.shape[1]
    inner: Floats = z @ z.T
    norm = inner.diagonal()
    squared: Floats = (norm[:, None] + norm[None, :]) / 2 - inner
    if form == "squared":
        return squared
    if form == "inner":
        return np.ones_like(inner) - inner
    pure = z.max(1) == 1
    part_of = (pure[:, None] | pure[None, :]) & (inner > 0)
    table = np.where(part_of, squared, 1.0)
    np.fill_diagonal(table, 0)
    return table


def index_of(labels: Ints, row: Ints) -> int:
    """Returns the index of the label equal to a row."""
    return int(np.flatnonzero((labels == row).all(1))[0])


def duplicates(z: Ints) -> int:
    """Returns how many outputs have the same support as an earlier one."""
    return len(z) - len({frozenset(z_j.ravel().tolist()) for z_j in z})


def resolving_penalty(p: ScaledProblem, z: Ints) -> Floats:
    """Returns the extra penalty, (m', m), on outputs with the same support.

    The r-th output with a support pays gamma / n for the support's r-th input (the authors'
    code, for pairs; the paper has no such step).
    """
    extra = np.zeros((len(z), len(p.cost)))
    groups: dict[tuple[int, ...], list[int]] = {}
    for j, z_j in enumerate(z):
        groups.setdefault(tuple(np.unique(z_j).tolist()), []).append(j)
    for support, outputs in groups.items():
        if len(outputs) > 1:
            for j, i in zip(outputs, support, strict=False):
                extra[j, i] = p.gamma
    return extra


# ---- The inner step: minimize sum_k unary[x_k, k] + sum_(k,k') pairwise[x_k, x_k'] ---------------


def minimize(unary: Floats, pairwise: Floats, grid: Sequence[int], start: Ints) -> Ints:
    """Returns a labelling (n,) of least energy; exact if few labels survive elimination.

    Otherwise: fusion moves from `start`, each an exact choice between the current label and
    another at every location, until none helps.
    """
    pairs = edges(grid)
    allowed = eliminate(unary, pairwise, pairs)
    if frontier_states(allowed, grid) <= EXACT_STATES:
        return frontier_minimum(unary, pairwise, grid, allowed)
    x = start
    for k, labels in enumerate(allowed):
        if x[k] not in labels:  # a dominated label has a better one whatever its neighbors are
            x = x.copy()
            x[k] = labels[unary[labels, k].argmin()]
    value = energy(unary, pairwise, pairs, x)
    improved = True
    while improved:
        improved = False
        for label in range(len(unary)):
            choices = [
                np.array([x_k] if x_k == label or label not in labels else [x_k, label])
                for x_k, labels in zip(x, allowed, strict=True)
            ]
            proposal = frontier_minimum(unary, pairwise, grid, choices)
            proposed = energy(unary, pairwise, pairs, proposal)
            if proposed < value - TIE * max(1.0, abs(value)):
                x, value, improved = proposal, proposed, True
    return x


def energy(unary: Floats, pairwise: Floats, pairs: Ints, x: Ints) -> float:
    """Returns the energy of a labelling x."""
    return float(unary[x, np.arange(len(x))].sum() + pairwise[x[pairs[:, 0]], x[pairs[:, 1]]].sum())


def eliminate(unary: Floats, pairwise: Floats, pairs: Ints) -> list[Ints]:
    """Returns the labels that may still be optimal at each location.

    Label l is dropped if some l' is better there whatever the neighbors' labels:
    unary[l] - unary[l'] > sum over neighbors of max_x (pairwise[l', x] - pairwise[l, x]).
    """
    num_labels, n = unary.shape
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for k, other in pairs.tolist():
        neighbours[k].append(other)
        neighbours[other].append(k)
    allowed = [np.arange(num_labels) for _ in range(n)]
    changed = True
    while changed:
        changed = False
        for k in range(n):
            labels = allowed[k]
            best = labels[unary[labels, k].argmin()]
            # The most by which neighbors can favor each label over the best one.
            favour = sum(
                (pairwise[best][allowed[other]] - pairwise[labels][:, allowed[other]]).max(1)
                for other in neighbours[k]
            )
            slack = TIE * max(1.0, float(np.abs(unary[labels, k]).max()))
            keep = unary[labels, k] - unary[best, k] <= favour + slack
            if not keep.all():
                allowed[k] = labels[keep]
                changed = True
    return allowed


def frontier(grid: Sequence[int]) -> tuple[Ints, int]:
    """Returns the order in which locations are visited and the size of a slab.

    Slabs lie across the longest side: a location's neighbors are at most one slab's size back.
    """
    longest = int(np.argmax(grid))
    order = np.arange(math.prod(grid)).reshape(tuple(grid))
    return np.moveaxis(order, longest, 0).ravel(), math.prod(grid) // grid[longest]


def frontier_states(allowed: list[Ints], grid: Sequence[int]) -> int:
    """Returns the size of the largest table that `frontier_minimum` would fill."""
    order, width = frontier(grid)
    counts = [len(allowed[k]) for k in order]
    return max(math.prod(counts[max(0, t - width) : t + 1]) for t in range(len(counts)))


def frontier_minimum(
    unary: Floats, pairwise: Floats, grid: Sequence[int], allowed: list[Ints]
) -> Ints:
    """Returns the labelling of least energy by dynamic programming over the frontier.

    The table holds, for every choice of labels at the last `width` locations, the least energy of
    all locations visited so far. No submodularity is needed.
    """
    order, width = frontier(grid)
    neighbours = {tuple(pair) for pair in np.sort(edges(grid), axis=1).tolist()}
    table = np.zeros(())
    front: list[int] = []
    choices: list[Ints] = []
    for k in order.tolist():
        table = table[..., None] + unary[allowed[k], k]
        for axis, other in enumerate(front):
            if (min(k, other), max(k, other)) in neighbours:
                between = pairwise[np.ix_(allowed[other], allowed[k])]
                shape = [1] * table.ndim
                shape[axis], shape[-1] = between.shape
                table = table + between.reshape(shape)
        front.append(k)
        if len(front) > width:
            choices.append(table.argmin(0))
            table = table.min(0)
            front.pop(0)
    x = np.empty(len(order), dtype=np.int64)
    chosen = list(np.unravel_index(int(table.argmin()), table.shape))
    for choice in reversed(choices):
        chosen.insert(0, choice[tuple(chosen[:width])])
    for k, index in zip(order.tolist(), chosen, strict=True):
        x[k] = allowed[k][index]
    return x
