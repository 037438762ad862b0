"""Forms of one-pass mixing: their table and figure, from runs."""

import dataclasses
from pathlib import Path

import pytest

from comixup.lab.evaluation import read_runs, write_runs
from comixup.lab.training import RECIPES
from one_pass_modes import study

ROOT = Path(__file__).parents[2]
SOME = read_runs(ROOT / "docs" / "results" / "small-data.csv")[0]


def run(method, seed, error, seconds):
    numbers = {**SOME.metrics, "validation_error": error, "cpu_seconds": seconds}
    return dataclasses.replace(SOME, method=method, seed=seed, metrics=numbers)


RUNS = [
    run("vanilla", 100, 36.0, 100.0),
    run("vanilla", 101, 38.0, 200.0),
    run("comixup-one-pass", 100, 33.0, 110.0),
    run("comixup-one-pass", 101, 34.5, 200.0),
    run("comixup-small", 101, 35.0, 240.0),
    run("comixup-one-pass", 0, 1.0, 1.0),  # a reported seed, which has no say here
]


def test_every_mode_is_a_method_of_the_recipe_or_removed():
    assert set(study.MODES) - set(study.REMOVED) <= set(RECIPES["cifar100-small-data"].methods)
    assert not set(study.REMOVED) & set(RECIPES["cifar100-small-data"].methods)


def test_table():
    lines = study.modes_table(RUNS).splitlines()
    assert lines[0] == "|  | seed 100 | seed 101 | mean | CPU time |"
    assert lines[2:] == [
        "| Vanilla training | 36.0 | 38.0 | 37.0 | 1.00x |",
        "| One-pass, every other batch | 33.0 | 34.5 | 33.8 | 1.05x |",
        "| No memory: small images |  | 35.0 | 35.0 | 1.20x |",
    ]


def test_figure_has_a_row_for_each_mode():
    errors, costs = study.modes_figure(RUNS).axes
    labels = [label.get_text() for label in errors.get_yticklabels()]
    assert labels[::-1] == [
        "Vanilla training",
        "One-pass, every other batch",
        "No memory: small images",
    ]
    assert [bar.get_width() for bar in costs.patches] == pytest.approx([1.2, 1.05, 1.0])


def test_report_is_written_from_the_runs(tmp_path):
    write_runs(RUNS, tmp_path / "runs.csv")
    study.write_report(tmp_path / "runs.csv", tmp_path)
    assert "| Vanilla training | 36.0 |" in (tmp_path / "one-pass-modes.md").read_text()
    assert (tmp_path / "figures" / "one-pass-modes.png").is_file()


def test_costs_need_vanilla_runs_of_the_same_seed():
    with pytest.raises(ValueError, match=r"`runs` must have vanilla runs.*--seeds 101"):
        study.modes_table([run("vanilla", 100, 36.0, 1.0), RUNS[4]])
    with pytest.raises(ValueError, match="`runs` must have vanilla runs"):
        study.modes_figure(RUNS[2:4])
