"""ResNeXt: sizes by formula and as published, the block by hand, the first weights."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from comixup.lab.models._paper import ResNeXtBlock, resnext
from problems import generator

MILLION = 1_000_000


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def block_size(inputs, outputs, inner, groups, projected):
    """Weights of a block: 1 x 1, grouped 3 x 3, 1 x 1, their batch norms and the projection's."""
    convolutions = inputs * inner + 9 * inner * inner // groups + inner * outputs
    norms = 2 * (inner + inner + outputs)
    return convolutions + norms + (inputs * outputs + 2 * outputs) * projected


def network_size(classes, depth, groups, base_width, channels=3):
    total, inputs = 9 * channels * 64 + 2 * 64, 64
    for k in range(3):
        outputs, inner = 256 * 2**k, groups * base_width * 2**k
        total += block_size(inputs, outputs, inner, groups, projected=True)
        more = (depth - 2) // 9 - 1
        total += more * block_size(outputs, outputs, inner, groups, projected=False)
        inputs = outputs
    return total + (inputs + 1) * classes


@pytest.mark.parametrize(("depth", "groups", "base_width"), [(29, 4, 24), (11, 2, 4), (20, 1, 8)])
@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("channels", [1, 3])
def test_has_the_size_that_its_formula_gives(depth, groups, base_width, classes, channels):
    model = resnext(
        classes, depth=depth, groups=groups, base_width=base_width, in_channels=channels
    )
    assert count(model) == network_size(classes, depth, groups, base_width, channels)


@pytest.mark.parametrize(("groups", "millions"), [(8, 34.4), (16, 68.1)])
def test_has_the_published_size(groups, millions):
    # Xie et al., arXiv:1611.05431, table 7: ResNeXt-29, 8 x 64d and 16 x 64d on CIFAR-10.
    with torch.device("meta"):
        model = resnext(10, groups=groups, base_width=64)
    assert abs(count(model) / MILLION - millions) < 0.06


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


@pytest.mark.parametrize(("side", "stem_stride"), [(32, 1), (64, 2)])
def test_the_mean_over_the_image_is_the_released_8_by_8_window(side, stem_stride):
    model = resnext(5, depth=11, groups=2, base_width=4, stem_stride=stem_stride).eval()
    images = torch.rand(2, 3, side, side, generator=generator(0))
    windows = F.avg_pool2d(model.features(images), 8)
    assert windows.shape[2:] == (1, 1)
    assert_close(model(images), model.fc(windows.flatten(1)))
