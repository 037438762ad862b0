"""The analyses' rows: what they hold, against definitions written out."""

import itertools
import statistics

import pytest
import torch

from comixup import CoMixup, InputMixup, NoMix, Problem, objective
from comixup.lab.paper._analyses import (
    MOST_INPUTS,
    POSITIONS,
    arrangement,
    batch_statistics,
    exhaustive_rows,
    infeasible_guess,
    narasimhan_bilmes_rows,
)
from comixup.lab.paper._pictures import (
    SPLIT,
    TOGETHER,
    compatible_problem,
    draw_compatibility,
    inner_product,
    labelling_of,
)


@pytest.mark.parametrize("kind", ["paper", "hard"])
def test_no_solution_is_below_the_optimum(kind):
    rows = exhaustive_rows(range(5), kind, (3, 3, 4))
    assert [row["seed"] for row in rows] == list(range(5))
    for row in rows:
        others = [row[name] for name in ("ours", "ours_4_starts", "identity", "random")]
        assert row["optimum"] <= min(others) + 1e-9
    assert len({row["optimum"] for row in rows}) > 1 or kind == "paper"


def test_both_algorithms_beat_guesses():
    rows = narasimhan_bilmes_rows(range(3), 10)
    for row in rows:
        assert row["ours"] < row["narasimhan_bilmes"]
        assert row["ours"] < row["random"] < row["infeasible"]
        assert row["ours"] == pytest.approx(10)  # one input per output
        assert min(row["ours_ms"], row["narasimhan_bilmes_ms"]) > 0
    again = narasimhan_bilmes_rows(range(2, 3), 10)
    numbers = ("ours", "narasimhan_bilmes", "random", "infeasible")
    assert [again[0][name] for name in numbers] == [rows[2][name] for name in numbers]


@pytest.mark.parametrize("m", [10, 20])
def test_the_papers_random_row_is_that_of_infeasible_masks(m):
    n = 16
    eye = torch.eye(m)
    problem = Problem(torch.zeros(m, 4, 4), eye, clip=None)
    generator = torch.Generator().manual_seed(0)
    found = statistics.fmean(infeasible_guess(problem, generator) for _ in range(50))
    assert found == pytest.approx(m * m * (m - 1) * n / 4, rel=0.02)
    paper = {10: 7269, 20: 60964}[m]
    assert paper == pytest.approx(2 * found, rel=0.05)


def test_solutions_are_arranged_from_diverse_to_salient():
    maps = torch.rand(12, 8, 8, generator=torch.Generator().manual_seed(0)) ** 3
    rows = arrangement(maps, seed=0)
    assert [row["x"] for row in rows] == list(POSITIONS)
    for before, after in itertools.pairwise(rows):
        assert before["unary"] >= after["unary"]
        assert before["supermodular"] <= after["supermodular"]
    assert rows[0]["unary"] > rows[-1]["unary"]
    sums = [row["unary"] + row["supermodular"] for row in rows]
    assert sums[POSITIONS.index(0.5)] == min(sums) < min(sums[0], sums[-1])


@pytest.mark.parametrize("mixer", [NoMix(), InputMixup(None), CoMixup(None)], ids=repr)
def test_statistics_of_a_batch_are_as_defined(mixer):
    images, maps = torch.rand(8, 3, 8, 8), torch.rand(8, 8, 8)
    row = batch_statistics(mixer, images, maps)
    plan = mixer.last.plan
    ratio = plan.source_ratio((8, 8))
    overlap = sum(float(ratio[j] @ ratio[k]) for j in range(8) for k in range(8) if j != k)
    assert row["diversity"] == pytest.approx(1 - overlap / 8, abs=1e-5)
    counts = [int((ratio[j] > 0).sum()) for j in range(8)]
    assert [row[f"inputs_{n}"] for n in range(1, MOST_INPUTS + 1)] == [
        counts.count(n) for n in range(1, MOST_INPUTS + 1)
    ]
    if not mixer.needs_saliency:
        assert row["saliency"] == pytest.approx(1, abs=1e-5)


def test_compatible_inputs_meet_in_one_output(tmp_path):
    problem = compatible_problem()
    for halves in (SPLIT, TOGETHER):
        counts = labelling_of(halves).source_counts.double()
        by_hand = counts[0] @ problem.compatibility.double() @ counts[1]
        assert inner_product(problem, labelling_of(halves)) == pytest.approx(by_hand.item())
    rows = draw_compatibility(tmp_path / "picture")
    split, together, solved = (row["inner_product"] for row in rows)
    assert solved <= together < split
    assert (
        objective(problem, labelling_of(SPLIT)).total
        > objective(problem, labelling_of(TOGETHER)).total
    )
    assert {path.name for path in tmp_path.iterdir()} == {"picture.png"}
