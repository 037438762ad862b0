"""The ResNet-50 of the paper's ImageNet experiment."""

from __future__ import annotations

from torch import nn

from comixup.lab.models._torchvision import build_torchvision

HEAD_STD = 0.01
"""Standard deviation of the last layer's initial weights."""


def resnet50_imagenet(num_classes: int = 1000, *, in_channels: int = 3) -> nn.Module:
    """Returns torchvision's ResNet-50 with the initial weights of the paper's ImageNet recipe.

    The last batch norm of each block begins at zero, so that every block begins as the identity,
    and the weights of `fc` are drawn from N(0, 0.01^2). Both are from Goyal et al. (2017) and in
    the official implementation.

    Args:
        num_classes: number of classes.
        in_channels: channels of the images.

    >>> model = resnet50_imagenet(1000)
    >>> bool(model.layer1[0].bn3.weight.any())
    False
    """
    model = build_torchvision(
        "resnet50", num_classes, channels=in_channels, zero_init_residual=True
    )
    head = model.get_submodule("fc")
    nn.init.normal_(head.get_parameter("weight"), std=HEAD_STD)
    return model
