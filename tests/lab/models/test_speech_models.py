"""LeNet and VGG-11 for spectrograms: the sizes of their layers, and inputs of other sizes."""

import itertools

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from comixup.lab.models._paper import lenet, speech_vgg11
from problems import generator
from rejections import rejects

SPECTROGRAM = (1, 160, 100)


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_lenet_has_the_layers_of_the_original():
    # 20 maps of 37 x 22 places are left of 160 x 100, and of that code's 161 x 101 too.
    layers = (25 + 1) * 20 + (25 * 20 + 1) * 20 + (16280 + 1) * 1000 + (1000 + 1) * 30
    assert count(lenet(30)) == count(lenet(30, shape=(1, 161, 101))) == layers == 16_321_570


def test_vgg11_has_the_layers_of_the_original():
    widths = [1, 64, 128, 256, 256, 512, 512, 512, 512]
    convolutions = sum((9 * i + 1) * o + 2 * o for i, o in itertools.pairwise(widths))
    layers = convolutions + (7680 + 1) * 512 + (512 + 1) * 30
    assert count(speech_vgg11(30)) == count(speech_vgg11(30, shape=(1, 161, 101))) == layers


def test_vgg11_pools_after_1_1_2_2_and_2_convolutions():
    model = speech_vgg11(30)
    stages = [model.layer1, model.layer2, model.layer3, model.layer4, model.layer5]
    kinds = [[type(layer) for layer in stage] for stage in stages]
    assert kinds == [
        [nn.Conv2d, nn.BatchNorm2d, nn.ReLU] * number + [nn.MaxPool2d] for number in (1, 1, 2, 2, 2)
    ]


@pytest.mark.parametrize("make", [lenet, speech_vgg11])
@pytest.mark.parametrize("shape", [SPECTROGRAM, (1, 161, 101), (3, 32, 32), (2, 47, 64)], ids=str)
def test_takes_inputs_of_the_shape_it_was_built_for(make, shape):
    images = torch.rand(2, *shape, generator=generator(0))
    assert make(7, shape=shape)(images).shape == (2, 7)


def test_dropout_is_at_work_in_training_only():
    torch.manual_seed(0)
    model, images = lenet(7, shape=(1, 28, 28)), torch.rand(2, 1, 28, 28, generator=generator(0))
    assert not torch.equal(model(images), model(images))
    model.eval()
    assert_close(model(images), model(images), rtol=0, atol=0)


@pytest.mark.parametrize(("make", "smallest"), [(lenet, 16), (speech_vgg11, 32)])
def test_the_smallest_size_works_and_one_less_gets_an_error_message(make, smallest):
    shape = (1, smallest, smallest)
    assert make(7, shape=shape)(torch.rand(2, *shape)).shape == (2, 7)
    with rejects(ValueError, rf"`shape` must be at least {smallest} high and wide, got \(1, .*"):
        make(7, shape=(1, smallest, smallest - 1))
