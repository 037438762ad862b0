"""The objective f(z), Eq. (1), one function per term: what solvers are tested against.

Index letters as in the paper: i input, j output, k location; masks hold z as (m', m, n).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from comixup.core.grid import edges
from comixup.core.labelling import Labelling
from comixup.core.problem import Problem


@dataclass(frozen=True)
class Terms:
    """The value of every term of the objective, weights included.

    Attributes:
        unary: sum_jk c_k.z_jk, minus the saliency kept.
        smoothness: (beta/n) sum_j sum_(k,k') V(z_jk, z_jk').
        prior: -(eta/n) sum_jk (1/L) log p(z_jk).
        compatibility: (gamma/n) sum_j sum_j'!=j o_j.A o_j', not clipped.
        eq1_total: Eq. (1) to the letter: its max clips the sum over all pairs of outputs.
        total: the objective value of Algorithm 1, whose penalty is clipped per output and input as
            in Eq. (2): (1/2)(gamma/n) sum_j phi(v_-j).o_j. Without a clip the two are the same.
    """

    unary: float
    smoothness: float
    prior: float
    compatibility: float
    eq1_total: float
    total: float


def objective(problem: Problem | Sequence[Problem], labelling: Labelling) -> Terms:
    """Returns the terms of Eq. (1), and the objective value of Algorithm 1, for a labelling.

    For a sequence of problems (the partitions of a batch) and their common labelling, each term is
    the sum over the problems.

    >>> problem = Problem(cost=-torch.eye(2), compatibility=torch.eye(2), clip=None)
    >>> objective(problem, Labelling(torch.tensor([[[0, 0]], [[1, 1]]]), num_inputs=2)).total
    -2.0
    """
    problems = list(problem) if isinstance(problem, Iterable) else [problem]
    for p in problems:
        if not isinstance(p, Problem):
            raise TypeError(
                f"`problem` must be a Problem or a sequence of them, got {type(p).__name__}."
            )
    if not isinstance(labelling, Labelling):
        raise TypeError(f"`labelling` must be a Labelling, got {type(labelling).__name__}.")
    parts = [_terms(p, masks, labelling.levels) for p, masks in _split(problems, labelling)]
    return Terms(
        **{name: sum(asdict(part)[name] for part in parts) for name in Terms.__annotations__}
    )


def unary(cost: Tensor, masks: Tensor) -> Tensor:
    """Returns sum_j sum_k c_k.z_jk."""
    return torch.einsum("ik,jik->", cost, masks)


def smoothness(masks: Tensor, grid: Sequence[int], form: str) -> Tensor:
    """Returns sum_j sum_(k,k') V(z_jk, z_jk') over the neighboring locations of the grid."""
    pairs = torch.from_numpy(edges(grid))
    return pairwise_cost(masks[:, :, pairs[:, 0]], masks[:, :, pairs[:, 1]], form).sum()


def pairwise_cost(z: Tensor, other: Tensor, form: str) -> Tensor:
    """Returns V(z, z') of two neighbors; inputs along the second axis. Always within [0, 1]."""
    squared = (z - other).square().sum(1) / 2
    if form == "squared":
        return squared
    if form == "inner":
        return 1 - (z * other).sum(1)
    # The authors' table: a label against itself 0; a mixed label against one of its own parts
    # 0.25 for an even pair, here |z - z'|^2 / 2 so that it has a value at any L; all else 1.
    same = (z == other).all(1)
    pure = (z.amax(1) == 1) | (other.amax(1) == 1)
    part_of = pure & ((z * other).sum(1) > 0)
    return torch.where(same, 0.0, torch.where(part_of, squared, 1.0))


def prior(masks: Tensor, ratio: Tensor, levels: int) -> Tensor:
    """Returns -sum_jk (1/L) log p(z_jk) with z_jk ~ (1/L) Multinomial(L, lambda).

    Paper: log p itself. Dividing by L makes it the mean per draw, so that a location's prior does
    not change when a one-hot label is written with more levels.
    """
    counts = (masks * levels).round()
    arrangements = math.lgamma(levels + 1) - torch.lgamma(counts + 1).sum(1)
    log_p = arrangements + torch.einsum("jik,i->jk", counts, ratio.log())
    return -log_p.sum() / levels


def compatibility(counts: Tensor, matrix: Tensor) -> Tensor:
    """Returns sum_j sum_{j' != j} o_j.A o_j', the supermodular term before any clip."""
    total = counts.sum(0)
    return total @ matrix @ total - torch.einsum("ji,ih,jh->", counts, matrix, counts)


def load_from_others(counts: Tensor, matrix: Tensor) -> Tensor:
    """Returns v_-j = 2 A sum_{j' != j} o_j' of every output, (m', m)."""
    return 2 * (counts.sum(0) - counts) @ matrix


def clipped(loads: Tensor, problem: Problem) -> Tensor:
    """Returns phi(v), Eq. (2)'s penalty of an input of load v.

    "soft" is max(tau', v) less the constant tau', so that no clip means no penalty.
    """
    if problem.clip is None:
        return loads
    level = problem.clip_level
    if problem.clip == "soft":
        return (loads - level).clamp(min=0)
    return torch.where(loads > level, loads, 0.0)


def _terms(problem: Problem, masks: Tensor, levels: int) -> Terms:
    n = problem.num_locations
    # The solver's arrays: a problem's public tensors may be rounded to float32.
    cost, matrix = (torch.tensor(array) for array in problem.host[:2])
    counts = masks.sum(2)
    parts = {
        "unary": unary(cost, masks),
        "smoothness": problem.beta / n * smoothness(masks, problem.grid, problem.smoothness),
        "prior": (
            torch.zeros(())
            if problem.host.prior is None
            else problem.eta / n * prior(masks, torch.tensor(problem.host.prior), levels)
        ),
    }
    rest = sum(float(part) for part in parts.values())
    pairs = compatibility(counts, matrix)
    ceiling = pairs if problem.clip is None else pairs.clamp(min=problem.total_clip)
    penalty = (clipped(load_from_others(counts, matrix), problem) * counts).sum() / 2
    return Terms(
        **{name: float(part) for name, part in parts.items()},
        compatibility=float(problem.gamma / n * pairs),
        eq1_total=rest + float(problem.gamma / n * ceiling),
        total=rest + float(problem.gamma / n * penalty),
    )


def _split(problems: list[Problem], labelling: Labelling) -> list[tuple[Problem, Tensor]]:
    """Returns each problem with its own masks, (m', m, n) float64 on the CPU."""
    inputs = [problem.num_inputs for problem in problems]
    outputs = [problem.num_outputs for problem in problems]
    grids = {problem.grid for problem in problems}
    if (
        sum(inputs) != labelling.num_inputs
        or sum(outputs) != labelling.num_outputs
        or grids != {labelling.grid}
    ):
        raise ValueError(
            "`labelling` must fit the problem: it has "
            f"{labelling.num_outputs} outputs of {labelling.num_inputs} inputs on the grid "
            f"{labelling.grid}, got problems with {sum(outputs)} outputs of {sum(inputs)} inputs "
            f"on {' and '.join(map(str, grids)) or 'none'}."
        )
    masks = _exact_masks(labelling)
    blocks = []
    row = column = 0
    for problem, m, m_out in zip(problems, inputs, outputs, strict=True):
        block = masks[row : row + m_out, column : column + m]
        if bool((block.sum(1) < 1 - 1e-9).any()):
            raise ValueError(
                "`labelling` must fill a problem's outputs from the same problem's inputs, got an "
                f"output in {row}..{row + m_out - 1} with a source outside "
                f"{column}..{column + m - 1}."
            )
        blocks.append((problem, block))
        row, column = row + m_out, column + m
    return blocks


def _exact_masks(labelling: Labelling) -> Tensor:
    sources = labelling.sources.cpu().long().flatten(2)
    shape = (labelling.num_outputs, labelling.num_inputs, sources.shape[2])
    counts = torch.zeros(shape, dtype=torch.float64)
    counts.scatter_add_(1, sources, torch.ones_like(sources, dtype=torch.float64))
    return counts / labelling.levels
