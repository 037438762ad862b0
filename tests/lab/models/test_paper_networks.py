"""The blocks, ends and first weights of the paper's networks, against their definitions."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close
from torchvision.models.resnet import Bottleneck

from comixup.lab.models._libraries import resnet50_imagenet
from comixup.lab.models._paper import (
    PreActBlock,
    ResNeXtBlock,
    WideBlock,
    lenet,
    preact_resnet,
    resnext,
    small,
    speech_vgg11,
    wide_resnet,
)
from problems import generator
from rejections import rejects

# ---- Pre-activation and wide blocks --------------------------------------------------------------


def block_and_maps(kind, inputs, outputs, stride):
    """Returns a block whose batch norms have seen something, and maps to put in."""
    torch.manual_seed(0)
    block = kind(inputs, outputs, stride).eval()
    for norm in (block.bn1, block.bn2):
        nn.init.uniform_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.5, 2.0)
    return block, torch.randn(2, inputs, 9, 7, generator=generator(0))


def active(x, norm):
    shape = (1, -1, 1, 1)
    scale = (norm.running_var + norm.eps).rsqrt().view(shape)
    return ((x - norm.running_mean.view(shape)) * scale).clamp(min=0)


SIZES = [(4, 4, 1), (4, 6, 1), (4, 4, 2)]


@pytest.mark.parametrize(("inputs", "outputs", "stride"), SIZES)
def test_a_pre_activation_block_is_what_he_et_al_describe(inputs, outputs, stride):
    block, maps = block_and_maps(PreActBlock, inputs, outputs, stride)
    first = active(maps, block.bn1)
    middle = F.conv2d(first, block.conv1.weight, stride=stride, padding=1)
    added = F.conv2d(active(middle, block.bn2), block.conv2.weight, padding=1)
    kept = maps if block.shortcut is None else F.conv2d(first, block.shortcut.weight, stride=stride)
    assert_close(block(maps), kept + added)
    assert (block.shortcut is None) == (inputs == outputs and stride == 1)


@pytest.mark.parametrize(("inputs", "outputs", "stride"), SIZES)
def test_a_wide_block_is_that_of_the_official_implementation(inputs, outputs, stride):
    block, maps = block_and_maps(WideBlock, inputs, outputs, stride)
    middle = F.conv2d(active(maps, block.bn1), block.conv1.weight, block.conv1.bias, padding=1)
    last = block.conv2
    added = F.conv2d(active(middle, block.bn2), last.weight, last.bias, stride, padding=1)
    kept = maps
    if inputs != outputs or stride != 1:
        kept = F.conv2d(maps, block.shortcut.weight, block.shortcut.bias, stride)
    assert_close(block(maps), kept + added)


def test_the_end_has_no_norm_unless_asked_for():
    images = torch.randn(4, 3, 32, 32, generator=generator(0))
    assert float(preact_resnet(5, width=4).features(images).detach().min()) < 0
    assert float(preact_resnet(5, width=4, final_norm=True).features(images).detach().min()) == 0


def test_the_small_network_halves_the_resolution_in_every_stage():
    model, sides = small(10, width=4), []
    for stage in (model.stem, model.layer1, model.layer2, model.layer3):
        stage.register_forward_hook(lambda module, inputs, output: sides.append(output.shape[-1]))
    model(torch.rand(2, 3, 32, 32))
    assert sides == [32, 16, 8, 4]


def test_the_last_batch_norm_has_the_official_momentum():
    model = wide_resnet(5, depth=10, width=1)
    norms = [m.momentum for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert (set(norms[:-1]), norms[-1]) == ({0.1}, 0.9)


# ---- ResNeXt and ResNet-50 -----------------------------------------------------------------------


@pytest.mark.parametrize(("inputs", "stride"), [(64, 1), (64, 2), (8, 1)])
def test_a_block_is_that_of_xie_et_al(inputs, stride):
    torch.manual_seed(0)
    block = ResNeXtBlock(inputs, 64, stride, groups=2, base_width=16).eval()
    maps = torch.randn(2, inputs, 9, 7, generator=generator(0))
    scale = (1 + block.bn1.eps) ** -0.5  # a batch norm that has seen nothing yet
    middle = (F.conv2d(maps, block.conv1.weight) * scale).clamp(min=0)
    assert middle.shape[1] == 2 * 4  # 16 / 64 of the stage's 16, in each group
    halves = [
        F.conv2d(half, weight, stride=stride, padding=1)
        for half, weight in zip(middle.chunk(2, 1), block.conv2.weight.chunk(2), strict=True)
    ]
    middle = (torch.cat(halves, 1) * scale).clamp(min=0)
    added = F.conv2d(middle, block.conv3.weight) * scale
    kept = maps
    if inputs != 64 or stride != 1:
        kept = F.conv2d(maps, block.shortcut[0].weight, stride=stride) * scale
    assert_close(block(maps), (kept + added).clamp(min=0))


def test_first_weights_follow_the_fan_out():
    torch.manual_seed(0)
    model = resnext(100)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            spread = math.sqrt(2 / (module.out_channels * module.kernel_size[0] ** 2))
            # The standard error of a spread is at most 1.7 % with the 1728 weights of the stem.
            assert_close(float(module.weight.detach().std()), spread, rtol=0.08, atol=0)
    assert_close(float(model.fc.weight.detach().std()), math.sqrt(2 / 1024), rtol=0.02, atol=0)
    assert not model.fc.bias.any()


def test_every_block_begins_as_the_identity_and_the_head_small():
    torch.manual_seed(0)
    model = resnet50_imagenet(1000)
    blocks = [module for module in model.modules() if isinstance(module, Bottleneck)]
    assert len(blocks) == 3 + 4 + 6 + 3
    for block in blocks:
        assert not block.bn3.weight.any()
        assert block.bn1.weight.all()
        assert block.bn2.weight.all()
    assert_close(float(model.fc.weight.detach().std()), 0.01, rtol=0.01, atol=0)


# ---- Spectrograms --------------------------------------------------------------------------------


def test_vgg11_pools_after_1_1_2_2_and_2_convolutions():
    model = speech_vgg11(30)
    stages = [model.layer1, model.layer2, model.layer3, model.layer4, model.layer5]
    kinds = [[type(layer) for layer in stage] for stage in stages]
    assert kinds == [
        [nn.Conv2d, nn.BatchNorm2d, nn.ReLU] * number + [nn.MaxPool2d] for number in (1, 1, 2, 2, 2)
    ]


@pytest.mark.parametrize("make", [lenet, speech_vgg11])
@pytest.mark.parametrize("shape", [(1, 161, 101), (3, 32, 32), (2, 47, 64)], ids=str)
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
