"""The report: made from results alone, with the paper's numbers."""

import base64
import math
import re
import shutil
from pathlib import Path

import pytest

from comixup.lab._calibration import Bin
from comixup.lab.evaluation import RunRecord
from comixup.lab.paper import ITEMS, collect, jobs_of, write_report
from comixup.lab.paper._analyses import exhaustive_rows, narasimhan_bilmes_rows, run_time_rows
from comixup.lab.paper._report import shows_no_data_set
from comixup.lab.paper._store import (
    JobResult,
    commit_results,
    job_folder,
    read_committed,
    write_result,
)
from comixup.lab.paper._trained_tables import Run

ABOUT = {"date": "2026-01-02", "machine": "a machine", "commit": "abc1234", "seconds": 1.0}
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
)


def trained(seed, error, recipe="cifar100-preactresnet18"):
    bins = (*[Bin(0, math.nan, math.nan)] * 9, Bin(100, 0.95, 0.9))
    run = RunRecord("comixup", seed, {"error": error, "ece": error / 10}, recipe, bins=bins)
    return Run(recipe, "comixup", seed).key, JobResult((run.as_row(),), ABOUT)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder of committed results: three analyses, and three runs."""
    folder = tmp_path_factory.mktemp("results")
    made = {
        "exhaustive/paper-2-2-4/seeds-0-24": JobResult(
            tuple(exhaustive_rows(range(3), "paper", (2, 2, 4))), ABOUT
        ),
        **{
            f"narasimhan-bilmes/m-{m}/seeds-0-24": JobResult(
                tuple(narasimhan_bilmes_rows(range(2), m)), ABOUT
            )
            for m in (5, 10, 20, 50, 100)
        },
        "run-time/some/seeds-0-24": JobResult(
            tuple(
                row
                for m, levels in ((20, 1), (20, 2), (20, 3), (2, 2), (10, 2), (50, 2), (100, 2))
                for row in run_time_rows(range(1), m, levels, repeats=1)
            ),
            ABOUT,
        ),
        **dict(trained(seed, error) for seed, error in enumerate((19.0, 20.0, 21.0))),
    }
    commit_results(folder, made)
    (folder / "figures").mkdir()
    (folder / "figures" / "methods-digits-pictures.png").write_bytes(DOT)
    return folder


@pytest.fixture(scope="module")
def out(results, tmp_path_factory):
    """A folder with the report."""
    folder = tmp_path_factory.mktemp("out")
    assert write_report(results, folder) == folder / "report.md"
    return folder


def test_contents_lead_to_sections_and_pictures_are_there(out):
    text = (out / "report.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    anchors = [re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in headings]
    assert re.findall(r"\(#(.*?)\)", text) == anchors
    assert len(anchors) == len(ITEMS)
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert "figures/methods-digits-pictures.png" in pictures
    assert all((out / path).is_file() for path in pictures)
    assert "figures/run-time.png" in pictures


def test_every_item_has_its_section_with_command_and_cost(out):
    text = (out / "report.md").read_text()
    for name, item in ITEMS.items():
        section = text.split(f": {item.title}\n")[1].split("\n## ")[0]
        plain = " ".join(section.split())
        assert f"`comixup reproduce {name} --scale small`" in plain
        assert item.printed in plain
        assert item.slip in plain
        if not any(job.key.startswith(("exhaustive", "narasimhan", "runs")) for job in
                   jobs_of(item, "small")):  # fmt: skip
            assert "not run; about" in plain


def test_ours_stand_below_the_papers(out):
    text = (out / "report.md").read_text()
    assert "| CIFAR-100, PreActResNet18 | paper | 23.59 | 22.43 |" in text
    ours = "| CIFAR-100, PreActResNet18 | ours, `cifar100-preactresnet18` |"
    assert f"{ours} - | - | - | - | - | 20.00 ± 1.00 (3) |" in text
    assert "| CIFAR-100 | ours, `cifar100-preactresnet18` | - | - | - | - | - | 2.00" in text
    assert "| beta | 0.32 | 19.87 | 20.00 ± 1.00 (3) | - |" in text
    assert "| (2, 2, 4) | ours | 3 | 2.000 | 2.000 |" in text
    assert "| random, not feasible | paper | 809 (22) |" in text
    assert "seeds 0 to 2, 2026-01-02, a machine, commit abc1234" in " ".join(text.split())


def test_pictures_of_data_sets_are_not_committed(results, tmp_path):
    out = tmp_path / "out"
    key = "compatibility/computed"
    job_folder(out, key).mkdir(parents=True)
    write_result(out, key, JobResult(({"result": "solve", "inner_product": 1.0},), ABOUT))
    (out / "figures").mkdir()
    for name in ("methods-cifar100-small-data", "samples-digits-pictures-inputs", "compatibility"):
        (out / "figures" / f"{name}.png").write_bytes(DOT)
    folder = tmp_path / "results"
    commit_results(folder, read_committed(results))
    assert collect(folder, out) == 1
    names = {path.name for path in (folder / "figures").iterdir()}
    assert {"compatibility.png", "samples-digits-pictures-inputs.png"} <= names
    assert all(shows_no_data_set(name) for name in names)
    assert not any("cifar100-small-data" in name for name in names)
    assert "solve" in (folder / "report.md").read_text()


@pytest.mark.parametrize("recipe", ["cifar100-small-data", "tiny-imagenet-small"])
def test_what_was_trained_is_what_is_reported(results, tmp_path, recipe):
    """An error in the output folder is in every table of that run, and stays when collected."""
    out, folder = tmp_path / "out", tmp_path / "results"
    commit_results(folder, read_committed(results) | dict([trained(0, 20.0, recipe)]))
    key, planted = trained(0, 99.0, recipe)
    job_folder(out, key).mkdir(parents=True)
    write_result(out, key, planted)
    write_report(folder, out)
    ours = f"ours at small scale, `{recipe}` | - | - | - | - | - | 99.00 (1) |"
    assert ours in (out / "report.md").read_text()
    assert collect(folder, out) == 1
    assert ours in (folder / "report.md").read_text()


@pytest.mark.slow
def test_the_committed_report_is_made_of_the_committed_results(tmp_path):
    committed = Path(__file__).parents[3] / "docs" / "results"
    copy = shutil.copytree(committed, tmp_path / "results")
    assert collect(copy, tmp_path / "out") == 0
    for name in ("report.md", "runs.csv", "jobs.csv", "small-data.csv", "run-time.csv"):
        assert (copy / name).read_text() == (committed / name).read_text(), f"{name} is out of date"
