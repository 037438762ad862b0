"""ResNeXt for small images (Xie et al., CVPR 2017)."""

from __future__ import annotations

import functools

import torch.nn.functional as F
from torch import Tensor, nn

from comixup._checks import check_count
from comixup.lab.models._staged import StagedNetwork, chain

STEM_WIDTH = 64
"""Feature maps of the first convolution; `base_width` is the width of a group beside it."""

EXPANSION = 4
"""Feature maps that leave a block, for each of the stage's nominal ones."""

NUM_STAGES = 3
LAYERS_PER_BLOCK = 3
OTHER_LAYERS = 2
"""Layers that `depth` counts outside the blocks: the stem and the linear layer."""


class ResNeXtBlock(nn.Module):
    """A grouped 3 x 3 convolution between two 1 x 1 ones, added to their input."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, *, groups: int, base_width: int
    ) -> None:
        super().__init__()
        inner = groups * (outputs // EXPANSION * base_width // STEM_WIDTH)
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, maps: Tensor) -> Tensor:
        """Returns ReLU of the input, projected where its shape changes, plus what is added."""
        kept: Tensor = maps if self.shortcut is None else self.shortcut(maps)
        inner = F.relu(self.bn1(self.conv1(maps)))
        inner = F.relu(self.bn2(self.conv2(inner)))
        return F.relu(kept + self.bn3(self.conv3(inner)))


def resnext(
    num_classes: int,
    *,
    depth: int = 29,
    groups: int = 4,
    base_width: int = 24,
    in_channels: int = 3,
    stem_stride: int = 1,
) -> StagedNetwork:
    """Returns ResNeXt-depth, groups x base_width d, by default the paper's ResNeXt29-4-24.

    Args:
        num_classes: number of classes.
        depth: number of layers, 9 n + 2 for n blocks in each of the three stages.
        groups: groups of each 3 x 3 convolution (the cardinality of Xie et al.).
        base_width: feature maps of a group in the first stage; each further stage doubles it.
        in_channels: channels of the images.
        stem_stride: stride of the first convolution: 1 for CIFAR. The official implementation has
            nothing else; for Tiny-ImageNet we take 2, as its other networks do.

    >>> import torch
    >>> resnext(10, depth=11, groups=2, base_width=4)(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    check_count("depth", depth)
    blocks, rest = divmod(depth - OTHER_LAYERS, NUM_STAGES * LAYERS_PER_BLOCK)
    if blocks < 1 or rest:
        raise ValueError(
            f"`depth` must be 9 n + 2 with n blocks in each stage, got {depth}. Try 20, 29 or 38."
        )
    check_count("groups", groups)
    check_count("base_width", base_width)
    check_count("in_channels", in_channels)
    check_count("stem_stride", stem_stride)
    block = functools.partial(ResNeXtBlock, groups=groups, base_width=base_width)
    stem = nn.Sequential(
        nn.Conv2d(in_channels, STEM_WIDTH, 3, stem_stride, padding=1, bias=False),
        nn.BatchNorm2d(STEM_WIDTH),
        nn.ReLU(),
    )
    stages, inputs, outputs = [], STEM_WIDTH, STEM_WIDTH * EXPANSION
    for stride in (1, 2, 2):
        stages.append(chain(block, blocks, inputs, outputs, stride))
        inputs, outputs = outputs, 2 * outputs
    model = StagedNetwork(stem, stages, channels=inputs, num_classes=num_classes)
    _initialise(model)
    return model


def _initialise(model: nn.Module) -> None:
    """Draws weights as the official implementation does, for this network alone."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight)
            nn.init.zeros_(module.bias)
