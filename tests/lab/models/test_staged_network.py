"""The network that the residual ones share: named parts, any image size, a mean at the end."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from comixup.lab.models._paper import StagedNetwork, chain
from problems import generator


def network(norm=None):
    stages = [nn.Conv2d(4, 6, 3, 2), nn.Conv2d(6, 8, 3, 2)]
    return StagedNetwork(nn.Conv2d(3, 4, 3), stages, channels=8, num_classes=5, norm=norm)


def test_parts_are_named_in_the_order_in_which_they_run():
    names = [name for name, _ in network().named_children()]
    assert names == ["stem", "layer1", "layer2", "norm", "avgpool", "fc"]


@pytest.mark.parametrize("norm", [None, nn.ReLU()], ids=["without norm", "with norm"])
def test_runs_its_parts_one_after_the_other(norm):
    model, images = network(norm), torch.rand(2, 3, 23, 17, generator=generator(0))
    maps = model.layer2(model.layer1(model.stem(images)))
    maps = maps if norm is None else F.relu(maps)
    assert_close(model.features(images), maps)
    assert_close(model(images), model.fc(maps.mean((2, 3))))


def test_what_goes_into_the_mean_and_the_head_make_class_activation_maps():
    # The score of a class is the mean of its map, plus the bias: what localization builds on.
    model, images = network(), torch.rand(2, 3, 20, 20, generator=generator(0))
    seen = []
    model.avgpool.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    scores = model(images)
    maps = torch.einsum("kc,bchw->bkhw", model.fc.weight, seen[0])
    assert_close(maps.mean((2, 3)) + model.fc.bias, scores)


def test_a_chain_has_the_stride_and_the_wider_output_in_its_first_block():
    made = []

    def block(inputs, outputs, stride):
        made.append((inputs, outputs, stride))
        return nn.Identity()

    assert len(chain(block, 3, 4, 8, 2)) == 3
    assert made == [(4, 8, 2), (8, 8, 1), (8, 8, 1)]
