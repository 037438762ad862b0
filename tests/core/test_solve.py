"""Algorithm 1 as a whole: optimality, what it reports, and what it must not depend on."""

import random

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import oracle
from cases import each_case
from comixup import Labelling, Problem, objective, solve
from comixup.core import solve as solve_module
from problems import ALL, SMALL, TINY, generator, identity, make, maps, over, random_sources

with_each = pytest.mark.parametrize("method", ["native", "reference"])
slowly_with_each = pytest.mark.parametrize(
    "method", ["native", pytest.param("reference", marks=pytest.mark.slow)]
)


def assert_same(z, other):
    assert_close(z.sources, other.sources)
    assert_close(z.objective_values, other.objective_values, rtol=0, atol=0)


def supports(sources):
    return [frozenset(output.flatten().tolist()) for output in sources]


def duplicates(z):
    return z.num_outputs - len(set(supports(z.sources)))


# ---- What comes back ---------------------------------------------------------------------------


@over(ALL)
@slowly_with_each
@each_case("levels", [1, 2, 3])
def test_the_labelling_is_feasible_and_its_value_is_the_objective(problem, method, levels):
    z = solve(problem, sweeps=3, levels=levels, method=method, generator=generator(levels))
    assert z.sources.shape == (problem.num_outputs, levels, *problem.grid)
    assert z.sources.dtype == torch.int64
    assert z.num_inputs == problem.num_inputs
    assert z.objective_values.shape == (1, 3)
    assert z.objective_values.dtype == torch.float64
    total = oracle.terms(problem, z.sources)["total"]
    assert float(z.objective_values.min()) == pytest.approx(total, rel=1e-6, abs=1e-6)


@over(TINY)
@slowly_with_each
@each_case("levels", [1, 2])
def test_no_answer_beats_the_optimum_and_many_starts_reach_it(problem, method, levels):
    best = oracle.joint_minimum(problem, levels)
    z = solve(problem, levels=levels, method=method, starts=8, generator=generator(4))
    total = objective(problem, z).total
    assert total >= best - 1e-6
    if problem.clip is None:  # with a clip, Algorithm 1 descends no single function
        # Mixed labels are made of inputs that an output already uses: not all can be reached.
        assert total <= best + (1e-5 if levels == 1 else 0.01 * abs(best))


@each_case(("starts", "limit"), [(1, 0.02), (4, 0.004)])
@each_case(("m", "outputs", "grid"), [(2, 2, (3, 3)), (3, 3, (2, 2)), (2, 3, (3, 3))])
def test_the_gap_to_the_optimum_is_a_small_part_of_a_random_guess(m, outputs, grid, starts, limit):
    # Weights with which "output j = input j" is not optimal: gamma = 0.1.
    gap = spread = 0.0
    for seed in range(12):
        problem = make(m, grid, seed, num_outputs=outputs, gamma=0.1, clip=None)
        best = oracle.joint_minimum(problem, levels=1)
        guess = Labelling(random_sources(problem, 1, seed), m)
        z = solve(problem, levels=1, starts=starts, generator=generator(seed))
        gap += objective(problem, z).total - best
        spread += objective(problem, guess).total - best
    assert gap / spread <= limit


@over(TINY)
@each_case("levels, resolve, sweeps", [(1, False, 4), (2, True, 4), (3, True, 8)])
def test_both_methods_take_the_same_way_where_every_step_is_exact(problem, levels, resolve, sweeps):
    settings = {"sweeps": sweeps, "levels": levels, "resolve": resolve}
    native = solve(problem, generator=generator(0), **settings)
    reference = solve(problem, generator=generator(0), method="reference", **settings)
    assert_close(
        native.objective_values[:, :2], reference.objective_values[:, :2], rtol=0, atol=1e-5
    )
    # Later on rounding may tell equal values apart; where the way ends must be the same.
    assert duplicates(native) == duplicates(reference) or not resolve
    total = objective(problem, reference).total
    assert objective(problem, native).total == pytest.approx(total, abs=1e-5)


@pytest.mark.slow
def test_the_kernel_is_as_good_as_the_reference_elsewhere():
    # Ties and rounding lead them apart; where a hard clip makes the value jump, far apart.
    gap = [
        float(
            solve(problem, generator=generator(seed)).objective_values.min()
            - solve(problem, generator=generator(seed), method="reference").objective_values.min()
        )
        for problem in SMALL.values()
        for seed in range(3)
        if problem.clip != "hard"
    ]
    assert np.mean(gap) < 2 * np.std(gap) / len(gap) ** 0.5 + 1e-5
    assert max(gap) < 0.5


@with_each
def test_one_level_gives_one_hot_masks_and_two_give_halves_where_they_pay(method):
    problem = SMALL["flat maps"]
    one = solve(problem, levels=1, method=method, generator=generator(8))
    assert set(one.masks.unique().tolist()) == {0.0, 1.0}
    two = solve(problem, levels=2, method=method, generator=generator(8))
    assert set(two.masks.unique().tolist()) == {0.0, 0.5, 1.0}
    assert objective(problem, two).total <= objective(problem, one).total + 1e-6


@with_each
def test_after_nothing_changes_the_last_value_is_repeated(method):
    z = solve(TINY["line, no clip"], sweeps=40, levels=1, method=method, generator=generator(9))
    assert_close(z.objective_values[0, 10:], z.objective_values[0, 10].expand(30), rtol=0, atol=0)
    shorter = solve(
        TINY["line, no clip"], sweeps=2, levels=1, method=method, generator=generator(9)
    )
    assert_close(z.objective_values[0, :2], shorter.objective_values[0], rtol=0, atol=0)


@with_each
def test_a_first_sweep_that_changes_nothing_does_not_stop_the_second(monkeypatch, method):
    # It starts from the best one-hot labels; even pairs, of the second sweep, pay more.
    cost, prior = torch.tensor([[-0.3, -0.2], [-0.2, -0.3]]), torch.tensor([0.5, 0.5])
    problem = Problem(cost, torch.eye(2), num_outputs=1, beta=0.0, eta=1.0, prior=prior)
    start = np.array([[[0, 1]]], dtype=np.int32)
    monkeypatch.setattr(solve_module, "random_labels", lambda *_: start)
    z = solve(problem, levels=2, method=method)
    assert_close(z.masks, torch.full((1, 2, 2), 0.5))


# ---- Starts, sequences, threads ----------------------------------------------------------------


@slowly_with_each
@pytest.mark.parametrize("resolve", [False, True])
def test_the_best_of_several_starts_is_the_best_of_them_alone(monkeypatch, method, resolve):
    draw = solve_module.random_labels
    cheaper = different = 0
    for seed in range(4):
        problem = make(3, (3, 3), seed, power=1, num_outputs=6)
        starts = draw(problem, 4, generator(seed))
        ranks = []
        for chosen in ([0], [1], [2], [3], [0, 1, 2, 3]):
            monkeypatch.setattr(
                solve_module, "random_labels", lambda *_, s=starts[chosen]: s.copy()
            )
            z = solve(problem, starts=len(chosen), method=method, resolve=resolve)
            # With resolve, fewer duplicated outputs come before a lower objective value.
            ranks.append((duplicates(z) if resolve else 0, round(objective(problem, z).total, 6)))
        *alone, together = ranks
        assert together == min(alone)
        different += len(set(alone)) > 1
        cheaper += min(value for _, value in alone) < together[1]
    assert different > 0
    assert (cheaper > 0) == resolve


@with_each
def test_a_sequence_is_solved_as_its_parts_one_after_the_other(method):
    parts = [make(3, (3, 3), 1, power=1), make(2, (3, 3), 2, num_outputs=4), make(5, (3, 3), 3)]
    together = solve(parts, starts=2, method=method, generator=generator(11))
    shared = generator(11)
    first_input = first_output = 0
    for row, part in enumerate(parts):
        alone = solve(part, starts=2, method=method, generator=shared)
        block = together.sources[first_output : first_output + part.num_outputs]
        assert_close(block, alone.sources + first_input)
        assert_close(together.objective_values[row], alone.objective_values[0], rtol=0, atol=0)
        first_input += part.num_inputs
        first_output += part.num_outputs
    assert (together.num_inputs, together.num_outputs) == (first_input, first_output)
    total = objective(parts, together).total
    assert total == pytest.approx(float(together.objective_values.min(1).values.sum()), abs=1e-6)


def test_the_number_of_threads_changes_nothing():
    parts = [make(6, (4, 4), seed, power=1) for seed in range(7)]
    one = solve(parts, starts=3, num_threads=1, generator=generator(12))
    for num_threads in (2, 5, 1000, None):
        again = solve(parts, starts=3, num_threads=num_threads, generator=generator(12))
        assert_same(again, one)


# ---- Randomness and the caller's things --------------------------------------------------------


@with_each
def test_one_generator_one_result(method):
    problem = SMALL["paper's settings"]
    first = solve(problem, method=method, generator=generator(13))
    assert_same(solve(problem, method=method, generator=generator(13)), first)
    objective_values = {
        float(solve(problem, sweeps=1, method=method, generator=generator(seed)).objective_values)
        for seed in range(5)
    }
    assert len(objective_values) > 1


@with_each
def test_a_generator_spares_the_global_ones(method):
    numpys = np.random.get_state  # the legacy one is what must be spared
    before = torch.get_rng_state(), numpys()[1].copy(), random.getstate()
    source = generator(14)
    state = source.get_state()
    solve(SMALL["flat maps"], method=method, generator=source)
    assert_close(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(numpys()[1], before[1])
    assert random.getstate() == before[2]
    assert not torch.equal(source.get_state(), state)


def test_without_a_generator_the_global_seed_decides():
    with torch.random.fork_rng():
        torch.manual_seed(15)
        first = solve(SMALL["flat maps"])
        torch.manual_seed(15)
        assert_same(solve(SMALL["flat maps"]), first)


@with_each
def test_the_callers_tensors_are_only_read(method):
    cost = -maps(4, (4, 4), 0)
    A, prior = identity(4), torch.full((4,), 0.25, dtype=torch.float64)
    given = (cost, A, prior)
    copies, versions = [t.clone() for t in given], [t._version for t in given]
    problem = Problem(cost, A, prior=prior)
    objective(problem, solve(problem, method=method, resolve=True, generator=generator(16)))
    assert [t._version for t in given] == versions
    for tensor, copy in zip(given, copies, strict=True):
        assert_close(tensor, copy, rtol=0, atol=0)


# ---- Resolve -----------------------------------------------------------------------------------


@with_each
def test_the_sweep_that_is_kept_has_the_fewest_duplicates_then_the_least_value(method):
    kept = {"last": 0, "lower": 0, "fewer duplicates": 0}
    for seed in range(12 if method == "reference" else 60):
        problem = make(4, (2, 2), seed, power=4, num_outputs=5, gamma=0.1 * (seed % 3), tau=0.5)
        z = solve(problem, resolve=True, method=method, generator=generator(seed))
        values, total = z.objective_values[0], objective(problem, z).total
        assert float((values - total).abs().min()) < 1e-12
        if abs(values[-1] - total) < 1e-12:
            kept["last"] += 1
        elif total < values[-1]:
            kept["lower"] += 1
        else:  # a lower value was passed over
            kept["fewer duplicates"] += 1
        # The sweeps before the resolving one, of which the least value is kept.
        earlier = solve(problem, sweeps=3, method=method, generator=generator(seed))
        assert (duplicates(z), total) <= (duplicates(earlier), objective(problem, earlier).total)
    assert all(kept.values()), kept
