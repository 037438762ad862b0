"""Slow and obvious answers to compare with: plain loops and enumeration, no code of the library.

Everything is worked out again from the paper and the problem's fields, including the scale of the
weights and of the clip.
"""

import functools
import itertools
import math

import numpy as np


def locations(grid):
    return list(itertools.product(*map(range, grid)))


@functools.cache
def neighbours(grid):
    """Pairs of row-major numbers of locations one step apart along one axis."""
    places = locations(grid)
    return [
        (a, b)
        for a, b in itertools.combinations(range(len(places)), 2)
        if sum(abs(p - q) for p, q in zip(places[a], places[b], strict=True)) == 1
    ]


def all_labels(m, levels):
    """Every multiset of `levels` inputs, as a tuple."""
    return list(itertools.combinations_with_replacement(range(m), levels))


def share(label, m):
    """z of one location: the share of each input."""
    return [label.count(i) / len(label) for i in range(m)]


def pairwise_cost(a, b, m, form):
    """V(z, z') between two labels, given as tuples of inputs."""
    z, other = share(a, m), share(b, m)
    half_square = sum((p - q) ** 2 for p, q in zip(z, other, strict=True)) / 2
    if form == "squared":
        return half_square
    overlap = sum(p * q for p, q in zip(z, other, strict=True))
    if form == "inner":
        return 1 - overlap
    assert form == "official"
    if sorted(a) == sorted(b):
        return 0.0
    one_is_pure = len(set(a)) == 1 or len(set(b)) == 1
    return half_square if one_is_pure and overlap > 0 else 1.0


def log_multinomial(label, ratio):
    """log p of a label drawn from Multinomial(L, ratio)."""
    orders = math.factorial(len(label))
    for i in set(label):
        orders //= math.factorial(label.count(i))
    return math.log(orders) + sum(math.log(ratio[i]) for i in label)


def terms(problem, sources):
    """Every term of the objective for sources (m', L, *grid), by loops."""
    m, m_out = problem.cost.shape[0], problem.num_outputs
    grid = tuple(problem.cost.shape[1:])
    n = math.prod(grid)
    cost = np.array(problem.cost.double().tolist()).reshape(m, n)
    A = np.array(problem.compatibility.double().tolist())
    flat = np.array(sources.tolist()).reshape(m_out, -1, n)
    z = [[tuple(sorted(flat[j, :, k].tolist())) for k in range(n)] for j in range(m_out)]

    unary = smoothness = prior = 0.0
    for j in range(m_out):
        for k in range(n):
            unary += sum(s * c for s, c in zip(share(z[j][k], m), cost[:, k], strict=True))
            if problem.prior is not None:
                log_p = log_multinomial(z[j][k], problem.prior.double().tolist())
                prior -= problem.eta / n * log_p / len(z[j][k])
        for k, other in neighbours(grid):
            smoothness += (
                problem.beta / n * pairwise_cost(z[j][k], z[j][other], m, problem.smoothness)
            )

    o = [np.sum([share(label, m) for label in z_j], axis=0) for z_j in z]
    pairs = sum(o[a] @ A @ o[b] for a in range(m_out) for b in range(m_out) if a != b)
    ceiling = pairs
    if problem.clip is not None:
        ceiling = max(pairs, problem.tau * n**2 * m_out**2 / m)
    rest = unary + smoothness + prior
    return {
        "unary": unary,
        "smoothness": smoothness,
        "prior": prior,
        "compatibility": problem.gamma / n * pairs,
        "eq1_total": rest + problem.gamma / n * ceiling,
        "total": rest + penalty(problem, o),
    }


def penalty(problem, o):
    """(1/2)(gamma/n) sum_j phi(v_-j).o_j, the objective value's compatibility, from the counts o_j.

    `o` has shape (m', m), or (k, m', m) for k labellings at once.
    """
    o = np.asarray(o)
    m_out, m = o.shape[-2:]
    n = math.prod(problem.cost.shape[1:])
    A = np.array(problem.compatibility.double().tolist())
    level = 2 * problem.tau * n * m_out / m
    value = 0.0
    for j in range(m_out):
        v = 2 * np.delete(o, j, axis=-2).sum(-2) @ A
        phi = {None: v, "soft": np.maximum(v - level, 0.0), "hard": np.where(v > level, v, 0.0)}[
            problem.clip
        ]
        value = value + (phi * o[..., j, :]).sum(-1)
    return problem.gamma / n / 2 * value


@functools.cache
@functools.lru_cache(maxsize=32)
def all_multisets(count, size):
    """Every multiset of so many of the numbers below `count`, a row each."""
    return np.array(list(itertools.combinations_with_replacement(range(count), size)))


def joint_minimum(problem, levels):
    """The least objective value `total` of any labelling, exactly, for any clip.

    The penalty knows a labelling by its counts alone, and all outputs have the same costs. So:
    the best energy of one output for each vector of counts, then every multiset of such vectors.
    """
    m = problem.cost.shape[0]
    grid = tuple(problem.cost.shape[1:])
    n = math.prod(grid)
    cost = np.array(problem.cost.double().tolist()).reshape(m, n)
    labels = all_labels(m, levels)
    shares = np.array([share(label, m) for label in labels])
    unary = shares @ cost
    if problem.prior is not None:
        ratio = problem.prior.double().tolist()
        log_p = np.array([log_multinomial(label, ratio) for label in labels])
        unary = unary - problem.eta / n / levels * log_p[:, None]
    table = [[pairwise_cost(a, b, m, problem.smoothness) for b in labels] for a in labels]
    x, value = all_energies(unary, problem.beta / n * np.array(table), grid)
    counts = np.rint(shares[x].sum(1) * levels).astype(int)

    best = {}
    for vector, energy in zip(map(tuple, counts.tolist()), value.tolist(), strict=True):
        best[vector] = min(energy, best.get(vector, math.inf))
    own = np.array(list(best.values()))
    o = np.array(list(best)) / levels
    chosen = all_multisets(len(own), problem.num_outputs)
    return float((own[chosen].sum(1) + penalty(problem, o[chosen])).min())


# ---- The inner step: sum_k unary[x_k, k] + sum over neighbours of pairwise[x_k, x_k'] ------------


def energy(unary, pairwise, grid, x):
    value = sum(unary[x[k], k] for k in range(len(x)))
    return value + sum(pairwise[x[k], x[other]] for k, other in neighbours(grid))


@functools.lru_cache(maxsize=32)
def all_words(num_labels, n):
    """Every sequence of n labels, (num_labels ** n, n), the last label changing fastest."""
    return np.indices((num_labels,) * n, dtype=np.intp).reshape(n, -1).T


def all_energies(unary, pairwise, grid):
    """Every labelling, (count, n), and its energy."""
    num_labels, n = unary.shape
    x = all_words(num_labels, n)
    value = unary[x, np.arange(n)].sum(1)
    for k, other in neighbours(grid):
        value = value + pairwise[x[:, k], x[:, other]]
    return x, value


def inner_minimum(unary, pairwise, grid):
    return float(all_energies(unary, pairwise, grid)[1].min())


def profile_minimum(unary, pairwise, grid):
    """The same for grids too large to enumerate: a transfer matrix along the longest side.

    The table holds the least energy of all rows so far for each labelling of the last row; it has
    labels ** (size of a row) entries, so rows must be small.
    """
    num_labels, n = unary.shape
    longest = grid.index(max(grid))
    unary = np.moveaxis(unary.reshape(num_labels, *grid), 1 + longest, 1).reshape(num_labels, n)
    grid = (grid[longest], *grid[:longest], *grid[longest + 1 :])
    row = math.prod(grid[1:])
    inside = neighbours(grid[1:]) if len(grid) > 1 else []
    states = all_words(num_labels, row)
    table = np.zeros(len(states))
    for first in range(0, n, row):
        if first:
            # One place of the row after the other: its label before -> its label now.
            table = table.reshape((num_labels,) * row)
            for place in range(row):
                moved = np.moveaxis(table, place, -1)
                table = np.moveaxis((moved[..., :, None] + pairwise).min(-2), -1, place)
            table = table.ravel()
        table = table + unary[states, np.arange(first, first + row)].sum(1)
        for k, other in inside:
            table = table + pairwise[states[:, k], states[:, other]]
    return float(table.min())


def iterated_conditional_modes(unary, pairwise, grid, start):
    """The labelling reached by changing one location at a time for the better."""
    around = [[] for _ in start]
    for k, other in neighbours(grid):
        around[k].append(other)
        around[other].append(k)
    x = list(start)
    changed = True
    while changed:
        changed = False
        for k in range(len(x)):
            local = unary[:, k] + sum(pairwise[:, x[other]] for other in around[k])
            best = int(local.argmin())
            if local[best] < local[x[k]] - 1e-9:
                x[k], changed = best, True
    return x
