"""A named set of small problems, shared by the tests of everything that takes a problem."""

import torch

from cases import each_case
from comixup import Problem


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def maps(m, grid, seed, power=3):
    """Random saliency-like maps, (m, *grid), each summing to one; higher powers are more peaked."""
    s = torch.rand(m, *grid, generator=generator(seed), dtype=torch.float64) ** power
    return s / s.flatten(1).sum(1).view(-1, *[1] * len(grid))


def ratio(m, seed):
    draw = torch.rand(m, generator=generator(seed), dtype=torch.float64) + 0.1
    return draw / draw.sum()


def distances(m, seed, omega=0.2):
    """(1 - omega) I + omega A_c for places drawn on a line, as `from_saliency` would build it."""
    place = torch.rand(m, generator=generator(seed), dtype=torch.float64)
    apart = (place[:, None] - place[None, :]).abs()
    return (1 - omega) * torch.eye(m, dtype=torch.float64) + omega * apart * m / apart.sum()


def psd(m, seed):
    """An arbitrary positive semi-definite matrix without negative entries."""
    root = torch.rand(m, m, generator=generator(seed), dtype=torch.float64)
    return root @ root.T / m


def identity(m):
    return torch.eye(m, dtype=torch.float64)


def make(m, grid, seed, A=identity, power=3, **fields):
    matrix = A(m) if A is identity else A(m, seed)
    return Problem(cost=-maps(m, grid, seed, power), compatibility=matrix, **fields)


# Small enough for the oracle's exact joint optimum at levels 1 and 2.
TINY = {
    "line, no clip": make(3, (4,), 0, clip=None, gamma=0.1),
    "square, soft clip": make(3, (2, 2), 1, gamma=0.5, tau=0.3),
    "square, hard clip": make(3, (2, 2), 2, gamma=0.5, tau=0.3, clip="hard"),
    "cube, two inputs": make(2, (2, 2, 2), 3, num_outputs=2, clip=None, gamma=0.1),
    "more outputs than inputs": make(2, (3, 2), 4, num_outputs=4, gamma=0.2, tau=0.6),
    "fewer outputs than inputs": make(4, (3,), 5, num_outputs=2, clip=None, gamma=0.2),
    "one input": make(1, (2, 2), 6, num_outputs=3),
    "one output": make(3, (2, 2), 7, num_outputs=1),
    "one location": make(4, (1,), 8, clip="hard", tau=0.2),
    "inner, prior": make(3, (2, 2), 9, smoothness="inner", prior=ratio(3, 9), gamma=0.2),
    "official, prior": make(3, (2, 2), 10, smoothness="official", prior=ratio(3, 1), clip=None),
    "squared, strong prior": make(3, (4,), 11, prior=ratio(3, 2), eta=1.0, clip="hard", tau=0.5),
    "distances": make(3, (2, 2), 12, A=distances, clip=None, gamma=0.3),
    "any psd matrix": make(3, (2, 2), 13, A=psd, tau=0.4, gamma=0.4),
}

SMALL = {
    "paper's settings": make(6, (4, 4), 20, prior=ratio(6, 20)),
    "flat maps": make(6, (4, 4), 21, power=1, prior=ratio(6, 21)),
    "hard clip, flat": make(6, (4, 4), 22, power=1, clip="hard", prior=ratio(6, 22)),
    "no clip": make(5, (4, 4), 23, power=1, clip=None, gamma=0.1),
    "not square": make(5, (3, 6), 24, power=1, A=distances, smoothness="inner"),
    "wave": make(5, (16,), 25, power=1, smoothness="official", prior=ratio(5, 25)),
    "volume": make(4, (2, 3, 4), 26, power=1, A=psd, clip="hard", tau=0.5),
    "many outputs": make(3, (4, 4), 27, power=1, num_outputs=9),
    "few outputs": make(9, (4, 4), 28, power=1, num_outputs=3, clip=None, gamma=0.1),
    "lone input": make(1, (4, 4), 29),
    "lone output": make(5, (4, 4), 30, num_outputs=1),
    "lone location": make(5, (1, 1), 31),
    "single precision": make(5, (4, 4), 32, power=1),
    "free of everything": make(4, (4, 4), 33, beta=0.0, gamma=0.0, eta=0.0, tau=0.0),
}
SMALL["single precision"] = Problem(
    SMALL["single precision"].cost.float(), SMALL["single precision"].compatibility.float()
)

ALL = TINY | SMALL


def over(problems):
    """Runs a test for each problem of a named set; the name tells which one failed."""
    return each_case("problem", problems.values(), ids=problems)


def random_sources(problem, levels, seed):
    """A feasible labelling's sources, (m', L, *grid), uniformly at random."""
    shape = (problem.num_outputs, levels, *problem.grid)
    return torch.randint(problem.num_inputs, shape, generator=generator(seed))
