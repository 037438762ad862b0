"""Records of runs: measured from a run's folder, kept as CSV."""

import dataclasses
import json
import math
import sys
from pathlib import Path

import pytest
import torch.nn.functional as F
from safetensors.torch import load_file

sys.path.append(str(Path(__file__).parents[1] / "training"))

from comixup.lab._calibration import Bin
from comixup.lab.evaluation import RunRecord, measure_run, merge_runs, read_runs, write_runs
from comixup.lab.evaluation._metrics import fit_temperature
from comixup.lab.training import RECIPES
from comixup.lab.training._mixers import passes_per_image
from small_runs import recipe, train_here, write_images


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A finished run with images held out."""
    data = write_images(tmp_path_factory.mktemp("images"))
    chosen = recipe(images_per_class=3, validation=0.4, validation_seed=0)
    chosen = dataclasses.replace(chosen, reported="last")
    return train_here(data, tmp_path_factory.mktemp("runs"), "comixup", chosen)


@pytest.fixture(scope="module")
def run(run_folder):
    return measure_run(run_folder)


def test_a_record_has_what_the_run_kept(run_folder, run):
    logits = load_file(run_folder / "logits.safetensors")
    test, targets = logits["test_logits"].double(), logits["test_targets"].long()
    found = run.metrics
    assert found["error"] == pytest.approx(100 * (test.argmax(1) != targets).double().mean().item())
    assert found["nll"] == pytest.approx(F.cross_entropy(test, targets).item(), rel=1e-2)
    held_out = logits["validation_logits"].float(), logits["validation_targets"].long()
    assert found["temperature"] == pytest.approx(fit_temperature(*held_out))
    scaled = F.cross_entropy(test / found["temperature"], targets).item()
    assert found["scaled_nll"] == pytest.approx(scaled, rel=1e-6)
    assert (run.method, run.seed, found["epochs"], found["passes"]) == ("comixup", 0, 3, 6.0)
    assert sum(row.count for row in run.bins) == len(targets)
    assert found["cpu_seconds"] > 0


def test_the_error_is_the_one_that_the_recipe_reports(run_folder, tmp_path):
    for name in ("run.json", "metrics.csv", "logits.safetensors"):
        (tmp_path / name).write_bytes((run_folder / name).read_bytes())
    result = json.loads((run_folder / "result.json").read_text())
    (tmp_path / "result.json").write_text(json.dumps({**result, "error": 99.0}))
    assert measure_run(tmp_path).metrics["error"] == 99.0


RUNS = [
    RunRecord("b", 1, {"epochs": 3.0, "error": 100 / 3, "train_error": math.nan}, "r"),
    RunRecord("b", 0, {"epochs": 3.0, "error": 20.0, "train_error": 5.0}, "r", commit="12e4567"),
    RunRecord("a", 10, {"error": 1.0, "brier": 0.5}, "r", bins=(Bin(3, 0.5, 1 / 3),)),
]


def test_runs_are_read_as_they_were_written(run, tmp_path):
    path = tmp_path / "new" / "runs.csv"
    write_runs([run, *RUNS], path)
    lines = path.read_text().splitlines()
    assert lines[0].startswith("recipe,method,seed,")
    assert lines[0].endswith(",commit,bins")
    found = read_runs(path)
    assert [each.key for each in found[-3:]] == [("r", "a", 10), ("r", "b", 0), ("r", "b", 1)]
    assert found[-3].metrics == {"error": 1.0, "brier": 0.5}
    assert found[-3].bins[0].accuracy == pytest.approx(1 / 3, rel=1e-4)
    assert found[-2].commit == "12e4567"
    assert found[-1].metrics["error"] == pytest.approx(100 / 3, rel=1e-6)
    assert math.isnan(found[-1].metrics["train_error"])
    assert found[0].metrics == pytest.approx(run.metrics, rel=1e-6, nan_ok=True)
    write_runs(found, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["small-data", "one-pass-modes", "small-data-first-network"])
def test_committed_tables_keep_their_bytes(name, tmp_path):
    path = Path(__file__).parents[3] / "docs" / "results" / f"{name}.csv"
    write_runs(read_runs(path), tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()


def test_a_run_that_is_collected_again_replaces_its_record(run):
    newer = dataclasses.replace(run, metrics={"error": 1.0})
    other = dataclasses.replace(run, seed=5)
    assert merge_runs([run, other], [newer]) == [newer, other]


@pytest.mark.parametrize(
    ("method", "passes"),
    [
        ("vanilla", 1),
        ("cutmix-p0.5", 1),
        ("cutmix-clean", 2),
        ("puzzlemix", 2),
        ("comixup", 2),
        ("comixup-no-clean", 2),
        ("comixup-small", 1.5),
        ("comixup-one-pass-double", 1),
    ],
)
def test_passes_are_counted(method, passes):
    assert passes_per_image(RECIPES["cifar100-small-data"].methods[method]) == passes


def test_wrong_files_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="`folder` must be that of a finished run"):
        measure_run(tmp_path)
    with pytest.raises(FileNotFoundError, match="`path` must be a table of runs"):
        read_runs(tmp_path / "runs.csv")
    (tmp_path / "runs.csv").write_text("recipe,method\na,b\n")
    with pytest.raises(ValueError, match="`path` must be a table of runs"):
        read_runs(tmp_path / "runs.csv")
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"run\.json must be a file that comixup wrote"):
        measure_run(tmp_path)
