"""The baselines of appendix D: other ways to find a labelling, to measure Algorithm 1 against."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from comixup import _native
from comixup._checks import check_count
from comixup._random import draw_seed
from comixup.core.grid import edges
from comixup.core.labelling import Labelling
from comixup.core.objective import clipped, pairwise_cost, prior
from comixup.core.problem import Problem
from comixup.core.solve import random_labels, scaled_problem

MAX_LABELLINGS = 2**22
"""Most labellings of one output that `exhaustive` lists: a few hundred megabytes."""

MAX_COMBINATIONS = 2**24
"""Most combinations of outputs that `exhaustive` compares, times inputs: some ten seconds."""

_CHUNK = 2**16

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


def exhaustive(problem: Problem, *, levels: int = 1) -> Labelling:
    """Returns a labelling that minimizes `objective(...).total`, by looking at all of them.

    Outputs meet only through their source counts o_j. So: list all labellings of one output, keep
    the best one for each o_j; then try every combination of such o_1, ..., o_m'. Outputs are
    interchangeable, so their order is not tried. Exact for any clip, smoothness and prior.

    Args:
        problem: a small problem.
        levels: L; every multiset of L inputs is allowed at every location.

    >>> problem = Problem(cost=-torch.eye(2), compatibility=torch.eye(2), clip=None)
    >>> exhaustive(problem).sources.flatten(1).tolist()
    [[0, 0], [1, 1]]
    """
    m, n, m_out = problem.num_inputs, problem.num_locations, problem.num_outputs
    check_count("levels", levels)
    _check_size(m, n, m_out, levels)
    kinds = math.comb(m + levels - 1, levels)
    labels = torch.tensor(list(itertools.combinations_with_replacement(range(m), levels)))
    masks = torch.zeros(kinds, m, dtype=torch.float64)
    masks.scatter_add_(1, labels, torch.full_like(labels, 1, dtype=torch.float64) / levels)

    energy = _energies(problem, masks, levels)
    counts, best = _best_per_count(energy, masks, n, levels)
    chosen = _best_combination(problem, counts, torch.from_numpy(energy[best]))
    digits = best[chosen][:, None] // kinds ** np.arange(n - 1, -1, -1, dtype=np.int64) % kinds
    sources = labels[torch.from_numpy(digits)].transpose(1, 2)
    sources = sources.reshape(m_out, levels, *problem.grid)
    return Labelling(sources.to(problem.cost.device), m)


def narasimhan_bilmes(
    problem: Problem, *, iterations: int = 100, generator: torch.Generator | None = None
) -> Labelling:
    """Returns a one-hot labelling by the submodular-supermodular procedure of Narasimhan & Bilmes.

    From a random labelling, each iteration bounds the whole compatibility term by a modular
    function: its gains along a random chain of sets of (output, location, input) that runs through
    the present labelling and then through multi-hot ones. The bound is minimized with the same
    compiled inner step as Algorithm 1's. `objective(...).eq1_total` never increases.

    Args:
        problem: the problem; its clip, if any, is Eq. (1)'s on the sum over all outputs.
        iterations: most iterations; fewer if one changes nothing.
        generator: where the start and the permutations come from; None means torch's global one.

    >>> problem = Problem(cost=-torch.eye(2), compatibility=torch.eye(2), clip=None)
    >>> narasimhan_bilmes(problem).sources.shape
    torch.Size([2, 1, 2])
    """
    check_count("iterations", iterations)
    start = random_guess(problem, generator=generator).sources.cpu().flatten(1)
    seed = draw_seed(generator)
    scaled = scaled_problem(problem)
    labels = np.empty(tuple(start.shape), dtype=np.int32)
    _native.narasimhan_bilmes(
        scaled.cost,
        scaled.compatibility,
        scaled.beta,
        scaled.gamma,
        -math.inf if problem.clip is None else problem.total_clip,
        start.to(torch.int32).numpy(),
        list(problem.grid),
        iterations,
        seed,
        labels,
    )
    return _one_hot(problem, torch.from_numpy(labels))


def random_guess(problem: Problem, *, generator: torch.Generator | None = None) -> Labelling:
    """Returns i.i.d. uniform one-hot labels: a feasible random labelling.

    It is the start that `solve` draws first from the same generator.

    Paper: its "Random" row draws every entry of every mask by itself, so that a location holds
    about m / 2 inputs at once; its figures are far above those of any feasible labelling.

    >>> problem = Problem(cost=-torch.rand(3, 2, 2), compatibility=torch.eye(3))
    >>> random_guess(problem).sources.shape
    torch.Size([3, 1, 2, 2])
    """
    return _one_hot(problem, torch.from_numpy(random_labels(problem, 1, generator)[0]))


def identity(problem: Problem) -> Labelling:
    """Returns the labelling without any mixing: output j is input j mod m.

    >>> problem = Problem(cost=-torch.rand(2, 3), compatibility=torch.eye(2), num_outputs=3)
    >>> identity(problem).sources.flatten(1).tolist()
    [[0, 0, 0], [1, 1, 1], [0, 0, 0]]
    """
    inputs = torch.arange(problem.num_outputs) % problem.num_inputs
    return _one_hot(problem, inputs[:, None].expand(-1, problem.num_locations))


def _one_hot(problem: Problem, labels: Tensor) -> Labelling:
    sources = labels.to(problem.cost.device, torch.int64).reshape(-1, 1, *problem.grid)
    return Labelling(sources, problem.num_inputs)


def _energies(problem: Problem, masks: Tensor, levels: int) -> _Floats:
    """Returns the energy of every labelling of one output without the compatibility term.

    Labelling x has the index sum_k x_k K^(n-1-k) for K labels.
    """
    n = problem.num_locations
    kinds = len(masks)
    unary = masks @ problem.cost.cpu().double().reshape(problem.num_inputs, n)
    if problem.prior is not None:
        ratio = problem.prior.cpu().double()
        each = [prior(z.reshape(1, -1, 1), ratio, levels) for z in masks]
        unary = unary + problem.eta / n * torch.stack(each)[:, None]
    z, other = masks[:, :, None], masks.T[None]
    pairwise = (problem.beta / n * pairwise_cost(z, other, problem.smoothness)).numpy()
    earlier: list[list[int]] = [[] for _ in range(n)]
    for k, later in edges(problem.grid).tolist():
        earlier[later].append(k)
    energy = np.zeros(1)
    for k, costs in enumerate(unary.T.numpy()):
        energy = (energy[:, None] + costs).ravel()
        for neighbour in earlier[k]:
            view = energy.reshape(-1, kinds, kinds ** (k - neighbour - 1), kinds)
            view += pairwise[:, None, :]
    return energy


def _best_per_count(energy: _Floats, masks: Tensor, n: int, levels: int) -> tuple[Tensor, _Ints]:
    """Returns the source counts that occur, (counts, m), and the best labelling of each."""
    counts, group = _count_groups(len(masks), n, levels, masks.shape[1])
    order = np.lexsort((energy, group))
    first = np.flatnonzero(np.diff(group[order], prepend=-1))
    return counts, order[first]


@functools.lru_cache(maxsize=4)
def _count_groups(kinds: int, n: int, levels: int, m: int) -> tuple[Tensor, _Ints]:
    """Returns all source counts, and which of them each labelling of one output has."""
    labels = itertools.combinations_with_replacement(range(m), levels)
    base = levels * n + 1  # an input's count in units of 1 / L is a digit to this base
    codes = np.array([sum(base**i for i in row) for row in labels], dtype=object)
    if base**m < 2**63:
        codes = codes.astype(np.int64)
    total = np.zeros(1, dtype=codes.dtype)
    for _ in range(n):
        total = (total[:, None] + codes).ravel()
    values, group = np.unique(total, return_inverse=True)
    counts = [[int(code) // base**i % base for i in range(m)] for code in values]
    return torch.tensor(counts, dtype=torch.float64) / levels, group.ravel()


def _best_combination(problem: Problem, counts: Tensor, energy: Tensor) -> _Ints:
    """Returns which source counts the outputs take in the best combination, (m',)."""
    matrix = problem.compatibility.cpu().double()
    weight = problem.gamma / problem.num_locations / 2
    best, best_value = torch.empty(0, dtype=torch.int64), math.inf
    for chosen in _combinations(len(energy), problem.num_outputs):
        o = counts[chosen]
        v = 2 * (o.sum(1, keepdim=True) - o) @ matrix
        value = energy[chosen].sum(1) + weight * (clipped(v, problem) * o).sum((1, 2))
        lowest = int(value.argmin())
        if float(value[lowest]) < best_value:
            best, best_value = chosen[lowest], float(value[lowest])
    return best.numpy()


def _combinations(kinds: int, size: int) -> Iterator[Tensor]:
    """Yields the multisets of `size` out of `kinds`, in chunks of rows."""
    rows = itertools.combinations_with_replacement(range(kinds), size)
    while (chunk := np.array(list(itertools.islice(rows, _CHUNK)), dtype=np.int64)).size:
        yield torch.from_numpy(chunk)


def _check_size(m: int, n: int, m_out: int, levels: int) -> None:
    """Rejects what `exhaustive` could not finish; in logarithms, as the numbers can be absurd."""
    kinds = _log2_multisets(m, levels)
    if n * kinds > math.log2(MAX_LABELLINGS):
        raise ValueError(
            f"`problem` must have at most {MAX_LABELLINGS} labellings of one output, got about "
            f"2^{n * kinds:.0f}. Use fewer inputs, locations or levels."
        )
    vectors = math.comb(m + levels * n - 1, levels * n)
    combinations = _log2_multisets(vectors, m_out)
    if combinations + math.log2(m) > math.log2(MAX_COMBINATIONS):
        raise ValueError(
            f"`problem` must have at most {MAX_COMBINATIONS // m} combinations of "
            f"outputs, got about 2^{combinations:.0f}. Use fewer inputs, outputs or locations."
        )


def _log2_multisets(kinds: int, size: int) -> float:
    """Returns log2 of the number of multisets of `size` out of `kinds`."""
    parts = math.lgamma(kinds + size) - math.lgamma(size + 1) - math.lgamma(kinds)
    return parts / math.log(2)
