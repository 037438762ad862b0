"""timm's classifiers: classes, channels and sizes, and an error message where timm is missing."""

import sys

import pytest
import torch

from comixup.lab.models import build
from comixup.lab.models._libraries import build_timm
from problems import generator
from rejections import rejects


@pytest.mark.parametrize("name", ["resnet10t", "vit_tiny_patch16_224", "mobilenetv3_small_050"])
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 64, 48)], ids=str)
def test_has_the_classes_channels_and_size_asked_for(name, shape):
    model = build_timm(name, 7, shape=shape).eval()
    assert model(torch.rand(2, *shape, generator=generator(0))).shape == (2, 7)


def test_a_tag_of_weights_may_follow_the_name():
    model = build("timm:vit_tiny_patch16_224.augreg_in21k", 7, shape=(3, 32, 32))
    assert model.num_classes == 7
    assert model.patch_embed.img_size == (32, 32)


@pytest.fixture
def no_timm(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)


@pytest.mark.usefixtures("no_timm")
def test_without_timm_there_is_an_error_message():
    with rejects(ModuleNotFoundError, r"timm must be installed .*Run: pip install timm"):
        build("timm:resnet10t", 7)


@pytest.mark.usefixtures("no_timm")
def test_without_timm_other_names_are_found_and_unknown_ones_say_what_is_missing():
    assert build("small", 7).fc.out_features == 7
    assert build("resnet18", 7).fc.out_features == 7
    message = r"`name` must be of a known network, got 'resnet10t'. .*pip install timm"
    with rejects(ValueError, message):
        build("resnet10t", 7)
