"""Random draws for which torch accepts no generator."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def numpy_generator(generator: torch.Generator | None = None) -> np.random.Generator:
    """Returns a NumPy generator seeded by torch's."""
    return np.random.default_rng(draw_seed(generator))


def draw_seed(generator: torch.Generator | None = None) -> int:
    """Returns a seed for another generator, drawn from torch's."""
    device = generator.device if generator is not None else "cpu"
    return int(torch.randint(2**62, (), generator=generator, device=device))


def dirichlet(alpha: float, count: int, random: np.random.Generator, rows: int = 1) -> Tensor:
    """Returns draws of Dirichlet(alpha, ..., alpha), (rows, count), on the CPU.

    >>> dirichlet(2.0, 3, numpy_generator(), rows=4).sum(1).round(decimals=6).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return torch.from_numpy(random.dirichlet(np.full(count, alpha), rows))


def coin(p: float, generator: torch.Generator | None = None) -> bool:
    """Returns True with probability p; p = 0 and p = 1 draw nothing."""
    if p in (0, 1):
        return bool(p)
    return float(torch.rand((), generator=generator, device="cpu")) < p
