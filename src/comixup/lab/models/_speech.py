"""LeNet and VGG-11 for spectrograms, as in the code that mixup's speech experiment began from.

Both have layers that see all locations at once, so they are built for one size. The paper's is
1 x 160 x 100. What they return are logits, not log-probabilities as in that code: the losses of
this package take logits.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from comixup._checks import check_count

SPECTROGRAM = (1, 160, 100)
"""Channels, frequencies and times of the paper's spectrograms."""

LENET_CHANNELS = 20
LENET_HIDDEN = 1000
LENET_KERNEL = 5
LENET_SMALLEST = 16
"""Smallest side that leaves a place after two convolutions and poolings."""

VGG11_STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))
"""Feature maps of the convolutions before each pooling."""

VGG_HIDDEN = 512
VGG_SMALLEST = 2 ** len(VGG11_STAGES)


class LeNet(nn.Module):
    """Two convolutions and two linear layers for images of one size; the last layer is `fc`.

    Args:
        num_classes: number of classes.
        shape: channels, height and width of the inputs.

    >>> import torch
    >>> LeNet(30)(torch.rand(2, 1, 160, 100)).shape
    torch.Size([2, 30])
    """

    def __init__(self, num_classes: int, *, shape: tuple[int, int, int] = SPECTROGRAM) -> None:
        super().__init__()
        check_count("num_classes", num_classes)
        _check_sides(shape, LENET_SMALLEST)
        channels, *sides = shape
        height, width = (_after_lenet_stage(_after_lenet_stage(side)) for side in sides)
        self.layer1 = nn.Sequential(
            nn.Conv2d(channels, LENET_CHANNELS, LENET_KERNEL), nn.MaxPool2d(2), nn.ReLU()
        )
        self.layer2 = nn.Sequential(
            nn.Conv2d(LENET_CHANNELS, LENET_CHANNELS, LENET_KERNEL),
            nn.Dropout2d(),
            nn.MaxPool2d(2),
            nn.ReLU(),
        )
        self.hidden = nn.Linear(LENET_CHANNELS * height * width, LENET_HIDDEN)
        self.dropout = nn.Dropout()
        self.fc = nn.Linear(LENET_HIDDEN, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Returns the logits of the classes, (batch, num_classes)."""
        maps = self.layer2(self.layer1(images))
        logits: Tensor = self.fc(self.dropout(F.relu(self.hidden(maps.flatten(1)))))
        return logits


class SpeechVGG11(nn.Module):
    """VGG-11 with batch norm for spectrograms of one size: `layer1` to `layer5`, `hidden`, `fc`.

    Args:
        num_classes: number of classes.
        shape: channels, height and width of the inputs.

    >>> import torch
    >>> SpeechVGG11(30).eval()(torch.rand(2, 1, 160, 100)).shape
    torch.Size([2, 30])
    """

    def __init__(self, num_classes: int, *, shape: tuple[int, int, int] = SPECTROGRAM) -> None:
        super().__init__()
        check_count("num_classes", num_classes)
        _check_sides(shape, VGG_SMALLEST)
        channels, *sides = shape
        height, width = (side // VGG_SMALLEST for side in sides)
        first, second, third, fourth, fifth = VGG11_STAGES
        self.layer1 = _vgg_stage(channels, first)
        self.layer2 = _vgg_stage(first[-1], second)
        self.layer3 = _vgg_stage(second[-1], third)
        self.layer4 = _vgg_stage(third[-1], fourth)
        self.layer5 = _vgg_stage(fourth[-1], fifth)
        self.hidden = nn.Linear(fifth[-1] * height * width, VGG_HIDDEN)
        self.fc = nn.Linear(VGG_HIDDEN, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Returns the logits of the classes, (batch, num_classes)."""
        maps = self.layer5(self.layer4(self.layer3(self.layer2(self.layer1(images)))))
        # There is no ReLU between the two linear layers in the original code either.
        logits: Tensor = self.fc(self.hidden(maps.flatten(1)))
        return logits


def _vgg_stage(inputs: int, outputs: tuple[int, ...]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in outputs:
        layers += [
            nn.Conv2d(inputs, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
        ]
        inputs = channels
    return nn.Sequential(*layers, nn.MaxPool2d(2))


def _after_lenet_stage(side: int) -> int:
    """Returns the side of a feature map after one convolution and pooling."""
    return (side - (LENET_KERNEL - 1)) // 2


def _check_sides(shape: tuple[int, int, int], smallest: int) -> None:
    if min(shape[1:]) < smallest:
        raise ValueError(
            f"`shape` must be at least {smallest} high and wide, got {shape}. Enlarge the inputs, "
            "or use a network for images, such as 'small'."
        )
