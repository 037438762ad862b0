"""Seeds by counting: every draw has a seed of its own, made from what it is for.

No generator is carried along, so a run that stopped can resume anywhere, and processes and workers
agree without talking.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from comixup.lab._limits import MAX_SEED

_WORD = 2**32
"""SeedSequence mixes words of 32 bits."""


class Purpose(IntEnum):
    """What draws are for: the last number of every tuple that is given to `seed_for`.

    Each purpose has a number of its own, so that no two of them ever share a stream of random
    numbers. Code outside of this package takes numbers from 100 on.
    """

    ORDER = 1
    CROPS = 2
    LABELS = 3
    VALIDATION = 4
    INITIAL_WEIGHTS = 5
    MODEL = 6
    MIXER = 7
    OPERATIONS = 8


def seed_for(*numbers: int) -> int:
    """Returns a seed of 63 bits for a tuple of numbers, the same on every platform and version.

    Args:
        numbers: from 0 to 2^64 - 1 each, for instance (seed, epoch, step, purpose). Tuples that
            differ in order or length have unrelated seeds.

    >>> seed_for(0, 1, 2) == seed_for(0, 1, 2)
    True
    >>> seed_for(1) == seed_for(1, 0)
    False
    """
    for number in numbers:
        if not 0 <= number <= MAX_SEED:
            raise ValueError(
                f"a seed's numbers must be from 0 to 2^64 - 1, got {number!r} in {numbers}."
            )
    # SeedSequence joins its numbers' words without gaps and fills up with zeros, so that (1,) and
    # (1, 0) would be one; two words each, behind their count, tell all tuples apart.
    words = [len(numbers)]
    for number in numbers:
        words += [int(number) % _WORD, int(number) // _WORD]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def raw_draws(size: int, *numbers: int) -> npt.NDArray[np.uint64]:
    """Returns `size` random words of 64 bits for a tuple of numbers as in `seed_for`.

    NumPy promises that these never change, which it does not of any distribution, nor torch of
    its own.
    """
    return np.random.PCG64(seed_for(*numbers)).random_raw(size)


def permutation(count: int, *numbers: int) -> npt.NDArray[np.int64]:
    """Returns a random order of 0, ..., count - 1 for a tuple of numbers as in `seed_for`.

    >>> sorted(permutation(5, 0).tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(raw_draws(count, *numbers), kind="stable").astype(np.int64)
