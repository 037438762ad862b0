"""Finished cells: kept in the output folder, committed as CSV, read back."""

import pytest

from comixup.lab.paper._store import (
    Made,
    cell_folder,
    commit_cells,
    is_made,
    read_all,
    read_committed,
    read_out,
    write_cell,
)

ABOUT = {"seconds": 1.5, "date": "2026-01-02", "machine": "a, 2 cores", "commit": "12e4567"}
CELLS = {
    "exhaustive/a/seeds-0-1": Made(
        ({"kind": "paper", "seed": 0, "ours": 1 / 3}, {"kind": "paper", "seed": 1, "ours": 2.0}),
        ABOUT,
    ),
    "runs/digits/vanilla/seed-0": Made(({"error": 5.5, "bins": "1:0.5:0.25"},), ABOUT),
    "methods/digits": Made((), ABOUT),
}
STUDY = "recipe,method,seed,error,ece,commit\ncifar100-small-data,comixup,3,32.5,1.5,1234567\n"
STUDY_KEY = "runs/cifar100-small-data/comixup/seed-3"


def write(out, key):
    cell_folder(out, key).mkdir(parents=True)
    write_cell(out, key, CELLS[key])


def test_a_cell_is_read_as_it_was_written(tmp_path):
    for key in CELLS:
        assert not is_made(tmp_path, key)
        write(tmp_path, key)
        assert is_made(tmp_path, key)
    assert read_out(tmp_path) == CELLS


def test_committed_cells_are_read_as_they_were(tmp_path):
    assert commit_cells(tmp_path, CELLS) == len(CELLS)
    found = read_committed(tmp_path)
    assert set(found) == set(CELLS)
    for key, cell in CELLS.items():
        assert found[key].about == cell.about
        assert len(found[key].rows) == len(cell.rows)
    first = found["exhaustive/a/seeds-0-1"].rows[0]
    assert first == {"kind": "paper", "seed": 0.0, "ours": pytest.approx(1 / 3, rel=1e-6)}
    assert found["runs/digits/vanilla/seed-0"].rows[0]["bins"] == "1:0.5:0.25"
    assert commit_cells(tmp_path, read_committed(tmp_path)) == 0


def test_later_cells_are_added_and_replace(tmp_path):
    commit_cells(tmp_path, CELLS)
    key = "exhaustive/a/seeds-0-1"
    new = {key: Made(({"seed": 0, "ours": 9.0},), ABOUT), "run-time/b": Made(({"ms": 1.0},), ABOUT)}
    assert commit_cells(tmp_path, new) == 2
    found = read_committed(tmp_path)
    assert set(found) == {*CELLS, "run-time/b"}
    assert [row["ours"] for row in found[key].rows] == [9.0]


def test_runs_of_the_study_count_and_stay_in_its_table(tmp_path):
    (tmp_path / "small-data.csv").write_text(STUDY)
    assert read_committed(tmp_path)[STUDY_KEY].rows[0]["error"] == 32.5
    assert commit_cells(tmp_path, {STUDY_KEY: Made(({"error": 1.0},), ABOUT)}) == 0
    assert read_committed(tmp_path)[STUDY_KEY].rows[0]["error"] == 32.5
    assert read_committed(tmp_path)[STUDY_KEY].about == {"commit": "1234567"}
    assert (tmp_path / "small-data.csv").read_text() == STUDY


def test_the_output_folder_comes_before_what_is_committed(tmp_path):
    key = "methods/digits"
    commit_cells(tmp_path / "results", {key: Made(({"a": 1.0},), ABOUT)})
    write(tmp_path / "out", key)
    assert read_all(tmp_path / "results", tmp_path / "out")[key].rows == ()


def test_a_damaged_cell_is_named(tmp_path):
    write(tmp_path, "methods/digits")
    path = cell_folder(tmp_path, "methods/digits") / "cell.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"cell\.json must be a cell that comixup wrote"):
        read_out(tmp_path)
