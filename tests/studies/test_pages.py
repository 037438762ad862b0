"""The committed pages of the studies are what their committed runs give."""

import shutil
from pathlib import Path

import pytest

import one_pass_modes.study
import other_sets.study
import small_data.study
from comixup.lab.evaluation import RunRecord

COMMITTED = Path(__file__).parents[2] / "docs" / "results"

pytestmark = pytest.mark.usefixtures("drawn")


@pytest.mark.slow
def test_pages(tmp_path):
    copy = shutil.copytree(COMMITTED, tmp_path / "results")
    small_data.study.write_report(copy / "small-data.csv", copy)
    one_pass_modes.study.write_report(copy / "one-pass-modes.csv", copy)
    other_sets.study.report(copy, tmp_path / "out")
    for name in ("small-data.md", "one-pass-modes.md", "other-sets.md"):
        assert (copy / name).read_text() == (COMMITTED / name).read_text(), f"{name} is out of date"


def test_other_sets_are_reported_from_what_was_trained(tmp_path):
    study = other_sets.study
    runs = study.trained(COMMITTED, tmp_path)
    assert list(runs) == study.planned()
    first = next(iter(runs))
    changed = runs | {first: RunRecord(first.method, 0, {"error": 99.0}, first.recipe)}
    lines = study.table("tiny-imagenet-small", changed).splitlines()
    assert lines[0].startswith("|  | vanilla | CutMix, p = 0.5 |")
    others = [runs[run].metrics["error"] for run in list(runs)[1:3]]
    assert lines[2].startswith(f"| Top-1 error, % | {(99.0 + sum(others)) / 3:.2f} ± ")
    assert lines[3].split("|")[2].endswith("(2) ")
    assert all(line.count("|") == lines[0].count("|") for line in lines)
    nothing = study.table("speech-small", {}).splitlines()[2]
    assert nothing == "| Top-1 error, % | - | - | - | - | - |"
