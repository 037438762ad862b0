"""The draws of a mixer once more, from a generator of the same seed, as NumPy arrays."""

import numpy as np
import torch


def permutation(m, generator):
    return torch.randperm(m, generator=generator).numpy()


def beta(alpha, rows, generator):
    """lambda ~ Beta(alpha, alpha), one for each row."""
    seed = int(torch.randint(2**62, (), generator=generator))
    return np.random.default_rng(seed).dirichlet([alpha, alpha], rows)[:, 0]


def uniform(*shape, generator):
    return torch.rand(shape, generator=generator).numpy()
