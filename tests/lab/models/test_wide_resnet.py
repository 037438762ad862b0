"""Wide ResNets: sizes by formula and as published, the official implementation's block by hand."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from comixup.lab.models._paper import WideBlock, wide_resnet
from problems import generator

MILLION = 1_000_000


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def block_size(inputs, outputs, projected):
    """Weights of a block: two biased 3 x 3 convolutions, two batch norms, the projection."""
    convolutions = (9 * inputs + 1) * outputs + (9 * outputs + 1) * outputs
    return convolutions + 2 * inputs + 2 * outputs + (inputs + 1) * outputs * projected


def network_size(classes, depth, width, channels=3):
    total, inputs = (9 * channels + 1) * 16, 16
    for k in range(3):
        outputs = 16 * width * 2**k
        total += block_size(inputs, outputs, projected=inputs != outputs)
        total += ((depth - 4) // 6 - 1) * block_size(outputs, outputs, projected=False)
        inputs = outputs
    return total + 2 * inputs + (inputs + 1) * classes


@pytest.mark.parametrize(("depth", "width"), [(16, 8), (10, 1), (22, 2)])
@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("channels", [1, 3])
def test_has_the_size_that_its_formula_gives(depth, width, classes, channels):
    model = wide_resnet(classes, depth=depth, width=width, in_channels=channels)
    assert count(model) == network_size(classes, depth, width, channels)


@pytest.mark.parametrize(
    ("depth", "width", "millions"), [(16, 8, 11.0), (28, 10, 36.5), (40, 4, 8.9)]
)
def test_has_the_published_size(depth, width, millions):
    # Zagoruyko and Komodakis, arXiv:1605.07146, tables 4 and 5, on CIFAR-10. They have no biases
    # in convolutions, which are about 6000 of the weights here; the table has one decimal.
    model = wide_resnet(10, depth=depth, width=width)
    assert abs(count(model) / MILLION - millions) < 0.06


@pytest.mark.parametrize(("inputs", "outputs", "stride"), [(4, 4, 1), (4, 6, 1), (4, 4, 2)])
def test_a_block_is_that_of_the_released_code(inputs, outputs, stride):
    torch.manual_seed(0)
    block = WideBlock(inputs, outputs, stride).eval()
    for norm in (block.bn1, block.bn2):
        nn.init.uniform_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.5, 2.0)
    maps = torch.randn(2, inputs, 9, 7, generator=generator(0))

    def active(x, norm):
        shape = (1, -1, 1, 1)
        scale = (norm.running_var + norm.eps).rsqrt().view(shape)
        return ((x - norm.running_mean.view(shape)) * scale).clamp(min=0)

    middle = F.conv2d(active(maps, block.bn1), block.conv1.weight, block.conv1.bias, padding=1)
    last = block.conv2
    added = F.conv2d(active(middle, block.bn2), last.weight, last.bias, stride, padding=1)
    kept = maps
    if inputs != outputs or stride != 1:
        kept = F.conv2d(maps, block.shortcut.weight, block.shortcut.bias, stride)
    assert_close(block(maps), kept + added)


def test_the_last_batch_norm_has_the_released_momentum():
    model = wide_resnet(5, depth=10, width=1)
    norms = [m.momentum for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert (set(norms[:-1]), norms[-1]) == ({0.1}, 0.9)


@pytest.mark.parametrize(("side", "stem_stride"), [(32, 1), (64, 2)])
def test_the_mean_over_the_image_is_the_released_8_by_8_window(side, stem_stride):
    model = wide_resnet(5, depth=10, width=1, stem_stride=stem_stride).eval()
    images = torch.rand(2, 3, side, side, generator=generator(0))
    windows = F.avg_pool2d(model.features(images), 8)
    assert windows.shape[2:] == (1, 1)
    assert_close(model(images), model.fc(windows.flatten(1)))
