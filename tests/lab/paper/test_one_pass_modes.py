"""Forms of one-pass mixing: their table and figure, from cells."""

import dataclasses
from pathlib import Path

import pytest

from comixup.lab.paper import one_pass_modes
from comixup.lab.paper.cells import read_cells, write_cells
from comixup.lab.training import RECIPES

SOME = read_cells(Path(__file__).parents[3] / "docs" / "results" / "small-data.csv")[0]


def cell(method, seed, error, seconds):
    return dataclasses.replace(
        SOME, method=method, seed=seed, validation_error=error, cpu_seconds=seconds
    )


CELLS = [
    cell("vanilla", 100, 36.0, 100.0),
    cell("vanilla", 101, 38.0, 200.0),
    cell("comixup-one-pass", 100, 33.0, 110.0),
    cell("comixup-one-pass", 101, 34.5, 200.0),
    cell("comixup-small", 101, 35.0, 240.0),
    cell("comixup-one-pass", 0, 1.0, 1.0),  # a reported seed, which has no say here
]


def test_every_mode_is_a_method_of_the_recipe():
    assert set(one_pass_modes.MODES) <= set(RECIPES["cifar100-small-data"].methods)


def test_table():
    lines = one_pass_modes.modes_table(CELLS).splitlines()
    assert lines[0] == "|  | seed 100 | seed 101 | mean | CPU time |"
    assert lines[2:] == [
        "| Vanilla training | 36.0 | 38.0 | 37.0 | 1.00x |",
        "| One-pass, every other batch | 33.0 | 34.5 | 33.8 | 1.05x |",
        "| No memory: small images |  | 35.0 | 35.0 | 1.20x |",
    ]


def test_figure_has_a_row_for_each_mode():
    errors, costs = one_pass_modes.modes_figure(CELLS).axes
    labels = [label.get_text() for label in errors.get_yticklabels()]
    assert labels[::-1] == [
        "Vanilla training",
        "One-pass, every other batch",
        "No memory: small images",
    ]
    assert [bar.get_width() for bar in costs.patches] == pytest.approx([1.2, 1.05, 1.0])


def test_report_is_written_from_the_cells(tmp_path):
    write_cells(CELLS, tmp_path / "cells.csv")
    one_pass_modes.write_report(tmp_path / "cells.csv", tmp_path)
    assert "| Vanilla training | 36.0 |" in (tmp_path / "one-pass-modes.md").read_text()
    assert (tmp_path / "figures" / "one-pass-modes.png").is_file()


def test_costs_need_vanilla_runs_of_the_same_seed():
    with pytest.raises(ValueError, match=r"`cells` must have vanilla runs.*--seeds 101"):
        one_pass_modes.modes_table([cell("vanilla", 100, 36.0, 1.0), CELLS[4]])
    with pytest.raises(ValueError, match="`cells` must have vanilla runs"):
        one_pass_modes.modes_figure(CELLS[2:4])
