"""Sweeps: which cells there are, that they are trained once, and what is made of them."""

import csv
import io
import json
import re

import pytest
from rich.console import Console

from comixup.lab._runs import RunRecord
from comixup.lab.training import RECIPES, Hardware
from comixup.lab.training._folder import read_metrics
from comixup.lab.training._sweep import (
    Sweep,
    sweep,
    sweep_figure,
    sweep_table,
    sweep_variants,
    write_tables,
)

DIGITS = RECIPES["digits"]
SMALL = DIGITS.changed(model="lenet", epochs=2, images_per_class=2, batch_size=10, lr=0.01)
HERE = Hardware(accelerator="cpu", workers=0)
GRID = {"beta": [0.32, 0.0], "partition_size": [20.0]}
"""Two cells to train: the own value of both settings is one cell."""


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    out = tmp_path_factory.mktemp("unbroken")
    return out, sweep(SMALL, GRID, seeds=(0, 1), out=out, hardware=HERE)


def result(error):
    return RunRecord("comixup", 0, {"error": error})


def filled(recipe, grid, errors, method=None):
    """Returns a sweep with these errors, a list for each cell."""
    cells = [
        type(cell)(**{**vars(cell), "results": {s: result(e) for s, e in enumerate(values)}})
        for cell, values in zip(sweep_variants(recipe, grid, method), errors, strict=True)
    ]
    return Sweep(recipe, method or recipe.method, tuple(cells))


# ---- Cells --------------------------------------------------------------------------------------


def test_each_setting_is_varied_alone():
    cells = sweep_variants(SMALL, {"beta": [0.32, 0.0], "partition_size": [20.0, 4.0]})
    assert [(c.setting, c.value, c.name, c.default) for c in cells] == [
        ("beta", 0.0, "comixup-beta-0", False),
        ("beta", 0.32, "comixup", True),
        ("partition_size", 4, "comixup-partition_size-4", False),
        ("partition_size", 20, "comixup", True),
    ]
    assert type(cells[2].value) is int  # the mixer takes no other


PAPER = RECIPES["cifar100-sensitivity"]


def test_values_may_be_no_numbers():
    cells = sweep_variants(SMALL, {"resolve": [False, True], "clip": ["hard", None, "soft"]})
    assert [(c.value, c.name, c.default) for c in cells] == [
        (False, "comixup-resolve-false", False),
        (True, "comixup", True),
        ("hard", "comixup-clip-hard", False),
        (None, "comixup-clip-none", False),
        ("soft", "comixup", True),
    ]
    sizes = sweep_variants(SMALL, {"partition_size": [None, 20, 4], "num_outputs": [5.0, None]})
    assert [c.name for c in sizes] == [
        "comixup-partition_size-4",
        "comixup",
        "comixup-partition_size-none",
        "comixup-num_outputs-5",
        "comixup",
    ]
    assert type(sizes[3].value) is int


def test_tables_and_figures_of_values_that_are_no_numbers(tmp_path):
    found = filled(SMALL, {"clip": ["hard", None, "soft"]}, [[3.0], [2.0, 4.0], [1.0]])
    write_tables(found, tmp_path)
    with (tmp_path / "sensitivity.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows] == ["hard", "none", "soft"]
    (axes,) = sweep_figure(found).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["hard", "none", "soft"]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "`grid` must have a setting"),
        ({"beta": []}, "`beta` must have different values to try, one at least, got"),
        ({"beta": [1, 1.0]}, "`beta` must have different values"),
        ({"beta": [0.0, -0.0]}, "`beta` must have different values"),
        ({"beta": ["a"]}, "`beta` must be a finite number, got 'a'"),
        ({"grid": [[2, 4]]}, "`grid` must be varied by single values"),
        ({"partition_size": [2.5]}, "`partition_size` must be an integer or null, got 2.5"),
    ],
)
def test_bad_grids_get_an_error_message_before_anything_is_trained(grid, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        sweep(SMALL, grid, out=tmp_path, hardware=HERE)
    assert not list(tmp_path.iterdir())


# ---- Training -----------------------------------------------------------------------------------


def test_every_cell_is_trained_and_shared_ones_once(unbroken):
    out, found = unbroken
    folder = out / "digits-sweep"
    trained = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert trained == ["comixup", "comixup-beta-0"]
    for cell in found.variants:
        assert list(cell.results) == [0, 1]
        for seed, one in cell.results.items():
            run = folder / cell.name / f"seed-{seed}"
            assert json.loads((run / "result.json").read_text())["error"] == one.error
            metadata = json.loads((run / "run.json").read_text())
            settings = metadata["recipe"]["methods"][cell.name]["settings"]
            assert settings == ({} if cell.default else {cell.setting: cell.value})
    assert found.variants[1].results == found.variants[2].results


def test_files_of_a_sweep(unbroken):
    out, found = unbroken
    folder = out / "digits-sweep"
    assert (folder / "sensitivity.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "sensitivity.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, cell in zip(rows, found.variants, strict=True):
        assert (row["setting"], float(row["value"])) == (cell.setting, cell.value)
        assert float(row["error"]) == pytest.approx(sum(cell.errors) / 2)
        assert [float(word) for word in row["errors"].split()] == pytest.approx(cell.errors)
        assert (row["n"], row["seeds"]) == ("2", "0 1")
    assert [row["default"] for row in rows] == ["0", "1", "1"]


def test_more_values_train_only_the_new_cells(unbroken):
    out, before = unbroken
    runs = {path for path in out.rglob("metrics.csv")}
    times = {path: read_metrics(path.parent) for path in runs}
    found = sweep(SMALL, {"beta": [0.0, 0.32, 0.64]}, seeds=(0,), out=out, hardware=HERE)
    assert [cell.errors for cell in found.variants[:2]] == [
        c.errors[:1] for c in before.variants[:2]
    ]
    assert {path: read_metrics(path.parent) for path in runs} == times
    new = {path.parent.parent.name for path in out.rglob("metrics.csv")} - {
        path.parent.parent.name for path in runs
    }
    assert new == {"comixup-beta-0.64"}


# ---- Table and figure ---------------------------------------------------------------------------


def test_table_for_the_terminal():
    found = filled(PAPER, {"beta": [0.0, 0.32, 0.4]}, [[10.0, 12.0], [9.0], []])
    console = Console(width=100, file=io.StringIO())
    console.print(sweep_table(found))
    text = console.file.getvalue()
    cells = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    assert ["beta", "0", "2", "11.00 ± 1.41"] in cells
    assert ["beta", "0.32 *", "1", "9.00"] in cells
    assert ["beta", "0.4", "0", "-"] in cells


def test_means_and_seeds_are_drawn_and_the_own_value_marked():
    found = filled(DIGITS, {"beta": [0.0, 0.32, 0.4]}, [[10.0, 12.0], [9.0, 9.0], []])
    (ax,) = sweep_figure(found).axes
    (bars,) = ax.containers
    line, _, (spreads,) = bars
    assert line.get_xydata().tolist() == [[0, 11.0], [1, 9.0]]
    ends = [segment[:, 1].tolist() for segment in spreads.get_segments()]
    assert ends[0] == pytest.approx([11 - 2**0.5, 11 + 2**0.5])
    dots = [ln.get_xydata().tolist() for ln in ax.get_lines() if ln.get_marker() == "."]
    assert dots == [[[0, 10.0], [0, 12.0]], [[1, 9.0], [1, 9.0]]]
    dotted = [ln.get_xdata() for ln in ax.get_lines() if ln.get_linestyle() == ":"]
    assert [list(x) for x in dotted] == [[1, 1]]
