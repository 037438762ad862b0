"""`comixup export`: compared on the run's test images, or on random ones where they are gone."""

import functools
import shutil

import pytest
import torch

from comixup.lab import models
from trained_folder import train_on_folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_on_folder(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def called(called):
    """Calls `comixup export`."""
    return functools.partial(called, "export")


@pytest.mark.slow
def test_a_run_is_exported_and_compared_on_its_test_images(called, trained):
    code, out, err = called(trained, "--to", "pt2")
    assert code == 0, err
    assert "logits of 6 test images differ" in out
    classifier, images = models.load(trained), torch.rand(3, 3, 32, 32)
    logits = torch.export.load(trained / "model.pt2").module()(images)
    expected = classifier.model(classifier.preprocessing.normalize(images))
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)


def test_random_images_are_compared_where_the_data_are_gone(called, trained, tmp_path):
    alone = shutil.copy(trained / "weights.safetensors", tmp_path / "mine.safetensors")
    code, out, err = called(alone, "--to", "pt2", "--out", "net.pt2")
    assert code == 0, err
    assert "The data were not found: random images are compared." in out
    assert "logits of 4 random images differ" in out
    assert (tmp_path / "net.pt2").is_file()
    assert called(alone, "--to", "pt2", "--data", "nowhere")[0] == 1
