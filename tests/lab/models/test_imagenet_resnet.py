"""ResNet-50 for ImageNet: the published size, and the recipe's first weights."""

import torch
from torch import nn
from torch.testing import assert_close
from torchvision.models.resnet import Bottleneck

from comixup.lab.models._libraries import resnet50_imagenet


def test_has_the_published_size():
    # As torchvision's documentation gives it for resnet50.
    model = resnet50_imagenet()
    assert sum(parameter.numel() for parameter in model.parameters()) == 25_557_032


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


def test_takes_other_sizes():
    model = resnet50_imagenet(10)
    assert model(torch.rand(2, 3, 64, 48)).shape == (2, 10)
    assert isinstance(model.fc, nn.Linear)
