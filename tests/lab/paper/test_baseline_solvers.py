"""The baselines of appendix D: exact where they claim it, feasible, of their generator's draws."""

import itertools

import pytest
import torch
from torch.testing import assert_close

import oracle
from comixup import objective, solve
from comixup.core.solve import random_labels
from comixup.lab.paper import baseline_solvers
from problems import ALL, SMALL, TINY, generator, make, over


@over(TINY)
@pytest.mark.parametrize("levels", [1, 2])
def test_exhaustive_search_finds_the_optimum(problem, levels):
    z = baseline_solvers.exhaustive(problem, levels=levels)
    assert z.sources.shape == (problem.num_outputs, levels, *problem.grid)
    best = oracle.joint_minimum(problem, levels)
    assert objective(problem, z).total == pytest.approx(best, abs=1e-6)


def test_exhaustive_search_looks_through_more_combinations_than_a_chunk_holds(monkeypatch):
    problem = TINY["any psd matrix"]
    expected = objective(problem, baseline_solvers.exhaustive(problem, levels=2)).total
    monkeypatch.setattr(baseline_solvers, "_CHUNK", 64)
    again = objective(problem, baseline_solvers.exhaustive(problem, levels=2)).total
    assert again == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (make(20, (4, 4), 0), r"`problem` must have at most 4194304 labellings .* Use fewer"),
        (make(3, (2, 2), 0, num_outputs=100), r"`problem` must have at most \d+ combinations"),
    ],
    ids=["labellings", "combinations"],
)
def test_exhaustive_search_rejects_what_it_could_not_finish(problem, message):
    with pytest.raises(ValueError, match=message):
        baseline_solvers.exhaustive(problem)


@pytest.mark.parametrize("value", [0, -1, True, 1.5])
def test_counts_must_be_positive_integers(value):
    with pytest.raises(ValueError, match=r"`levels` must be a positive integer, got"):
        baseline_solvers.exhaustive(TINY["one input"], levels=value)
    with pytest.raises(ValueError, match=r"`iterations` must be a positive integer, got"):
        baseline_solvers.narasimhan_bilmes(TINY["one input"], iterations=value)


@over(ALL)
def test_narasimhan_bilmes_lowers_equation_1_with_every_iteration(problem):
    guess = baseline_solvers.random_guess(problem, generator=generator(3))
    values = [objective(problem, guess).eq1_total]
    for iterations in (1, 2, 3, 5, 8):
        z = baseline_solvers.narasimhan_bilmes(
            problem, iterations=iterations, generator=generator(3)
        )
        assert z.sources.shape == (problem.num_outputs, 1, *problem.grid)
        assert z.num_inputs == problem.num_inputs
        values.append(objective(problem, z).eq1_total)
    falls = [before - after for before, after in itertools.pairwise(values)]
    assert min(falls) >= -1e-5


def test_narasimhan_bilmes_improves_on_its_start_and_loses_to_algorithm_1():
    guessed = rival = ours = 0.0
    for seed in range(20):
        problem = make(4, (4, 4), seed, clip=None, gamma=0.1)
        guess = baseline_solvers.random_guess(problem, generator=generator(seed))
        other = baseline_solvers.narasimhan_bilmes(problem, generator=generator(seed))
        guessed += objective(problem, guess).total
        rival += objective(problem, other).total
        ours += objective(problem, solve(problem, levels=1, generator=generator(seed))).total
    assert ours < rival < guessed


def test_narasimhan_bilmes_follows_its_generator():
    problem = SMALL["flat maps"]
    state = torch.get_rng_state()
    first = baseline_solvers.narasimhan_bilmes(problem, generator=generator(1)).sources
    assert_close(baseline_solvers.narasimhan_bilmes(problem, generator=generator(1)).sources, first)
    others = [
        baseline_solvers.narasimhan_bilmes(problem, generator=generator(s)).sources for s in (2, 3)
    ]
    assert not all(torch.equal(other, first) for other in others)
    assert_close(torch.get_rng_state(), state)


def test_a_random_guess_is_the_start_that_solve_draws_first():
    problem = SMALL["not square"]
    guess = baseline_solvers.random_guess(problem, generator=generator(4))
    start = random_labels(problem, 1, generator(4))
    assert_close(guess.sources.flatten(), torch.from_numpy(start).long().flatten())


@over(ALL)
def test_the_identity_mixes_nothing(problem):
    z = baseline_solvers.identity(problem)
    for j in range(problem.num_outputs):
        assert z.sources[j].unique().tolist() == [j % problem.num_inputs]
    terms = objective(problem, z)
    assert terms.smoothness == 0
