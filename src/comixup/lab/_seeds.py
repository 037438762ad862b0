"""Counter-based seeds: every draw has its own seed, derived from its purpose and counters.

No generator state is stored, so a run can resume at any step, and processes and workers agree
without communication.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from comixup.lab._limits import MAX_SEED

_WORD = 2**32
"""SeedSequence mixes words of 32 bits."""


class Purpose(IntEnum):
    """The purposes of draws: the last argument of every call of `seed_for`.

    Each purpose has its own number, so that no two share a random stream. Code outside of this
    package uses numbers from 100 on.
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
    # SeedSequence concatenates its numbers' words and pads with zeros, so (1,) and (1, 0) would be
    # equal; a length prefix and two words each make all tuples distinct.
    words = [len(numbers)]
    for number in numbers:
        words += [int(number) % _WORD, int(number) // _WORD]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def raw_draws(size: int, *numbers: int) -> npt.NDArray[np.uint64]:
    """Returns `size` random words of 64 bits for a tuple of numbers as in `seed_for`.

    NumPy guarantees that these never change, unlike its distributions and torch's draws.
    """
    return np.random.PCG64(seed_for(*numbers)).random_raw(size)


def permutation(count: int, *numbers: int) -> npt.NDArray[np.int64]:
    """Returns a random order of 0, ..., count - 1 for a tuple of numbers as in `seed_for`.

    >>> sorted(permutation(5, 0).tolist())
    [0, 1, 2, 3, 4]
    """
    return np.argsort(raw_draws(count, *numbers), kind="stable").astype(np.int64)
