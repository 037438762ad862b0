import itertools

import pytest

from comixup.lab._seeds import permutation, seed_for


def test_seeds_stay_what_they_were():
    # Printed once; a run that goes on with another version must find the same draws.
    assert seed_for() == 7896617691693857887
    assert seed_for(0) == 3717377837946358015
    assert seed_for(1, 2, 3) == 9000938580248669710
    assert seed_for(2**64 - 1) == 8747108213191874899
    assert permutation(8, 5).tolist() == [3, 4, 7, 2, 5, 6, 0, 1]


def test_tuples_have_seeds_of_their_own():
    numbers = [0, 1, 2, 2**32, 2**32 + 1, 2**63]
    tuples = [t for n in range(4) for t in itertools.product(numbers, repeat=n)]
    seeds = [seed_for(*numbers) for numbers in tuples]
    assert len(set(seeds)) == len(tuples)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds) > 2**62


@pytest.mark.parametrize("number", [-1, 2**64])
def test_numbers_out_of_range_are_rejected(number):
    with pytest.raises(ValueError, match=r"must be from 0 to 2\^64 - 1, got"):
        seed_for(0, number)


def test_permutations_are_permutations_and_differ():
    orders = {tuple(permutation(30, seed, 0).tolist()) for seed in range(20)}
    assert len(orders) == 20
    assert all(sorted(order) == list(range(30)) for order in orders)
