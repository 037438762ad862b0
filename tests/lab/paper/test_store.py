"""Finished jobs: kept in the output folder, committed as CSV, read back."""

import pytest

from comixup.lab._calibration import Bin
from comixup.lab.evaluation import RunRecord
from comixup.lab.paper._store import (
    JobResult,
    commit_results,
    is_done,
    job_folder,
    read_all,
    read_committed,
    read_out,
    write_result,
)

ABOUT = {"seconds": 1.5, "date": "2026-01-02", "machine": "a, 2 cores", "commit": "12e4567"}
RUN = RunRecord("vanilla", 0, {"error": 5.5}, "digits", bins=(Bin(1, 0.5, 0.25),), commit="12e4567")
JOBS = {
    "exhaustive/a/seeds-0-1": JobResult(
        ({"kind": "paper", "seed": 0, "ours": 1 / 3}, {"kind": "paper", "seed": 1, "ours": 2.0}),
        ABOUT,
    ),
    "runs/digits/vanilla/seed-0": JobResult((RUN.as_row(),), ABOUT),
    "methods/digits": JobResult((), ABOUT),
}
STUDY = "recipe,method,seed,error,ece,commit\ncifar100-small-data,comixup,3,32.5,1.5,1234567\n"
STUDY_KEY = "runs/cifar100-small-data/comixup/seed-3"


def write(out, key):
    job_folder(out, key).mkdir(parents=True)
    write_result(out, key, JOBS[key])


def test_a_result_is_read_as_it_was_written(tmp_path):
    for key in JOBS:
        assert not is_done(tmp_path, key)
        write(tmp_path, key)
        assert is_done(tmp_path, key)
    assert read_out(tmp_path) == JOBS


def test_committed_results_are_read_as_they_were(tmp_path):
    assert commit_results(tmp_path, JOBS) == len(JOBS)
    found = read_committed(tmp_path)
    assert set(found) == set(JOBS)
    for key, job in JOBS.items():
        assert found[key].about == job.about
        assert len(found[key].rows) == len(job.rows)
    first = found["exhaustive/a/seeds-0-1"].rows[0]
    assert first == {"kind": "paper", "seed": 0.0, "ours": pytest.approx(1 / 3, rel=1e-6)}
    assert found["runs/digits/vanilla/seed-0"].rows[0]["bins"] == "1:0.5:0.25"
    assert commit_results(tmp_path, read_committed(tmp_path)) == 0


def test_later_results_are_added_and_replace(tmp_path):
    commit_results(tmp_path, JOBS)
    key = "exhaustive/a/seeds-0-1"
    new = {
        key: JobResult(({"seed": 0, "ours": 9.0},), ABOUT),
        "run-time/b": JobResult(({"ms": 1.0},), ABOUT),
    }
    assert commit_results(tmp_path, new) == 2
    found = read_committed(tmp_path)
    assert set(found) == {*JOBS, "run-time/b"}
    assert [row["ours"] for row in found[key].rows] == [9.0]


def test_runs_of_the_study_count_and_what_was_trained_replaces_them(tmp_path):
    (tmp_path / "small-data.csv").write_text(STUDY)
    assert read_committed(tmp_path)[STUDY_KEY].rows[0]["error"] == 32.5
    assert read_committed(tmp_path)[STUDY_KEY].about == {"commit": "1234567"}
    assert commit_results(tmp_path, {}) == 0
    assert (tmp_path / "small-data.csv").read_text() == STUDY
    new = RunRecord("comixup", 3, {"error": 99.0, "ece": 1.5}, "cifar100-small-data", commit="abc")
    assert commit_results(tmp_path, {STUDY_KEY: JobResult((new.as_row(),), ABOUT)}) == 1
    assert read_committed(tmp_path)[STUDY_KEY] == JobResult((new.as_row(),), ABOUT)
    assert "comixup,3,99,1.5,abc" in (tmp_path / "small-data.csv").read_text()
    assert not (tmp_path / "runs.csv").exists()


def test_the_output_folder_comes_before_what_is_committed(tmp_path):
    key = "methods/digits"
    commit_results(tmp_path / "results", {key: JobResult(({"a": 1.0},), ABOUT)})
    write(tmp_path / "out", key)
    assert read_all(tmp_path / "results", tmp_path / "out")[key].rows == ()


def test_a_damaged_result_is_named(tmp_path):
    write(tmp_path, "methods/digits")
    path = job_folder(tmp_path, "methods/digits") / "job.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"job\.json must be a result that comixup wrote"):
        read_out(tmp_path)
