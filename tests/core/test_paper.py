"""Statements of the paper (sections 3-4, appendices A-B) as tests; where it errs, that too."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from cases import each_case
from comixup import Labelling, Problem, objective, solve
from comixup.core.objective import clipped, compatibility, load_from_others
from problems import SMALL, TINY, generator, identity, make, maps, over, psd, random_sources

seeds = st.integers(0, 2**32)


def random_counts(outputs, m, seed, high=5):
    return torch.randint(high, (outputs, m), generator=generator(seed)).double()


def at_one_location(rest, A, x, other, floor):
    """f_c where outputs 0 and 1 hold x and `other` at one location, and `rest` elsewhere."""
    counts = rest.clone()
    counts[0] += x
    counts[1] += other
    return max(float(compatibility(counts, A)), floor)


def supermodular_excess(rest, A, x, other, floor=-float("inf")):
    """s(x, x) + s(x', x') - s(x, x') - s(x', x): not negative if pairwise supermodular."""
    s = {(a, b): at_one_location(rest, A, p, q, floor) for a, p in enumerate([x, other])
         for b, q in enumerate([x, other])}  # fmt: skip
    return s[0, 0] + s[1, 1] - s[0, 1] - s[1, 0]


@given(seeds, st.integers(2, 5), st.integers(2, 4))
def test_proposition_1_without_the_max(seed, m, outputs):
    A, rest = psd(m, seed), random_counts(outputs, m, seed)
    z = torch.rand(2, m, generator=generator(seed + 1), dtype=torch.float64)
    x, other = z / z.sum(1, keepdim=True)
    excess = supermodular_excess(rest, A, x, other)
    assert excess >= -1e-9
    # The proof's value: twice the quadratic form of the difference.
    assert excess == pytest.approx(float(2 * (x - other) @ A @ (x - other)), abs=1e-9)


@given(seeds, st.integers(2, 5), st.floats(0, 2))
def test_proposition_1_with_the_max_where_the_two_outputs_agree_elsewhere(seed, m, height):
    A, rest = psd(m, seed), random_counts(3, m, seed)
    rest[1] = rest[0]
    one_hot = torch.eye(m, dtype=torch.float64)
    floor = height * float(compatibility(rest, A))
    for a in range(m):
        for b in range(m):
            assert supermodular_excess(rest, A, one_hot[a], one_hot[b], floor) >= -1e-9


def test_proposition_1_with_the_max_fails_in_general():
    # Its proof leaves out the terms linear in each label, which the rest of the outputs brings.
    # Worked by hand: o_1 = x + (0, 10), o_2 = x' + (10, 0), A = I, so f_c = 2 o_1.o_2 is 22 and 22
    # on equal labels, 40 and 0 on unequal ones: 44 >= 40, but not 22 + 22 >= 40 + 22 once clipped.
    rest = torch.tensor([[0.0, 10.0], [10.0, 0.0]])
    x, other = torch.eye(2)
    assert supermodular_excess(rest, torch.eye(2), x, other) == 4
    assert supermodular_excess(rest, torch.eye(2), x, other, floor=22.0) == -18


def test_proposition_1_needs_a_positive_semi_definite_matrix():
    A = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    x, other = torch.eye(2)
    assert supermodular_excess(torch.zeros(2, 2), A, x, other) == -4


def test_a_matrix_that_breaks_proposition_1_is_named():
    with pytest.warns(UserWarning, match=r"not positive semi-definite .*eigenvalue -1\b") as record:
        Problem(cost=-maps(2, (2,), 0), compatibility=torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    assert record[0].filename == __file__


@over(TINY)
def test_proposition_2_the_compatibility_is_modular_in_one_output(problem):
    problem = problem.replace(clip=None)
    m, n = problem.num_inputs, problem.num_locations
    old, new = random_sources(problem, 2, 1).flatten(2), random_sources(problem, 2, 2).flatten(2)

    def value(sources):
        z = Labelling(sources.unflatten(2, problem.grid), m)
        return objective(problem, z).compatibility, z.source_counts.double()

    base, counts = value(old)
    for j in range(problem.num_outputs):
        changed = old.clone()
        changed[j] = new[j]
        together, counts_after = value(changed)
        apart = 0.0
        for k in range(n):
            one = old.clone()
            one[j, :, k] = new[j, :, k]
            apart += value(one)[0] - base
        assert together - base == pytest.approx(apart, abs=1e-6)
        v = load_from_others(counts, problem.compatibility.double())[j]
        linear = problem.gamma / n * float(v @ (counts_after[j] - counts[j]))
        assert together - base == pytest.approx(linear, abs=1e-6)


@given(seeds, st.integers(2, 6), st.floats(0, 3), st.sampled_from(["soft", "hard"]))
def test_proposition_3_criterion_1_more_compatibility_is_never_cheaper(seed, m, tau, clip):
    problem = make(m, (4,), 0, tau=tau, clip=clip)
    v = 10 * torch.rand(m, generator=generator(seed), dtype=torch.float64)
    phi = clipped(v, problem)
    o = torch.rand(m, generator=generator(seed + 1), dtype=torch.float64)
    for gains in range(m):
        for loses in range(m):
            moved = o.clone()
            moved[gains] += 0.5 * o[loses]
            moved[loses] -= 0.5 * o[loses]
            if v @ moved > v @ o:
                assert phi @ moved >= phi @ o - 1e-12


@given(seeds, st.integers(2, 6), st.floats(0.1, 3))
def test_proposition_3_criterion_2_nothing_is_penalized_below_the_level(seed, m, tau):
    problem = make(m, (4,), 0, tau=tau)
    v = 4 * problem.clip_level * torch.rand(m, generator=generator(seed), dtype=torch.float64)
    v[0] = problem.clip_level / 2
    phi = clipped(v, problem)
    assert (phi[v <= problem.clip_level] == 0).all()
    assert (phi[v > problem.clip_level] > 0).all()
    # Eq. (2) itself: max(tau', v), less the constant.
    assert_close(phi + problem.clip_level, v.clamp(min=problem.clip_level))


def test_equation_1_by_hand():
    # Two inputs, two outputs, three locations in a row.
    cost = -torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    A = torch.tensor([[1.0, 0.5], [0.5, 1.0]])
    sources = torch.tensor([[[0, 0, 1]], [[1, 1, 1]]])
    problem = Problem(cost, A, beta=0.3, gamma=0.6, tau=0.0, clip="soft")
    terms = objective(problem, Labelling(sources, 2))
    assert terms.unary == pytest.approx(-(0.5 + 0.3 + 0.8) - 1.0)
    assert terms.smoothness == pytest.approx(0.1 * 1)  # one change of label
    # o_1 = (2, 1), o_2 = (0, 3): 2 o_1.A o_2 = 2 (2 * 1.5 + 1 * 3) = 12.
    assert terms.compatibility == pytest.approx(0.2 * 12)
    assert terms.eq1_total == pytest.approx(-2.6 + 0.1 + 2.4)
    assert terms.total == pytest.approx(terms.eq1_total)  # tau = 0 clips nothing

    # tau = 0.83: Eq. (1) clips at 0.83 * 36 / 2 = 14.94 > 12; Eq. (2) at 2 * 0.83 * 3 = 4.98, and
    # v_-1 = 2 A o_2 = (3, 6), v_-2 = 2 A o_1 = (5, 4): only 1.02 * 1 + 0.02 * 0 exceeds it.
    terms = objective(problem.replace(tau=0.83), Labelling(sources, 2))
    assert terms.eq1_total == pytest.approx(-2.5 + 0.2 * 14.94)
    assert terms.total == pytest.approx(-2.5 + 0.2 / 2 * 1.02)
    hard = objective(problem.replace(tau=0.83, clip="hard"), Labelling(sources, 2))
    assert hard.total == pytest.approx(-2.5 + 0.2 / 2 * 6)


@over(SMALL)
@each_case("levels", [1, 2])
def test_without_a_clip_value_and_equation_1_are_the_same(problem, levels):
    problem = problem.replace(clip=None)
    terms = objective(problem, Labelling(random_sources(problem, levels, 5), problem.num_inputs))
    assert terms.total == pytest.approx(terms.eq1_total, abs=1e-9)


@over(TINY | {"flat maps": SMALL["flat maps"]})
@pytest.mark.parametrize("method", ["native", "reference"])
@each_case("levels", [1, 2])
def test_without_a_clip_every_sweep_lowers_the_value(problem, method, levels):
    problem = problem.replace(clip=None)
    z = solve(problem, sweeps=6, levels=levels, method=method, generator=generator(1))
    assert (z.objective_values.diff() <= 1e-5).all()


def test_each_output_its_own_input_is_optimal_for_uniform_saliency():
    # The remark on A = I, the published weights and no clip.
    m = 4
    problem = Problem(torch.full((m, 4, 4), -1 / 16), identity(m), clip=None)
    own = torch.arange(m).view(m, 1, 1, 1).expand(m, 1, 4, 4)
    best = objective(problem, Labelling(own, m)).total
    assert best == pytest.approx(-m)
    for seed in range(10):
        z = solve(problem, levels=2, generator=generator(seed))
        assert objective(problem, z).total == pytest.approx(best, abs=1e-5)
