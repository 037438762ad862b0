"""torchvision's classifiers: classes, channels, sizes, pretrained weights without a download."""

import sys

import pytest
import torch
import torchvision
from torch import nn
from torch.testing import assert_close

from comixup.lab.models import build
from comixup.lab.models._libraries import build_torchvision, torchvision_names
from problems import generator
from rejections import rejects

# One for each way of beginning and ending a network.
ARCHITECTURES = ["resnet18", "squeezenet1_1", "mobilenet_v3_small", "swin_t"]


def images(channels=3, size=(64, 64), count=2):
    return torch.rand(count, channels, *size, generator=generator(0))


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A folder in which torchvision finds 'downloaded' weights: those of an untrained model."""
    monkeypatch.setattr(torch.hub, "_hub_dir", str(tmp_path))
    (tmp_path / "checkpoints").mkdir()

    def save(name):
        torch.manual_seed(0)
        model = torchvision.models.get_model(name)
        url = torchvision.models.get_model_weights(name).DEFAULT.url
        torch.save(model.state_dict(), tmp_path / "checkpoints" / url.rpartition("/")[2])
        return model.eval()

    return save


def test_lists_classifiers_and_nothing_else():
    listed = torchvision_names()
    assert {"resnet50", "vgg16_bn", "vit_b_16"} <= set(listed)
    assert not {"fcn_resnet50", "raft_small", "r3d_18", "fasterrcnn_resnet50_fpn"} & set(listed)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_has_the_classes_asked_for(name):
    assert build_torchvision(name, 7).eval()(images()).shape == (2, 7)


@pytest.mark.parametrize("name", ["torchvision:vgg11_bn", "resnet50-imagenet"])
@pytest.mark.parametrize("pretrained", [False, True])
def test_three_channels_are_needed(name, pretrained):
    with rejects(ValueError, r"`shape` must have 3 channels .* got 1\. .*'timm:resnet50'"):
        build(name, 7, shape=(1, 64, 64), pretrained=pretrained)


def test_a_transformer_is_built_for_the_size_of_the_images():
    with torch.device("meta"):  # no memory for its 87 million weights
        model = build_torchvision("vit_b_32", 7, size=(64, 64))
        assert model(torch.rand(2, 3, 64, 64)).shape == (2, 7)
    with rejects(ValueError, r"`shape` must be square for torchvision's vit_b_32, got 64 x 96"):
        build_torchvision("vit_b_32", 7, size=(64, 96))


def test_pretrained_weights_are_loaded_and_the_head_is_new(cached):
    trained = cached("resnet18")
    torch.manual_seed(1)
    model = build_torchvision("resnet18", 7, pretrained=True).eval()
    assert model.fc.out_features == 7
    model.fc, trained.fc = nn.Identity(), nn.Identity()
    assert_close(model(images()), trained(images()), rtol=0, atol=0)


def test_pretrained_weights_of_as_many_classes_keep_their_head(cached):
    trained = cached("resnet18")
    torch.manual_seed(1)
    model = build_torchvision("resnet18", 1000, pretrained=True).eval()
    assert_close(model(images()), trained(images()), rtol=0, atol=0)


def test_a_head_that_is_a_convolution_is_replaced_too(cached):
    trained = cached("squeezenet1_1")
    model = build_torchvision("squeezenet1_1", 7, pretrained=True).eval()
    assert model(images()).shape == (2, 7)
    assert_close(model.features(images()), trained.features(images()), rtol=0, atol=0)


def test_without_torchvision_there_is_an_error_message(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with rejects(ModuleNotFoundError, r"torchvision must be installed .*comixup\[train\]"):
        build_torchvision("resnet18", 7)
