"""Exported networks give the logits of the network that was trained, in other programs too."""

import importlib
import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from comixup.lab import models
from comixup.lab.models import _export

SHAPE = (3, 32, 48)


def classifier_of(model, name="mine", shape=SHAPE, classes=tuple("abc")):
    mean, std = (0.4, 0.5, 0.6)[: shape[0]], (0.2, 0.25, 0.3)[: shape[0]]
    preprocessing = models.Preprocessing(shape, mean, std, resize=73)
    return models.Classifier(
        model.eval(), name, len(classes), shape, "here", None, None, classes, None, preprocessing
    )


@pytest.fixture
def classifier():
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return classifier_of(nn.Sequential(*layers, nn.Linear(4, 3)))


@pytest.fixture
def images():
    return torch.rand(5, *SHAPE, generator=torch.Generator().manual_seed(1))


def expected(classifier, images):
    """Returns the logits, normalized as the preprocessing says."""
    mean = torch.tensor(classifier.preprocessing.mean)[:, None, None]
    std = torch.tensor(classifier.preprocessing.std)[:, None, None]
    return classifier.model((images - mean) / std).detach()


@pytest.mark.slow
def test_onnx(classifier, images, tmp_path):
    import onnxruntime  # noqa: PLC0415  (takes a second, and the other tests do not need it)

    found = models.export(classifier, tmp_path / "new" / "net.onnx", "onnx", images)
    assert (found.path, found.images) == (tmp_path / "new" / "net.onnx", 5)
    assert found.difference < 1e-5
    session = onnxruntime.InferenceSession(str(found.path))
    (given,), (result,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.shape, result.name) == ("images", ["batch", *SHAPE], "logits")
    for count in (1, 5):
        (logits,) = session.run(None, {"images": images[:count].numpy()})
        wanted = expected(classifier, images[:count]).numpy()
        np.testing.assert_allclose(logits, wanted, rtol=1e-4, atol=1e-5)
    about = json.loads(session.get_modelmeta().custom_metadata_map["comixup"])
    assert (about["classes"], about["resize"], about["crop"]) == (["a", "b", "c"], 73, [32, 48])
    assert [path.name for path in found.path.parent.iterdir()] == ["net.onnx"]


OWN_SHAPES = {"lenet": (1, 160, 100), "vgg11-speech": (1, 160, 100)}
OTHERS = ["efficientnet-lite0", "torchvision:vit_b_32", "timm:vit_tiny_patch16_224"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*models.names(), *OTHERS])
def test_every_network_in_onnx(name, tmp_path):
    """`export` runs the file with onnxruntime and compares its logits with torch's."""
    torch.manual_seed(0)
    shape = OWN_SHAPES.get(name, (3, 64, 64))
    model = models.build(name, 3, shape=shape)
    model.train()(torch.rand(8, *shape))  # running statistics of batch norm as after training
    for weight in model.parameters():
        if not weight.any():  # the head of torchvision's transformers, and biases
            nn.init.normal_(weight, std=0.02)
    model.to(memory_format=torch.channels_last)  # as `load` returns it
    classifier = classifier_of(model, name, shape)
    found = models.export(classifier, tmp_path / "net.onnx", "onnx")
    assert found.difference < 1e-4 * expected(classifier, torch.rand(4, *shape)).abs().max()
    assert found.path.stat().st_size > sum(weight.nbytes for weight in model.parameters())


def test_pt2(classifier, images, tmp_path):
    found = models.export(classifier, tmp_path / "net.pt2", "pt2", images)
    about = {"comixup.json": ""}
    program = torch.export.load(found.path, extra_files=about)
    logits = program.module()(images[:3])
    torch.testing.assert_close(logits, expected(classifier, images[:3]))
    assert json.loads(about["comixup.json"])["mean"] == [0.4, 0.5, 0.6]


def test_other_formats_are_rejected(classifier, tmp_path):
    with pytest.raises(ValueError, match="`to` must be one of"):
        models.export(classifier, tmp_path / "x", "tflite")


@pytest.mark.parametrize("wrong", [lambda out: out + 0.1, lambda out: out * math.nan])
def test_a_file_that_differs_is_rejected_and_not_left(
    classifier, images, tmp_path, monkeypatch, wrong
):
    read = _export._read_pt2

    def reading(path):
        run = read(path)
        return lambda images: wrong(run(images))

    monkeypatch.setattr(_export, "_read_pt2", reading)
    with pytest.raises(RuntimeError, match="`path` must give the network's logits, but"):
        models.export(classifier, tmp_path / "net.pt2", "pt2", images)
    assert list(tmp_path.iterdir()) == []


def test_onnx_is_asked_for_where_it_is_missing(classifier, tmp_path, monkeypatch):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ModuleNotFoundError, match=r"onnx must be installed.*comixup\[export\]"):
        models.export(classifier, tmp_path / "net.onnx", "onnx")
