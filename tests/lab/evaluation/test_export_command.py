"""`comixup export` of a run, and of its weights alone."""

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
def test_a_run_is_exported(called, trained):
    code, out, err = called(trained, "--to", "pt2")
    assert code == 0, err
    assert "logits of 4 random images differ" in out
    classifier, images = models.load(trained), torch.rand(3, 3, 32, 32)
    logits = torch.export.load(trained / "model.pt2").module()(images)
    expected = classifier.model(classifier.preprocessing.normalize(images))
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)


def test_weights_alone_are_exported(called, trained, tmp_path):
    alone = shutil.copy(trained / "weights.safetensors", tmp_path / "mine.safetensors")
    code, out, err = called(alone, "--to", "pt2", "--out", "net.pt2")
    assert code == 0, err
    assert "logits of 4 random images differ" in out
    assert (tmp_path / "net.pt2").is_file()
