"""One entry point to all networks: `build("preactresnet18", 100)`."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterable

from torch import nn

from comixup._checks import check_count
from comixup._did_you_mean import did_you_mean
from comixup.lab._limits import MAX_WIDTH
from comixup.lab._preprocess import Preprocessing, Shape
from comixup.lab.models._libraries import (
    COLOURS,
    LITE,
    build_lite,
    build_timm,
    build_torchvision,
    lite_preprocessing,
    package_of,
    resnet50_imagenet,
    timm_names,
    timm_preprocessing,
    torchvision_names,
    torchvision_preprocessing,
)
from comixup.lab.models._paper import (
    RESNET10_BLOCKS,
    RESNET34_BLOCKS,
    lenet,
    preact_resnet,
    resnext,
    small,
    speech_vgg11,
    wide_resnet,
)

LARGE_SIDE = 64
"""From this height and width on, the first convolution has stride 2: Tiny-ImageNet's size."""

OURS = "comixup"

_WITH_WIDTH: dict[str, Callable[..., nn.Module]] = {
    "small": small,
    "small-os8": functools.partial(small, output_stride=8),
    "preactresnet10": functools.partial(preact_resnet, blocks=RESNET10_BLOCKS, final_norm=True),
    "preactresnet18": preact_resnet,
    "preactresnet34": functools.partial(preact_resnet, blocks=RESNET34_BLOCKS),
}
"""Networks whose number of feature maps can be chosen."""

_STAGED: dict[str, Callable[..., nn.Module]] = {
    **_WITH_WIDTH,
    "wrn16-8": functools.partial(wide_resnet, depth=16, width=8),
    "wrn28-10": functools.partial(wide_resnet, depth=28, width=10),
    "resnext29-4-24": functools.partial(resnext, depth=29, groups=4, base_width=24),
}
"""Networks for images of any size, whose stem depends on whether these are large."""

_RESNET50 = "resnet50-imagenet"
_OF_ONE_SIZE: dict[str, Callable[..., nn.Module]] = {"lenet": lenet, "vgg11-speech": speech_vgg11}
"""Networks that are built for one size."""

_LIBRARIES: dict[str, Callable[[], Iterable[str]]] = {
    OURS: lambda: [*names(), *LITE],
    "torchvision": torchvision_names,
    "timm": timm_names,
}
"""Names of networks by where they come from, in the order that bare names are looked up in."""


def names() -> list[str]:
    """Returns the names of this package's own networks.

    >>> names()[:3]
    ['small', 'small-os8', 'preactresnet10']
    """
    return [*_STAGED, _RESNET50, *_OF_ONE_SIZE]


def build(
    name: str,
    num_classes: int,
    *,
    shape: Shape = (3, 32, 32),
    width: int | None = None,
    pretrained: bool = False,
) -> nn.Module:
    """Returns a network by its name.

    Args:
        name: one of `names()`, or "torchvision:NAME" or "timm:NAME", or "efficientnet-lite0",
            "-lite1", "-lite2": timm's `tf_efficientnet_lite0`, ..., with weights that need no
            download. Another bare name is looked up in torchvision, then in timm.
        num_classes: number of classes.
        shape: channels, height and width of the images; torchvision's networks take three channels.
            Our residual networks take images of any size; from 64 x 64 on their first convolution
            has stride 2, as for Tiny-ImageNet.
        width: feature maps of the stem and the first stage, which each later stage doubles; None
            for the network's own. Our pre-activation ResNets only.
        pretrained: load weights trained on ImageNet: torchvision's or timm's, downloaded the first
            time, or those of the EfficientNet-Lites, which the extra `pretrained` installs.

    >>> import torch
    >>> build("small", 10, shape=(1, 28, 28))(torch.rand(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    >>> build("wrn16-8", 10).fc
    Linear(in_features=512, out_features=10, bias=True)
    """
    if not isinstance(name, str):
        raise TypeError(f"`name` must be a string, got {name!r}. See comixup.lab.models.names().")
    check_count("num_classes", num_classes)
    shape = _checked(shape)
    if width is not None:
        check_count("width", width, high=MAX_WIDTH)
        if name not in _WITH_WIDTH:
            raise ValueError(
                f"`width` must be None for {name!r}, got {width}. Networks whose width can be "
                f"chosen: {', '.join(_WITH_WIDTH)}."
            )
    library, found = resolve(name)
    if library == "timm":
        return build_timm(found, num_classes, shape=shape, pretrained=pretrained)
    if (library == "torchvision" or found == _RESNET50) and shape[0] != COLOURS:
        raise ValueError(
            f"`shape` must have {COLOURS} channels for torchvision's {found}, got {shape[0]}. "
            "Repeat or drop channels, or take one of timm's networks, such as 'timm:resnet50': "
            "they adapt to any number."
        )
    if library == "torchvision":
        return build_torchvision(found, num_classes, size=shape[1:], pretrained=pretrained)
    if found in LITE:
        return build_lite(found, num_classes, shape=shape, pretrained=pretrained)
    if pretrained:
        raise _without_weights(found)
    if found in _OF_ONE_SIZE:
        return _OF_ONE_SIZE[found](num_classes, shape=shape)
    if found == _RESNET50:
        return resnet50_imagenet(num_classes)
    stride = 2 if min(shape[1:]) >= LARGE_SIDE else 1
    own_width = {} if width is None else {"width": width}
    return _STAGED[found](num_classes, in_channels=shape[0], stem_stride=stride, **own_width)


def resolve(name: str) -> tuple[str, str]:
    """Returns the library that a network is of, "comixup" for ours, and its name there.

    Args:
        name: as for `build`.

    >>> resolve("wrn16-8"), resolve("resnet18")
    (('comixup', 'wrn16-8'), ('torchvision', 'resnet18'))
    """
    library, colon, inner = name.partition(":")
    others = [known for known in _LIBRARIES if known != OURS]
    if colon and library not in others:
        raise ValueError(
            f"`name` must begin with one of {others} if it has a colon, got {name!r}. Our own "
            f"networks have none: {', '.join(names())}."
        )
    searched: list[str] = []
    for candidate in [library] if colon else _LIBRARIES:
        try:
            known = _LIBRARIES[candidate]()
        except ModuleNotFoundError as error:
            if colon or error.name != "timm":
                raise
            advice = " timm's models are known too once it is installed: pip install timm."
            raise _unknown(name, searched, advice) from error
        wanted = inner if colon else name
        base = wanted.partition(".")[0] if candidate == "timm" else wanted  # tags name weights
        if base in known:
            return candidate, wanted
        searched += known
    raise _unknown(name, searched)


def pretrained_preprocessing(name: str) -> Preprocessing:
    """Returns how images become the input of a network with its pretrained weights.

    Image size, mean and standard deviation are those that the weights were trained with, which
    differ between networks. Nothing is downloaded.

    Args:
        name: as for `build`.

    >>> pretrained_preprocessing("efficientnet-lite1").shape
    (3, 240, 240)
    >>> pretrained_preprocessing("resnet18").mean
    (0.485, 0.456, 0.406)
    """
    library, found = resolve(name)
    if library == "timm":
        return timm_preprocessing(found)
    if library == "torchvision":
        return torchvision_preprocessing(found)
    if found in LITE:
        return lite_preprocessing(found)
    raise _without_weights(found)


def weights_are_installed(name: str) -> bool:
    """Returns whether a network's pretrained weights are there without a download.

    Args:
        name: as for `build`.

    >>> weights_are_installed("small")
    False
    """
    packages = ("timm", package_of(name))
    return name in LITE and all(importlib.util.find_spec(package) for package in packages)


def _without_weights(name: str) -> ValueError:
    return ValueError(
        f"`pretrained` must be False for {name!r}, got True: there are no weights to load. Train "
        f"it, or take {', '.join(LITE)} or one of torchvision's or timm's, such as "
        "'torchvision:resnet50'."
    )


def _checked(shape: Shape) -> Shape:
    """Returns the shape as a tuple of three positive numbers."""
    try:
        channels, height, width = shape
    except (TypeError, ValueError):
        raise ValueError(
            f"`shape` must be (channels, height, width), got {shape!r}. CIFAR's is (3, 32, 32)."
        ) from None
    for side in (channels, height, width):
        check_count("shape", side)
    return int(channels), int(height), int(width)


def _unknown(name: str, known: Iterable[str], advice: str = "") -> ValueError:
    """Returns an error that suggests the known names nearest to an unknown one."""
    hint = did_you_mean(name.rpartition(":")[2].lower(), known)
    hint = hint or f" Our own networks are {', '.join(names())}."
    return ValueError(f"`name` must be of a known network, got {name!r}.{hint}{advice}")
