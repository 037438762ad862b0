"""The inner step: the reference and the native kernel run the same tests, judged by energy."""

import functools
import itertools

import numpy as np
import pytest

import oracle
from cases import each_case
from comixup import _native
from comixup.core import reference
from inner_steps import FORMS, instance


def native(unary, pairwise, grid, start):
    labels = np.empty(len(start), dtype=np.int32)
    _native.minimize(unary, pairwise, list(grid), start.astype(np.int32), labels)
    return labels.astype(np.int64)


MINIMIZERS = {"reference": reference.minimize, "native": native}
TOLERANCE = 1e-5  # the kernel adds in single precision

with_each = pytest.mark.parametrize("minimize", MINIMIZERS.values(), ids=MINIMIZERS.keys())
slowly_with_each = pytest.mark.parametrize(
    "minimize",
    [pytest.param(reference.minimize, marks=pytest.mark.slow, id="reference"), native],
    ids=lambda minimize: minimize.__name__,
)


def answer(minimize, unary, pairwise, grid, start):
    """The labels that `minimize` finds, after checking that they are labels."""
    before = unary.copy(), pairwise.copy(), start.copy()
    x = minimize(unary, pairwise, grid, start)
    assert x.shape == start.shape
    assert x.min() >= 0
    assert x.max() < len(unary)
    for array, copy in zip((unary, pairwise, start), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    return x


@functools.cache
def solved(minimum, grid, *details):
    """An instance and its least energy, computed once for all minimizers."""
    unary, pairwise, start = instance(grid, *details)
    return unary, pairwise, start, minimum(unary, pairwise, grid)


def found(minimize, unary, pairwise, grid, start):
    """The energy that `minimize` reaches."""
    return oracle.energy(unary, pairwise, grid, answer(minimize, unary, pairwise, grid, start))


@slowly_with_each
@each_case("form", FORMS)
@each_case(
    ("grid", "num_labels"),
    [((1,), 4), ((6,), 4), ((2, 2), 5), ((3, 2), 4), ((2, 3), 4), ((3, 3), 3), ((2, 2, 2), 3)],
    ids=str,
)
def test_tiny_grids_are_solved_exactly(minimize, grid, num_labels, form):
    for seed in range(3):
        for smoothness in (0.05, 0.3, 2.0):
            case = grid, num_labels, form, seed, smoothness
            unary, pairwise, start, best = solved(oracle.inner_minimum, *case)
            value = found(minimize, unary, pairwise, grid, start)
            assert value == pytest.approx(best, abs=TOLERANCE), (seed, smoothness)


@with_each
@each_case("form", FORMS)
@each_case("grid", [(4, 4), (3, 5), (8, 2), (20,), (2, 2, 5), (5, 1, 3)], ids=str)
def test_narrow_grids_are_solved_exactly(minimize, grid, form):
    for seed in range(4):
        unary, pairwise, start, best = solved(oracle.profile_minimum, grid, 3, form, seed)
        value = found(minimize, unary, pairwise, grid, start)
        assert value == pytest.approx(best, abs=TOLERANCE), seed


@each_case("form", FORMS)
def test_the_two_exact_answers_agree(form):
    for grid in [(5,), (2, 3), (2, 2, 2)]:
        unary, pairwise, _ = instance(grid, 3, form, seed=9)
        assert oracle.profile_minimum(unary, pairwise, grid) == pytest.approx(
            oracle.inner_minimum(unary, pairwise, grid)
        )


@slowly_with_each
@each_case("form", FORMS)
@each_case("grid", [(9, 9), (10, 12), (3, 3, 4)], ids=str)
def test_two_labels_on_a_wide_grid_are_solved_exactly(minimize, grid, form):
    # Wide enough for a minimum cut, which is exact for two labels.
    for seed in range(2):
        unary, pairwise, start, best = solved(oracle.profile_minimum, grid, 2, form, seed)
        value = found(minimize, unary, pairwise, grid, start)
        assert value == pytest.approx(best, abs=1e-4), seed


@slowly_with_each
@each_case(
    ("grid", "num_labels"), [((4, 4), 10), ((12, 12), 4), ((3, 3, 6), 4), ((30, 3), 10)], ids=str
)
def test_large_steps_end_below_every_simple_alternative(minimize, grid, num_labels):
    below_modes = below_constant = 0.0
    for form, seed in itertools.product(FORMS, range(3)):
        unary, pairwise, start = instance(grid, num_labels, form, seed, smoothness=0.25)
        x = answer(minimize, unary, pairwise, grid, start)
        value = oracle.energy(unary, pairwise, grid, x)
        assert value <= oracle.energy(unary, pairwise, grid, start) + TOLERANCE
        # No single location can be changed for the better.
        polished = oracle.iterated_conditional_modes(unary, pairwise, grid, x.tolist())
        assert value <= oracle.energy(unary, pairwise, grid, polished) + TOLERANCE
        modes = oracle.iterated_conditional_modes(unary, pairwise, grid, start.tolist())
        below_modes += oracle.energy(unary, pairwise, grid, modes) - value
        inside = np.diag(pairwise) * len(oracle.neighbours(grid))
        below_constant += (unary.sum(1) + inside).min() - value
    # Not on each instance, which no local search can promise, but on the whole.
    assert below_modes > 0
    assert below_constant > 0


@with_each
def test_strong_smoothness_leaves_the_best_constant(minimize):
    for grid, num_labels in [((4, 4), 6), ((9, 9), 3)]:
        unary, pairwise, start = instance(grid, num_labels, "potts", seed=1, smoothness=1e3)
        value = found(minimize, unary, pairwise, grid, start)
        assert value == pytest.approx(unary.sum(1).min(), abs=0.05)


@with_each
@each_case("form", FORMS)
def test_the_best_labelling_is_left_alone(minimize, form):
    for grid in [(3, 3), (9, 9)]:
        unary, pairwise, start = instance(grid, 3, form, seed=5)
        first = minimize(unary, pairwise, grid, start)
        again = found(minimize, unary, pairwise, grid, first)
        assert again == pytest.approx(oracle.energy(unary, pairwise, grid, first), abs=1e-4)


@with_each
def test_ties_go_to_the_lowest_label(minimize):
    unary, pairwise = np.zeros((3, 6)), 1.0 - np.eye(3)
    np.testing.assert_array_equal(minimize(unary, pairwise, (6,), np.full(6, 2)), np.zeros(6))


@with_each
@each_case("scale", [1e-30, 1e-6, 1.0, 1e6, 1e30])
def test_the_scale_of_the_energy_does_not_matter(minimize, scale):
    grid = (3, 3)
    unary, pairwise, start = instance(grid, 3, "potts", seed=2)
    x = minimize(unary * scale, pairwise * scale, grid, start)
    best = oracle.inner_minimum(unary, pairwise, grid)
    assert oracle.energy(unary, pairwise, grid, x) == pytest.approx(best, abs=TOLERANCE)


@with_each
def test_free_neighbours_leave_every_location_to_itself(minimize):
    for grid in [(3, 3), (12, 12)]:
        unary, pairwise, start = instance(grid, 4, "potts", seed=1, smoothness=0.0)
        np.testing.assert_array_equal(minimize(unary, pairwise, grid, start), unary.argmin(0))


# ---- What the kernel tells of its answer ---------------------------------------------------------


def kernels_answer(unary, pairwise, grid, start):
    labels = np.empty(len(start), dtype=np.int32)
    return labels, _native.minimize(unary, pairwise, list(grid), start.astype(np.int32), labels)


@each_case("form", FORMS)
def test_an_answer_that_claims_to_be_optimal_is(form):
    claims = 0
    for seed in range(12):
        unary, pairwise, start = instance((4, 4), 3 + seed % 8, form, seed)
        labels, optimal = kernels_answer(unary, pairwise, (4, 4), start)
        best = oracle.profile_minimum(unary, pairwise, (4, 4))
        value = oracle.energy(unary, pairwise, (4, 4), labels)
        assert value >= best - 1e-9
        if optimal:
            claims += 1
            assert value == pytest.approx(best, abs=1e-5), seed
    assert claims > 0
    wide = instance((16, 16), 6, "potts", seed=0, smoothness=1.0)
    assert not kernels_answer(*wide[:2], (16, 16), wide[2])[1]  # it has no proof of that one


def test_the_axes_are_not_confused():
    # One unwilling location in the corner of a 2 x 3 x 4 grid whose longest side is the last.
    unary = np.zeros((2, 24))
    unary[1] = 0.1
    unary[:, 6] = [9.0, 0.0]
    labels, _ = kernels_answer(unary, 0.3 * (1 - np.eye(2)), (2, 3, 4), np.zeros(24))
    np.testing.assert_array_equal(np.flatnonzero(labels), [6])
