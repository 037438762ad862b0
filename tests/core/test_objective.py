import dataclasses

import pytest
import torch

import oracle
from cases import each_case
from comixup import Labelling, Terms, objective
from problems import ALL, make, over, random_sources, ratio

NAMES = [field.name for field in dataclasses.fields(Terms)]


@over(ALL)
@each_case("levels", [1, 2, 3])
def test_every_term_is_what_plain_loops_give(problem, levels):
    sources = random_sources(problem, levels, seed=levels)
    terms = objective(problem, Labelling(sources, problem.num_inputs))
    expected = oracle.terms(problem, sources)
    assert sorted(expected) == sorted(NAMES)
    for name in NAMES:
        assert getattr(terms, name) == pytest.approx(expected[name], rel=1e-6, abs=1e-6), name


def test_an_even_pair_earns_half_the_log_of_two():
    problem = make(2, (4, 4), 0, prior=torch.tensor([0.5, 0.5]), num_outputs=1)
    pure = objective(problem, Labelling(torch.zeros(1, 2, 4, 4, dtype=torch.long), 2))
    pairs = torch.zeros(1, 2, 4, 4, dtype=torch.long)
    pairs[0, 1, 0, 0] = 1
    mixed = objective(problem, Labelling(pairs, 2))
    # eta/n (log 2)/2 = 0.00108: DESIGN's figure for the official implementation's bare 5e-4.
    assert pure.prior - mixed.prior == pytest.approx(0.00108, abs=5e-6)


def test_a_sequence_of_problems_is_the_sum_of_its_parts():
    parts = [
        make(3, (2, 2), 1, prior=ratio(3, 1)),
        make(2, (2, 2), 2, num_outputs=4),
        make(1, (2, 2), 3),
    ]
    sources = [random_sources(p, 2, seed) for seed, p in enumerate(parts)]
    each = [objective(p, Labelling(s, p.num_inputs)) for p, s in zip(parts, sources, strict=True)]
    joined = torch.cat([sources[0], sources[1] + 3, sources[2] + 5])
    together = objective(parts, Labelling(joined, 6))
    for name in NAMES:
        assert getattr(together, name) == pytest.approx(sum(getattr(t, name) for t in each)), name


def test_a_labelling_of_another_problem_is_rejected():
    problem = make(3, (2, 2), 0)
    right = random_sources(problem, 1, 0)
    for sources, inputs in [
        (right, 4),
        (right[:2], 3),
        (right.flatten(2), 3),
        (random_sources(make(3, (2, 3), 0), 1, 0), 3),
    ]:
        with pytest.raises(ValueError, match=r"`labelling` must fit the problem: it has \d out"):
            objective(problem, Labelling(sources, inputs))
    with pytest.raises(ValueError, match="`labelling` must fit the problem"):
        objective([], Labelling(right, 3))


def test_sources_that_cross_partitions_are_rejected():
    parts = [make(2, (2,), 0), make(2, (2,), 1)]
    crossing = Labelling(torch.tensor([[[0, 1]], [[1, 2]], [[2, 2]], [[3, 3]]]), 4)
    with pytest.raises(ValueError, match=r"same problem's inputs, got an output in 0\.\.1 "):
        objective(parts, crossing)
