"""Wide residual networks (Zagoruyko and Komodakis, BMVC 2016) of the official implementation."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from comixup._checks import check_count, check_number
from comixup.lab.models._staged import StagedNetwork, chain

STEM_WIDTH = 16
"""Feature maps of the first convolution, and of the first stage before it is widened."""

NUM_STAGES = 3
LAYERS_PER_BLOCK = 2
OTHER_LAYERS = 4
"""Layers that `depth` counts outside the blocks: the stem and one projection for each stage."""

OFFICIAL_MOMENTUM = 0.9
"""Of the last batch norm in the official implementation. In torch it is the weight of the new
batch, so that the statistics used at test time are those of the last few batches."""


class WideBlock(nn.Module):
    """Two 3 x 3 convolutions, each after its batch norm and ReLU, added to their input.

    It differs from `PreActBlock` as the official implementation does: convolutions have biases, the
    stride is on the second one, and a projection sees the input before its batch norm and ReLU.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, stride, padding=1)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, maps: Tensor) -> Tensor:
        """Returns the input, projected where its shape changes, plus what the convolutions add."""
        kept: Tensor = maps if self.shortcut is None else self.shortcut(maps)
        added: Tensor = self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(maps))))))
        return kept + added


def wide_resnet(
    num_classes: int,
    *,
    depth: int = 16,
    width: int = 8,
    in_channels: int = 3,
    stem_stride: int = 1,
    final_momentum: float = OFFICIAL_MOMENTUM,
) -> StagedNetwork:
    """Returns WRN-depth-width, by default the paper's WRN16-8.

    Args:
        num_classes: number of classes.
        depth: number of layers, 6 n + 4 for n blocks in each of the three stages.
        width: how many times wider than a ResNet's 16, 32 and 64 feature maps the stages are.
        in_channels: channels of the images.
        stem_stride: stride of the first convolution: 1 for CIFAR, 2 for Tiny-ImageNet.
        final_momentum: weight of each batch in the running statistics of the last batch norm. The
            official implementation has 0.9 here and torch's 0.1 elsewhere.

    >>> import torch
    >>> wide_resnet(10, depth=10, width=1)(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    check_count("depth", depth)
    blocks, rest = divmod(depth - OTHER_LAYERS, NUM_STAGES * LAYERS_PER_BLOCK)
    if blocks < 1 or rest:
        raise ValueError(
            f"`depth` must be 6 n + 4 with n blocks in each stage, got {depth}. Try 10, 16, 22, 28 "
            "or 40."
        )
    check_count("width", width)
    check_count("in_channels", in_channels)
    check_count("stem_stride", stem_stride)
    check_number("final_momentum", final_momentum, high=1)
    stem = nn.Conv2d(in_channels, STEM_WIDTH, 3, stem_stride, padding=1)
    stages, inputs, outputs = [], STEM_WIDTH, STEM_WIDTH * width
    for stride in (1, 2, 2):
        stages.append(chain(WideBlock, blocks, inputs, outputs, stride))
        inputs, outputs = outputs, 2 * outputs
    norm = nn.Sequential(nn.BatchNorm2d(inputs, momentum=final_momentum), nn.ReLU())
    return StagedNetwork(stem, stages, channels=inputs, num_classes=num_classes, norm=norm)
