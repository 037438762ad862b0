"""Pre-activation residual networks (He et al., ECCV 2016), and a small one for CPUs."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from comixup._checks import check_count
from comixup.lab.models._staged import StagedNetwork, chain

RESNET10_BLOCKS = (1, 1, 1, 1)
RESNET18_BLOCKS = (2, 2, 2, 2)
RESNET34_BLOCKS = (3, 4, 6, 3)
RESNET_STRIDES = (1, 2, 2, 2)
"""Stride of each stage's first block: the first stage keeps the stem's resolution."""


class PreActBlock(nn.Module):
    """Two 3 x 3 convolutions, each after its batch norm and ReLU, added to their input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """Returns the input, projected where its shape changes, plus what the convolutions add."""
        active = F.relu(self.bn1(maps))
        # As in He et al., a projection sees the activated input, the identity the input itself.
        kept: Tensor = maps if self.shortcut is None else self.shortcut(active)
        added: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active))))
        return kept + added


def preact_resnet(
    num_classes: int,
    *,
    blocks: Sequence[int] = RESNET18_BLOCKS,
    strides: Sequence[int] = RESNET_STRIDES,
    width: int = 64,
    in_channels: int = 3,
    stem_stride: int = 1,
    final_norm: bool = False,
) -> StagedNetwork:
    """Returns a pre-activation ResNet whose stages double the feature maps one after the other.

    Args:
        num_classes: number of classes.
        blocks: number of blocks in each stage.
        strides: stride of each stage.
        width: feature maps of the stem and the first stage.
        in_channels: channels of the images.
        stem_stride: stride of the first convolution: 1 for CIFAR, 2 for Tiny-ImageNet.
        final_norm: end in batch norm and ReLU, as He et al. do. The official implementation of
            Co-Mixup leaves them out, so the last block's sum is averaged as it is.

    >>> import torch
    >>> model = preact_resnet(10, blocks=(1, 1), strides=(1, 2), width=8)
    >>> model(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    for name, values in (("blocks", blocks), ("strides", strides)):
        for value in values:
            check_count(name, value)
    if not blocks or len(blocks) != len(strides):
        raise ValueError(
            f"`strides` must have one entry for each of the {len(blocks)} stages in `blocks`, got "
            f"{tuple(strides)}. Give both the same length, at least 1."
        )
    check_count("width", width)
    check_count("in_channels", in_channels)
    check_count("stem_stride", stem_stride)
    stem = nn.Conv2d(in_channels, width, 3, stem_stride, padding=1, bias=False)
    stages, inputs, outputs = [], width, width
    for count, stride in zip(blocks, strides, strict=True):
        stages.append(chain(PreActBlock, count, inputs, outputs, stride))
        inputs, outputs = outputs, 2 * outputs
    norm = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU()) if final_norm else None
    return StagedNetwork(stem, stages, channels=inputs, num_classes=num_classes, norm=norm)


def preactresnet18(
    num_classes: int,
    *,
    width: int = 64,
    in_channels: int = 3,
    stem_stride: int = 1,
    final_norm: bool = False,
) -> StagedNetwork:
    """Returns the paper's PreActResNet18, with or without the batch norm and ReLU at its end.

    Args:
        num_classes: number of classes.
        width: feature maps of the stem and the first stage.
        in_channels: channels of the images.
        stem_stride: stride of the first convolution: 1 for CIFAR, 2 for Tiny-ImageNet.
        final_norm: end in batch norm and ReLU, as He et al. do but the official implementation
            does not.

    >>> sum(parameter.numel() for parameter in preactresnet18(100).parameters())
    11217316
    """
    return preact_resnet(
        num_classes,
        width=width,
        in_channels=in_channels,
        stem_stride=stem_stride,
        final_norm=final_norm,
    )


def small(
    num_classes: int,
    *,
    width: int = 32,
    in_channels: int = 3,
    stem_stride: int = 1,
    output_stride: int = 16,
) -> StagedNetwork:
    """Returns a pre-activation ResNet of three blocks that two CPU cores train in minutes.

    Every stage halves the resolution, the first one too: at full resolution a block would cost
    more than all others together.

    Args:
        num_classes: number of classes.
        width: feature maps of the stem and the first stage.
        in_channels: channels of the images.
        stem_stride: stride of the first convolution: 1 for CIFAR, 2 for Tiny-ImageNet.
        output_stride: pixels of the image per location of the last feature maps, at most: stages
            that would make it larger keep the resolution. With 8, images of 64 x 64 have last
            feature maps of 8 x 8, by which objects can be localised, instead of 4 x 4.

    >>> import torch
    >>> small(10)(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    check_count("stem_stride", stem_stride)
    check_count("output_stride", output_stride)
    strides, reached = [], stem_stride
    for _ in range(3):
        strides.append(2 if 2 * reached <= output_stride else 1)
        reached *= strides[-1]
    return preact_resnet(
        num_classes,
        blocks=(1, 1, 1),
        strides=strides,
        width=width,
        in_channels=in_channels,
        stem_stride=stem_stride,
        final_norm=True,
    )
