"""`comixup train PATH`: real calls on a folder of images."""

import csv
import json
import re

import numpy as np
import pytest
from PIL import Image

TINY = ["--model", "small", "--width", "8", "--image-size", "16", "--batch-size", "4"]


@pytest.fixture
def columns():
    return 300


@pytest.fixture
def pets(tmp_path):
    for number in range(10):
        folder = tmp_path / "pets" / ("cat" if number % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "pets"


def test_a_folder_is_trained_on_evaluated_and_predicted(called, pets, tmp_path):
    words = ["train", pets, "--method", "vanilla", "comixup", "--epochs", 1, "--workers", 0, *TINY]
    code, out, err = called(*words)
    assert code == 0, err
    assert "pets: 8 train, 2 test images of 2 classes; shorter side 20 pixels (median)" in out
    assert "Training at 16 x 16 pixels: small with random weights; 1 epoch of 2 steps" in out
    assert "pets: top-1 error on the test images" in out
    assert "pets: error of each class" in out
    assert "paper" not in out
    run = tmp_path / "runs/pets/comixup/seed-0"
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    code, out, err = called("evaluate", run)
    assert code == 0, err
    assert f"{float(rows[-1]['test_error']):.2f}" in out
    assert "comixup, seed 0 on pets" in out
    code, out, err = called("predict", run, pets / "cat")
    assert code == 0, err
    assert "cat" in out


@pytest.mark.filterwarnings("ignore:2 of 10 images of pets are left out")
def test_damaged_files_are_listed_at_once_and_left_out_on_request(called, pets, tmp_path):
    bad = [pets / "cat" / "1.png", pets / "dog" / "4.png"]
    for path in bad:
        path.write_bytes(path.read_bytes()[:200])
    words = ["train", pets, "--method", "vanilla", "--epochs", 1, "--workers", 0, *TINY]
    code, _, err = called(*words)
    assert code == 1
    assert all(str(path) in err for path in bad)
    assert "2 of 10 images of pets cannot be used" in err
    assert not (tmp_path / "runs/pets/vanilla").exists()
    code, out, err = called(*words, "--skip-bad")
    assert code == 0, err
    (told,) = (tmp_path / "runs/pets").glob("vanilla*/seed-0/run.json")
    left_out = json.loads(told.read_text())["left_out"]
    assert [str(path) in line for path, line in zip(bad, left_out, strict=True)] == [True, True]
    code, out, err = called("evaluate", told.parent)
    assert code == 0, err
    assert "on pets" in out


def test_evaluation_of_few_epochs(called, pets, tmp_path):
    words = ["train", pets, "--method", "vanilla", "--epochs", 3, "--workers", 0, *TINY]
    code, _, err = called(*words, "--evaluate-every", 2)
    assert code == 0, err
    (metrics,) = (tmp_path / "runs/pets").glob("vanilla*/seed-0/metrics.csv")
    with metrics.open() as file:
        assert [bool(row["test_error"]) for row in csv.DictReader(file)] == [False, True, True]


@pytest.mark.slow
def test_tune_takes_a_folder_too(called, pets):
    words = ["tune", pets, "--method", "cutmix", "--epochs", 1, "--workers", 0, *TINY]
    code, out, err = called(*words, "--validation", 0.3)
    assert code == 0, err
    assert re.search(r"^ *alpha +0\.2 ", out, re.MULTILINE)


MISTAKES = {
    "a path that is not there": (["train", "pest"], "`recipe` must be the name of one .* or the"),
    "images twice": (["train", "pets", "--data", "."], "`--data` must be left out where images"),
    "runs among the images": (["train", "pets", "--out", "pets/runs"], "`--out` must lie outside"),
    "no images": (["train", "folder"], "must be given its images, got none"),
    "no image size": (["train", "pets", "--image-size", "0"], "`image_size` must be"),
    "nothing to freeze": (
        ["train", "pets", "--freeze", "norms"],
        '`freeze` must be "none" for a network',
    ),
    "two beginnings": (
        ["train", "pets", "--no-pretrained", "--pretrained"],
        "`--no-pretrained` must be left out with --pretrained",
    ),
    "no rate": (["train", "pets", "--head-lr", "0"], "`head_lr` must be"),
    "never": (["train", "pets", "--evaluate-every", "0"], "`evaluate_every` must be"),
    "images smaller than the stride": (
        ["train", "digits", "--model", "efficientnet-lite0", "--pretrained"],
        "`shape` must have 32 x 32 pixels at least for efficientnet-lite0, .* got 28 x 28",
    ),
    "no such weights": (["train", "pets", "--weights", "no.pt"], "there is no no.pt"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_before_anything_is_trained(called, pets, tmp_path, mistake):
    words, message = MISTAKES[mistake]
    code, _, err = called(*words)
    assert code == 1
    assert err.count("\n") == 1
    assert re.search(message, err), err
    assert not list(tmp_path.rglob("run.json"))


PHOTOGRAPHS = ["--epochs", "1", "--workers", "0", "--batch-size", "4", "--image-size", "32"]


def test_few_photographs_are_fine_tuned_on_and_a_run_keeps_that(
    called, tmp_path, monkeypatch, recwarn
):
    for number in range(8):
        folder = tmp_path / "photos" / ("cat" if number % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (70, 70, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    words = ["train", tmp_path / "photos", *PHOTOGRAPHS]
    code, out, err = called(*words)
    assert code == 0, err
    assert "Fine-tuning efficientnet-lite0, trained on ImageNet" in out
    assert "--no-pretrained begins with random weights" in out
    assert "its batch-norm statistics frozen" in out
    run = tmp_path / "runs/photos/vanilla/seed-0"  # without mixing
    recorded = json.loads((run / "run.json").read_text())["recipe"]
    assert (recorded["model"], recorded["pretrained"]) == ("efficientnet-lite0", True)
    weights = (run / "weights.safetensors").read_bytes()

    monkeypatch.setattr("comixup.lab.models.weights_are_installed", lambda name: False)
    code, out, err = called(*words)  # the package is gone, and the run is the same
    assert code == 0, err
    assert (run / "weights.safetensors").read_bytes() == weights

    code, out, err = called(*words, "--out", "others")
    assert code == 0, err
    assert "pip install 'comixup[pretrained]'" in out
    assert (tmp_path / "others/photos/input-or-cutmix/seed-0/weights.safetensors").exists()

    code, out, err = called(*words, "--no-pretrained", "--out", "chosen", "--method", "vanilla")
    assert code == 0, err
    assert "pretrained" not in out
    recorded = json.loads((tmp_path / "chosen/photos/vanilla/seed-0/run.json").read_text())
    assert (recorded["recipe"]["pretrained"], recorded["recipe"]["freeze"]) == (False, "none")


def test_tune_holds_out_images_of_a_folder(called, pets, tmp_path):
    words = ["tune", pets, "--method", "cutmix", "--epochs", 1, "--workers", 0, *TINY]
    code, _, err = called(*words)
    assert code == 0, err
    results = [*(tmp_path / "runs/pets-tune").glob("*/seed-0/result.json")]
    assert len(results) == 3
    assert all("validation_error" in json.loads(path.read_text()) for path in results)


def test_a_method_is_suggested_by_its_title(called, pets):
    code, _, err = called("train", pets, "--method", "mixup")
    assert code == 1
    assert "Did you mean input (Input mixup) or manifold (Manifold mixup)?" in err
