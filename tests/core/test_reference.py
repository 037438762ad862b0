"""The pieces of the readable solver; its inner step runs the kernel's tests: test_inner_step."""

import numpy as np
import pytest

import oracle
from cases import each_case
from comixup import Labelling, objective
from comixup.core import reference
from comixup.core.solve import scaled_problem
from inner_steps import FORMS, instance
from problems import ALL, TINY, make, over, random_sources


def as_rows(sources):
    """(m', L, *grid) sources as the reference keeps them: (m', n, L), each label sorted."""
    return np.sort(sources.flatten(2).numpy().transpose(0, 2, 1), axis=2)


@over(ALL)
@each_case("levels", [1, 2, 3])
def test_the_objective_value_is_the_objective(problem, levels):
    sources = random_sources(problem, levels, seed=levels + 10)
    expected = objective(problem, Labelling(sources, problem.num_inputs)).total
    value = reference.objective_value(scaled_problem(problem), as_rows(sources))
    assert value == pytest.approx(expected)


@over(TINY)
def test_no_update_of_one_output_raises_its_own_energy(problem):
    # f_j of Algorithm 1 with the others held: terms of output j, and gamma/n phi(v_-j).o_j.
    w = scaled_problem(problem)
    m = problem.num_inputs
    for levels in (1, 2):
        z = as_rows(random_sources(problem, levels, seed=levels))
        for j in range(problem.num_outputs):
            v = reference.load_from_others(w, z, j)
            penalized = w._replace(cost=w.cost + w.gamma * reference.phi(v, w)[:, None])
            before = reference.objective_value(penalized, z[j][None])
            f_j = reference.modularize(w, v, np.zeros(m), z[j], levels)
            z[j] = reference.argmin(f_j, w.grid, z[j])
            assert reference.objective_value(penalized, z[j][None]) <= before + 1e-9


@each_case("form", FORMS)
def test_elimination_keeps_an_optimal_labelling(form):
    for seed in range(10):
        unary, pairwise, _ = instance((2, 3), 4, form, seed, smoothness=0.2)
        pairs = np.array(oracle.neighbours((2, 3)))
        allowed = reference.eliminate(unary, pairwise, pairs)
        x, value = oracle.all_energies(unary, pairwise, (2, 3))
        best = x[value.argmin()]
        assert all(label in allowed[k] for k, label in enumerate(best))
    assert min(map(len, allowed)) < 4  # and it does eliminate


def test_candidates_are_one_hot_labels_then_multisets_of_the_top_three():
    z_j = np.array([[4, 4], [4, 4], [1, 1], [1, 1], [0, 0], [0, 0], [2, 2]])
    one_hot = [[i, i] for i in range(5)]
    assert reference.candidate_labels(z_j, 5, 1).tolist() == one_hot
    assert reference.candidate_labels(z_j, 5, 2).tolist() == [*one_hot, [0, 1], [0, 4], [1, 4]]


def test_resolving_penalizes_the_rth_output_for_the_rth_shared_input():
    w = scaled_problem(make(4, (2,), 0, gamma=1.0))
    z = np.array([[[1], [3]], [[0], [0]], [[3], [1]], [[0], [2]], [[1], [3]]])
    expected = np.zeros((5, 4))
    expected[0, 1] = expected[2, 3] = 0.5  # gamma / n; the third of a pair has nothing left
    np.testing.assert_array_equal(reference.resolving_penalty(w, z), expected)


def test_the_first_perturbation_gives_every_output_an_input_of_its_own():
    z = np.array([[[0], [0], [1]], [[0], [0], [1]], [[0], [0], [0]], [[2], [2], [1]]])
    perturbed = reference.perturb(z, 3, 0)
    # Most used and still free: 0, then 1, then 2 (the last one left); then all are free again.
    assert perturbed[:, :, 0].tolist() == [[0] * 3, [1] * 3, [2] * 3, [2] * 3]
    assert z[1, 0, 0] == 0  # a copy was perturbed


def test_later_perturbations_set_one_output_to_one_input_until_all_were_tried():
    z = np.zeros((2, 2, 1), dtype=np.int64)
    tried = [reference.perturb(z, 3, number) for number in range(1, 7)]
    changed = [(int(np.flatnonzero((x != z).any((1, 2))).sum()), x.max()) for x in tried[2:]]
    assert changed == [(0, 1), (1, 1), (0, 2), (1, 2)]
    assert reference.perturb(z, 3, 7) is None
