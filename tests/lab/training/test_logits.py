"""The logits that a finished run leaves, and what is measured of them."""

import json

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from cases import each_case
from comixup.lab import models
from comixup.lab.data import load
from comixup.lab.evaluation import measure, predict
from comixup.lab.training import Hardware, TrainingStopped
from comixup.lab.training._export import logits_bytes, read_logits
from comixup.lab.training._folder import LOGITS, RESULT, WEIGHTS
from comixup.lab.training._measures import measures
from comixup.lab.training._trainer import Trainer
from problems import generator
from small_runs import CLASSES, recipe, train_here


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    chosen = recipe(images_per_class=3, validation=0.2, validation_seed=7)
    return train_here(data, tmp_path_factory.mktemp("out"), "comixup", chosen)


def test_a_run_leaves_the_logits_of_its_last_weights(folder, data):
    model = models.build("lenet", CLASSES)
    model.load_state_dict(load_file(folder / WEIGHTS))
    model.eval()
    found = read_logits(folder / LOGITS)
    assert list(found) == ["test", "validation"]
    loaded = load("cifar100", data, images_per_class=3, validation=0.2, validation_seed=7)
    for name, (logits, targets) in found.items():
        split = loaded.splits[name]
        ((images, classes),) = split.loader(100).epoch(0)
        with torch.no_grad():
            expected = model(images.contiguous(memory_format=torch.channels_last))
        assert_close(logits, expected, rtol=2e-3, atol=1e-4)  # kept in half precision
        assert_close(targets, classes)


def test_a_result_has_measures_that_evaluation_agrees_with(folder):
    result = json.loads((folder / RESULT).read_text())
    assert result["cpu_seconds"] > 0
    found = read_logits(folder / LOGITS)
    for name, (logits, targets) in found.items():
        loader = [(logits, targets)]
        metrics = measure(predict(torch.nn.Identity(), loader))
        prefix = {"test": "", "validation": "validation_"}[name]
        error = "final_error" if name == "test" else "validation_error"
        assert result[f"{prefix}images"] == len(targets)
        assert result[error] == pytest.approx(metrics.error)
        assert result[f"{prefix}nll"] == pytest.approx(metrics.nll, rel=1e-2)
        assert result[f"{prefix}ece"] == pytest.approx(metrics.ece, abs=1)  # in half precision
    assert result["final_error"] == pytest.approx(result["last_error"])


def test_measures_equal_the_metrics_of_evaluation():
    logits = 3 * torch.randn(500, 7, generator=generator(0))
    targets = torch.randint(7, (500,), generator=generator(1))
    metrics = measure(predict(torch.nn.Identity(), [(logits, targets)]))
    found = measures(logits, targets)
    assert found["error"] == pytest.approx(metrics.error)
    assert found["nll"] == pytest.approx(metrics.nll, rel=1e-6)
    assert found["ece"] == pytest.approx(metrics.ece, rel=1e-4)
    assert found["nll"] == pytest.approx(F.cross_entropy(logits, targets).item(), rel=1e-6)


@each_case("labels", [0, 1, 2])
def test_labels_that_no_test_image_has_count_for_nothing(labels):
    logits = torch.tensor([[3.0, -1.0, 0.5], [-2.0, 1.0, 0.4], [1.0, 2.0, -3.0]])
    targets = torch.zeros(3, 3)
    targets[0, :labels] = 1
    found = measures(logits, targets)
    assert found["error"] >= 0
    if labels == 0:
        assert "mean_average_precision" not in found
    else:  # the image with the first label comes first of three; that with the second comes last
        expected = {1: 1.0, 2: (1 + 1 / 3) / 2}[labels]
        assert found["mean_average_precision"] == pytest.approx(100 * expected)


def test_logits_are_kept_in_two_bytes_and_huge_ones_are_cut_off(tmp_path):
    logits = torch.tensor([[1e30, -1e30, 0.5]])
    content = logits_bytes({"test": (logits, torch.tensor([2]))})
    (tmp_path / "x").write_bytes(content)
    values, targets = read_logits(tmp_path / "x")["test"]
    assert_close(values, torch.tensor([[65504.0, -65504.0, 0.5]]))
    assert targets.tolist() == [2]
    large = logits_bytes({"test": (torch.zeros(1000, 100), torch.zeros(1000).long())})
    assert len(large) < 1000 * (2 * 100 + 4) + 1000


BAD = {
    "other shapes": {"test_logits": torch.zeros(3, 2), "test_targets": torch.zeros(2).int()},
    "no images": {"test_logits": torch.zeros(0, 2), "test_targets": torch.zeros(0).int()},
    "a class without logits": {"test_logits": torch.zeros(1, 2), "test_targets": torch.tensor([2])},
    "a negative class": {"test_logits": torch.zeros(1, 2), "test_targets": torch.tensor([-1])},
    "no classes": {"test_logits": torch.zeros(1, 2)},
    "not a number": {
        "test_logits": torch.full((1, 2), torch.nan),
        "test_targets": torch.tensor([0]),
    },
}


@each_case("case", BAD)
def test_other_files_are_rejected(case, tmp_path):
    save_file(BAD[case], tmp_path / "x")
    with pytest.raises(ValueError, match=r"`path` must be a file of logits that comixup wrote"):
        read_logits(tmp_path / "x")


def test_damaged_and_missing_files_are_rejected(tmp_path):
    (tmp_path / "x").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="is damaged or something else"):
        read_logits(tmp_path / "x")
    with pytest.raises(FileNotFoundError, match="must be a file that a finished run left"):
        read_logits(tmp_path / "y")


# ---- Files that follow from their content -------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "ema"), [("bf16-true", 0.9), ("64-true", None), ("bf16-mixed", None)]
)
def test_runs_in_other_precisions_are_measured(data, tmp_path, precision, ema):
    hardware = Hardware(accelerator="cpu", precision=precision)
    folder = train_here(data, tmp_path, "comixup", recipe(epochs=1, ema=ema), hardware)
    logits, _ = read_logits(folder / LOGITS)["test"]
    assert logits.isfinite().all()
    assert 0 <= json.loads((folder / RESULT).read_text())["final_error"] <= 100


def test_a_network_that_gives_no_numbers_stops_the_run(data, tmp_path, monkeypatch):
    broken = (torch.full((2, CLASSES), torch.nan), torch.zeros(2, dtype=torch.int64))
    monkeypatch.setattr(Trainer, "final_logits", lambda *_: {"test": broken})
    with pytest.raises(TrainingStopped, match="outputs for the test images are infinite or not"):
        train_here(data, tmp_path, "vanilla", recipe(epochs=1))
    monkeypatch.undo()
    folder = train_here(data, tmp_path, "vanilla", recipe(epochs=1))  # resumes and finishes
    assert (folder / RESULT).exists()
