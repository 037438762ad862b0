"""Random instances of the inner step, with every form of the smoothness term."""

import numpy as np

import oracle

FORMS = ["potts", "squared", "inner", "official"]


def pairwise_table(num_labels, form, rng):
    """Pairwise costs of `num_labels` labels: one-hot ones, and pairs in random order."""
    if form == "potts":
        return 1.0 - np.eye(num_labels)
    pool = oracle.all_labels(4, 2)
    assert num_labels <= len(pool)
    labels = [pool[a] for a in rng.permutation(len(pool))[:num_labels]]
    return np.array([[oracle.pairwise_cost(a, b, 4, form) for b in labels] for a in labels])


def instance(grid, num_labels, form, seed, smoothness=0.3):
    rng = np.random.default_rng(seed)
    n = int(np.prod(grid))
    unary = rng.random((num_labels, n)) - 0.5
    pairwise = smoothness * pairwise_table(num_labels, form, rng)
    return unary, pairwise, rng.integers(num_labels, size=n)
