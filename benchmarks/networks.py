"""Networks and batches that the benchmarks of training share."""

from __future__ import annotations

import torch
from torch import nn
from torchvision.models import resnet18

MEAN = torch.tensor([129.3, 124.1, 112.4]).view(3, 1, 1) / 255
STD = torch.tensor([68.2, 65.4, 70.4]).view(3, 1, 1) / 255


def cifar_resnet18(num_classes: int = 100) -> nn.Module:
    """Returns torchvision's ResNet-18 with a CIFAR stem: the size of the paper's PreActResNet18."""
    model = resnet18(num_classes=num_classes)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def small_network(num_classes: int = 100, width: int = 32) -> nn.Module:
    """Returns a network that two cores train in minutes: six convolutions with batch norm."""

    def stage(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        return [conv, nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *stage(3, width, 1),
        *stage(width, width, 2),
        *stage(width, 2 * width, 1),
        *stage(2 * width, 2 * width, 2),
        *stage(2 * width, 4 * width, 1),
        *stage(4 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, num_classes),
    )
