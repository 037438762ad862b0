"""Pre-activation ResNets: sizes by formula, the block by hand, the end with and without a norm."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from comixup.lab.models._paper import (
    RESNET34_BLOCKS,
    PreActBlock,
    preact_resnet,
    small,
)
from problems import generator


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def block_size(inputs, outputs, projected):
    """Weights of a block: two 3 x 3 convolutions, two batch norms and the projection."""
    convolutions = 9 * inputs * outputs + 9 * outputs * outputs
    return convolutions + 2 * inputs + 2 * outputs + inputs * outputs * projected


def network_size(classes, blocks, width, channels, first_projected=False, final_norm=False):
    total, inputs, outputs = 9 * channels * width, width, width
    for k, number in enumerate(blocks):
        total += block_size(inputs, outputs, projected=k > 0 or first_projected)
        total += (number - 1) * block_size(outputs, outputs, projected=False)
        inputs, outputs = outputs, 2 * outputs
    return total + 2 * inputs * final_norm + (inputs + 1) * classes


@pytest.mark.parametrize("classes", [10, 100, 200])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("final_norm", [False, True])
def test_preactresnet18_has_the_size_that_its_formula_gives(classes, channels, final_norm):
    model = preact_resnet(classes, in_channels=channels, final_norm=final_norm)
    expected = network_size(classes, (2, 2, 2, 2), 64, channels, final_norm=final_norm)
    assert count(model) == expected


def test_preactresnet18_has_about_the_published_size():
    # 11.2 million with 10 classes; the formula above gives 11 171 146.
    assert count(preact_resnet(10)) == network_size(10, (2, 2, 2, 2), 64, 3) == 11_171_146


def test_34_layers_have_the_size_that_the_formula_gives():
    assert count(preact_resnet(100, blocks=RESNET34_BLOCKS)) == network_size(
        100, (3, 4, 6, 3), 64, 3
    )


def test_the_small_network_is_small_and_projects_in_every_stage():
    expected = network_size(100, (1, 1, 1), 32, 3, first_projected=True, final_norm=True)
    assert count(small(100)) == expected < 350_000


@pytest.mark.parametrize(("inputs", "outputs", "stride"), [(4, 4, 1), (4, 6, 1), (4, 4, 2)])
def test_a_block_is_what_he_et_al_describe(inputs, outputs, stride):
    torch.manual_seed(0)
    block = PreActBlock(inputs, outputs, stride).eval()
    for norm in (block.bn1, block.bn2):
        nn.init.uniform_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.5, 2.0)
    maps = torch.randn(2, inputs, 9, 7, generator=generator(0))

    def active(x, norm):
        shape = (1, -1, 1, 1)
        scale = (norm.running_var + norm.eps).rsqrt().view(shape)
        return ((x - norm.running_mean.view(shape)) * scale).clamp(min=0)

    first = active(maps, block.bn1)
    middle = F.conv2d(first, block.conv1.weight, stride=stride, padding=1)
    added = F.conv2d(active(middle, block.bn2), block.conv2.weight, padding=1)
    kept = maps if block.shortcut is None else F.conv2d(first, block.shortcut.weight, stride=stride)
    assert_close(block(maps), kept + added)
    assert (block.shortcut is None) == (inputs == outputs and stride == 1)


def test_the_end_has_no_norm_unless_asked_for():
    images = torch.randn(4, 3, 32, 32, generator=generator(0))
    assert float(preact_resnet(5, width=4).features(images).detach().min()) < 0
    assert float(preact_resnet(5, width=4, final_norm=True).features(images).detach().min()) == 0


@pytest.mark.parametrize(("side", "stem_stride"), [(32, 1), (64, 2)])
def test_the_mean_over_the_image_is_the_released_4_by_4_window(side, stem_stride):
    model = preact_resnet(5, width=4, stem_stride=stem_stride).eval()
    images = torch.rand(2, 3, side, side, generator=generator(0))
    windows = F.avg_pool2d(model.features(images), 4)
    assert windows.shape[2:] == (1, 1)
    assert_close(model(images), model.fc(windows.flatten(1)))


def test_the_small_network_halves_the_resolution_in_every_stage():
    model, sides = small(10, width=4), []
    for stage in (model.stem, model.layer1, model.layer2, model.layer3):
        stage.register_forward_hook(lambda module, inputs, output: sides.append(output.shape[-1]))
    model(torch.rand(2, 3, 32, 32))
    assert sides == [32, 16, 8, 4]
