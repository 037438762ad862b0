"""The kernel's own promises: its flag, arrays and rejections. Its answers: test_inner_step."""

import numpy as np
import pytest

import oracle
from cases import each_case
from comixup import _native
from inner_steps import FORMS, instance


def run(unary, pairwise, grid, start, labels=None):
    labels = np.empty(len(start), dtype=np.int32) if labels is None else labels
    optimal = _native.minimize(unary, pairwise, list(grid), start.astype(np.int32), labels)
    return labels, optimal


@each_case("form", FORMS)
def test_an_answer_that_claims_to_be_optimal_is(form):
    claims = 0
    for seed in range(12):
        unary, pairwise, start = instance((4, 4), 3 + seed % 8, form, seed)
        labels, optimal = run(unary, pairwise, (4, 4), start)
        best = oracle.profile_minimum(unary, pairwise, (4, 4))
        value = oracle.energy(unary, pairwise, (4, 4), labels)
        assert value >= best - 1e-9
        if optimal:
            claims += 1
            assert value == pytest.approx(best, abs=1e-5), seed
    assert claims > 0


def test_wide_grids_make_no_claim_they_cannot_keep():
    unary, pairwise, start = instance((16, 16), 6, "potts", seed=0, smoothness=1.0)
    _, optimal = run(unary, pairwise, (16, 16), start)
    assert not optimal


def test_the_same_call_gives_the_same_labels():
    for grid, num_labels in [((4, 4), 10), ((12, 12), 4)]:
        unary, pairwise, start = instance(grid, num_labels, "squared", seed=3)
        once, _ = run(unary, pairwise, grid, start)
        twice, _ = run(unary, pairwise, grid, start)
        np.testing.assert_array_equal(once, twice)


def test_the_axes_are_not_confused():
    # One unwilling location in the corner of a 2 x 3 x 4 grid whose longest side is the last.
    unary = np.zeros((2, 24))
    unary[1] = 0.1
    unary[:, 6] = [9.0, 0.0]
    labels, _ = run(unary, 0.3 * (1 - np.eye(2)), (2, 3, 4), np.zeros(24))
    expected = np.zeros(24)
    expected[6] = 1
    np.testing.assert_array_equal(labels, expected)


@each_case(
    ("change", "message"),
    [
        ({"unary": np.zeros((0, 4))}, "unary must be"),
        ({"unary": np.zeros((2, 5))}, "unary must be"),
        ({"unary": np.zeros(8)}, "unary must be"),
        ({"unary": np.full((2, 4), np.nan)}, "unary must be finite"),
        ({"unary": np.full((2, 4), np.inf)}, "unary must be finite"),
        ({"unary": np.full((2, 4), -1e300)}, "unary must be finite and at most"),
        ({"pairwise": np.zeros((2, 3))}, "pairwise must be"),
        ({"pairwise": np.full((2, 2), np.nan)}, "pairwise must be finite"),
        ({"pairwise": np.full((2, 2), -1.0)}, "pairwise must be finite, not negative"),
        ({"grid": []}, "grid must have 1 to 3 sides"),
        ({"grid": [1, 1, 2, 2]}, "grid must have 1 to 3 sides"),
        ({"grid": [-2, -2]}, "grid sides must be positive"),
        ({"start": np.zeros(3, dtype=np.int32)}, "start must be"),
        ({"start": np.full(4, 2, dtype=np.int32)}, "start must be labels"),
        ({"start": np.full(4, -1, dtype=np.int32)}, "start must be labels"),
        ({"labels": np.zeros(5, dtype=np.int32)}, "labels must be"),
    ],
)
def test_arrays_that_do_not_fit_are_rejected(change, message):
    arguments = {
        "unary": np.zeros((2, 4)),
        "pairwise": np.zeros((2, 2)),
        "grid": [2, 2],
        "start": np.zeros(4, dtype=np.int32),
        "labels": np.zeros(4, dtype=np.int32),
    }
    _native.minimize(**arguments)
    with pytest.raises(ValueError, match=message):
        _native.minimize(**arguments | change)


@each_case(
    "labels",
    [np.zeros(4), np.zeros(4, dtype=np.int64), np.zeros((4, 2), dtype=np.int32)[:, 0]],
    ids=["float", "wide", "strided"],
)
def test_an_answer_is_not_written_to_a_copy(labels):
    # An array that had to be converted would receive nothing.
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _native.minimize(np.zeros((2, 4)), np.eye(2), [4], np.zeros(4, dtype=np.int32), labels)


def solve_arguments():
    return {
        "costs": [np.zeros((2, 4))],
        "compatibilities": [np.eye(2)],
        "weights": [(0.1, 0.1, 0.0, "soft", 1.0, "squared")],
        "starts": [np.zeros((1, 3, 4), dtype=np.int32)],
        "grid": [2, 2],
        "sweeps": 2,
        "levels": 1,
        "resolve": False,
        "threads": 1,
        "sources": np.zeros((3, 1, 2, 2), dtype=np.int64),
        "objective_values": np.zeros((1, 2)),
    }


@each_case(
    ("change", "message"),
    [
        ({"costs": []}, "every problem needs"),
        ({"costs": [np.zeros((2, 5))]}, "costs must be"),
        ({"costs": [np.zeros((0, 4))], "compatibilities": [np.zeros((0, 0))]}, "must not be empty"),
        ({"compatibilities": [np.eye(3)]}, "compatibility must be"),
        ({"costs": [np.full((2, 4), np.nan)]}, "costs must be finite"),
        ({"costs": [np.full((2, 4), -np.inf)]}, "costs must be finite"),
        ({"costs": [np.full((2, 4), 1e300)]}, "costs must be finite and at most"),
        ({"compatibilities": [np.full((2, 2), np.nan)]}, "compatibility must be finite"),
        ({"compatibilities": [np.full((2, 2), -1.0)]}, "compatibility must be finite, not neg"),
        ({"compatibilities": [np.full((2, 2), 1e31)]}, "compatibility must be finite, not neg"),
        ({"weights": [(np.nan, 0.1, 0.0, "soft", 1.0, "inner")]}, "weights must be numbers"),
        ({"weights": [(0.1, -0.1, 0.0, "soft", 1.0, "inner")]}, "weights must be numbers"),
        ({"weights": [(0.1, 0.1, np.inf, "soft", 1.0, "inner")]}, "weights must be numbers"),
        ({"weights": [(0.1, 0.1, 0.0, "soft", np.nan, "inner")]}, "the clip level must be"),
        ({"weights": [(0.1, 0.1, 0.0, "firm", 1.0, "inner")]}, "clip must be soft, hard or none"),
        ({"weights": [(0.1, 0.1, 0.0, "soft", 1.0, "cubic")]}, "smoothness must be squared"),
        ({"grid": [2**16, 2**16]}, "grid must have at most"),
        ({"starts": [np.zeros((1, 3, 5), dtype=np.int32)]}, "starts must be"),
        ({"starts": [np.full((1, 3, 4), 2, dtype=np.int32)]}, "starts must be inputs"),
        ({"starts": [np.full((1, 3, 4), -1, dtype=np.int32)]}, "starts must be inputs"),
        ({"sweeps": 0}, "counts must be positive"),
        ({"levels": 0}, "counts must be positive"),
        ({"threads": 0}, "threads must be from 1 to 1024"),
        ({"threads": 1025}, "threads must be from 1 to 1024"),
        ({"levels": 17}, "levels must be at most 16"),
        ({"sources": np.zeros((2, 1, 2, 2), dtype=np.int64)}, "sources' size"),
        ({"objective_values": np.zeros((1, 3))}, "objective_values' shape"),
    ],
)
def test_a_solve_whose_arrays_do_not_fit_is_rejected(change, message):
    _native.solve(**solve_arguments())
    with pytest.raises(ValueError, match=message):
        _native.solve(**solve_arguments() | change)


@each_case("name", ["sources", "objective_values"])
def test_a_solution_is_not_written_to_a_copy(name):
    arguments = solve_arguments()
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _native.solve(**arguments | {name: arguments[name].astype(np.float32)})
