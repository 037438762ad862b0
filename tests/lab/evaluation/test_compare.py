"""Methods side by side: groups, spreads, tests and the best."""

import math

import numpy as np
import pytest
from scipy import integrate

from comixup.lab._runs import RunRecord
from comixup.lab.evaluation._compare import (
    compare,
    holm,
    paired_interval,
    paired_test,
    welch_test,
)


def rows(method, values, name="error", first_seed=0, recipe=""):
    return [
        RunRecord(method, seed, {name: value}, recipe)
        for seed, value in enumerate(values, first_seed)
    ]


def test_runs_measured_on_other_images_are_not_compared():
    rows = [
        RunRecord("a", 0, {"error": 1.0}, "r", "x"),
        RunRecord("b", 0, {"error": 2.0}, "r", "y"),
    ]
    with pytest.raises(ValueError, match="`runs` must be measured on the same images"):
        compare(rows)
    unknown = [rows[0], RunRecord("b", 0, {"error": 2.0}, "r")]
    assert set(compare(unknown).summaries) == {"a", "b"}
    other_recipe = [rows[0], RunRecord("b", 0, {"error": 2.0}, "s", "y")]
    assert set(compare(other_recipe).summaries) == {"r a", "s b"}


def test_runs_are_grouped_by_method():
    mixed = [*rows("vanilla", [30.0, 32.0, 34.0]), *rows("comixup", [20.0, 21.0])]
    mixed[1], mixed[3] = mixed[3], mixed[1]
    found = compare(mixed)
    assert list(found.summaries) == ["vanilla", "comixup"]
    assert found.runs == {"vanilla": 3, "comixup": 2}
    cell = found.summaries["vanilla"]["error"]
    assert (cell.mean, cell.std) == (32.0, 2.0)  # of the sample: sqrt((4 + 0 + 4) / 2)
    assert sorted(zip(cell.seeds, cell.values, strict=True)) == [(0, 30.0), (1, 32.0), (2, 34.0)]
    assert found.summaries["comixup"]["error"].std == pytest.approx(math.sqrt(0.5))


def test_one_run_has_no_spread():
    found = compare([*rows("a", [1.0]), *rows("b", [2.0])])
    assert math.isnan(found.summaries["a"]["error"].std)
    (difference,) = found.differences
    assert (difference.difference, difference.welch, difference.paired) == (1.0, None, None)
    assert difference.pairs == 1


def test_best_depends_on_the_column():
    names = ("error", "gt_known", "passes")
    given = [
        RunRecord("a", 0, dict.fromkeys(names, 1.0)),
        RunRecord("b", 0, dict.fromkeys(names, 2.0)),
    ]
    found = compare(given).summaries
    best = [[m for m in "ab" if found[m][name].best] for name in names]
    assert best == [["a"], ["b"], []]


def test_what_prints_the_same_is_as_good():
    found = compare([*rows("a", [1.001]), *rows("b", [1.004]), *rows("c", [1.006])]).summaries
    assert [found[m]["error"].best for m in "abc"] == [True, True, False]


def test_a_lone_method_is_not_the_best():
    found = compare([RunRecord("a", 0, {"error": 1.0}), RunRecord("b", 0, {"ece": 1.0})])
    assert not found.summaries["a"]["error"].best
    assert found.summaries["b"]["error"].values == ()
    assert found.differences == ()
    assert compare(rows("a", [1.0, 2.0])).reference is None


def test_the_reference():
    given = [*rows("a", [1.0]), *rows("comixup", [2.0]), *rows("b", [3.0])]
    assert compare(given).reference == "comixup"
    assert [d.method for d in compare(given).differences] == ["a", "b"]
    assert compare(given, reference="b").differences[0].difference == -2.0
    assert compare(given[::2]).reference == "a"


# ---- Tests of differences -----------------------------------------------------------------------


def tail(t, freedom):
    """Returns the two-sided p-value by integrating Student's density."""
    scale = math.gamma((freedom + 1) / 2) / math.gamma(freedom / 2) / math.sqrt(freedom * math.pi)
    area, _ = integrate.quad(lambda x: (1 + x * x / freedom) ** (-(freedom + 1) / 2), 0, abs(t))
    return 1 - 2 * scale * area


def test_welch_by_hand():
    # Means 2 and 5, variances 1 and 4 of 3 and 3: t = -3 / sqrt(5 / 3).
    a, b = 1 / 3, 4 / 3
    freedom = (a + b) ** 2 / (a * a / 2 + b * b / 2)
    expected = tail(3 / math.sqrt(a + b), freedom)
    assert welch_test([1.0, 2.0, 3.0], [3.0, 5.0, 7.0]) == pytest.approx(expected, rel=1e-9)
    # Two against two with equal variances: 2 degrees, where the tail has a closed form.
    t = 2 / math.sqrt(0.5 + 0.5)
    closed = 1 - t / math.sqrt(2 + t * t)
    assert welch_test([0.0, 1.0 * math.sqrt(2)], [2.0, 2 + math.sqrt(2)]) == pytest.approx(closed)


def test_paired_by_hand():
    # One degree of freedom: Student's distribution is Cauchy's.
    t = 3 / (math.sqrt(2) / math.sqrt(2))
    assert paired_test([2.0, 4.0]) == pytest.approx(1 - 2 * math.atan(t) / math.pi)


def test_where_there_is_no_spread_there_is_no_test():
    assert welch_test([1.0, 1.0], [2.0, 2.0]) is None
    assert welch_test([1.0], [2.0, 3.0]) is None
    assert welch_test([1.0, 1.0], [2.0, 3.0]) is not None
    assert paired_test([0.5]) is paired_interval([0.5]) is paired_interval([0.5, 0.5]) is None
    # Errors of 10,000 images are hundredths; their differences differ by rounding alone.
    assert paired_test([20.3 - 20.1, 19.9 - 19.7, 20.8 - 20.6]) is None


def test_two_seeds_are_not_tested():
    (found,) = compare([*rows("a", [10.0, 12.0]), *rows("comixup", [11.0, 14.0])]).differences
    assert (found.welch, found.paired, found.interval, found.holm) == (None,) * 4
    (found,) = compare([*rows("a", [10.0, 12.0, 9.0]), *rows("b", [11.0, 14.0, 9.5])]).differences
    assert found.paired == pytest.approx(paired_test([1.0, 2.0, 0.5]))


def test_pairs_are_seeds_in_common():
    given = [
        *rows("a", [10.0, 12.0, 15.0], first_seed=0),
        *rows("comixup", [11.0, 13.0, 50.0], first_seed=1),
        RunRecord("a", None, {"error": 11.0}),
    ]
    (found,) = compare(given).differences
    assert found.pairs == 2
    assert (found.paired, found.interval) == (None, None)
    assert found.difference == pytest.approx(12.0 - 74 / 3)
    assert found.welch == pytest.approx(welch_test([10, 12, 15, 11], [11, 13, 50]))


# ---- Bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "`runs` must have a run at least, got none"),
        (rows("a", [1.0]) * 2, "seed 0 of a twice"),
        (rows("a", [math.nan]), "`metrics` must be finite .* got nan for error of a, seed 0"),
        (rows("a", [1.0], name="speed"), r"`runs` must have metrics such as error.*\['speed'\]"),
    ],
)
def test_bad_rows_get_an_error_message(given, message):
    with pytest.raises(ValueError, match=message):
        compare(given)


def test_a_reference_that_is_not_there():
    with pytest.raises(ValueError, match=r"one of the methods vanilla, got 'vanila'. Did you mean"):
        compare(rows("vanilla", [1.0]), reference="vanila")


# ---- Intervals and adjusted p-values ------------------------------------------------------------


def test_an_interval_leaves_zero_out_where_the_test_rejects():
    random = np.random.default_rng(4)
    for _ in range(50):
        x = list(random.normal(0.7, 1, 5))
        low, high = paired_interval(x)
        assert (low > 0 or high < 0) == (paired_test(x) < 0.05)


def test_holm_by_hand():
    assert holm([]) == []
    assert holm([0.2]) == [0.2]
    # 4 * 0.01, then 3 * 0.02, then 2 * 0.03 which is not lower, then 0.9 at most 1
    assert holm([0.03, 0.01, 0.9, 0.02]) == pytest.approx([0.06, 0.04, 0.9, 0.06])
    assert holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])


def test_the_family_is_adjusted_together_and_others_are_not():
    random = np.random.default_rng(0)
    given = [
        RunRecord(method, seed, {name: random.normal() for name in ("error", "ece", "nll")})
        for method in ("comixup", "a", "b", "c")
        for seed in range(4)
    ]
    found = compare(given).differences
    inside = [d for d in found if d.column in ("error", "ece")]
    assert len(inside) == 6
    assert [d.holm for d in inside] == pytest.approx(holm([d.paired for d in inside]))
    assert {d.holm for d in found if d.column == "nll"} == {None}


def test_a_difference_has_its_interval():
    values = {"a": [3.0, 5.0, 4.0], "comixup": [1.0, 2.0, 2.5]}
    given = [RunRecord(m, k, {"error": v}) for m, vs in values.items() for k, v in enumerate(vs)]
    (found,) = compare(given).differences
    assert found.interval == pytest.approx(paired_interval([2.0, 3.0, 1.5]))
