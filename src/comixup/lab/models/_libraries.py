"""Classifiers of torchvision and timm, with any number of classes and channels."""

from __future__ import annotations

import importlib
import math
from typing import Any

import torch
from torch import nn

from comixup._checks import check_count
from comixup.lab.models._preprocessing import Preprocessing

COLOURS = 3
"""Channels that torchvision's classifiers are written for."""

_SIZED = {"vit": "image_size", "maxvit": "input_size"}
"""Families built for one image size, and the keyword that tells it."""

_AUXILIARY = ("googlenet", "inception_v3")
"""Networks with further classifiers inside: unless told otherwise they return several outputs."""


def torchvision_names() -> tuple[str, ...]:
    """Returns the names of torchvision's classifiers."""
    models = _import_models()
    return tuple(models.list_models(module=models))


def build_torchvision(
    name: str,
    num_classes: int,
    *,
    channels: int = COLOURS,
    size: tuple[int, int] | None = None,
    pretrained: bool = False,
    **settings: Any,
) -> nn.Module:
    """Returns one of torchvision's classifiers.

    Args:
        name: as in `torchvision_names()`.
        num_classes: number of classes. Pretrained weights of another number of classes lose
            their last layer, which is drawn anew.
        channels: channels of the images; another number than 3 gets a new first convolution.
        size: height and width of the images, for networks built for one size; None for their own.
        pretrained: load torchvision's best weights, downloading them the first time.
        settings: further keywords of torchvision's own function.
    """
    check_count("num_classes", num_classes)
    check_count("channels", channels)
    if pretrained and channels != COLOURS:
        raise ValueError(
            f"`shape` must have 3 channels for torchvision's pretrained weights, got {channels}. "
            "Repeat or drop channels, or take the model from timm, which adapts its weights: "
            f"'timm:{name}'."
        )
    models = _import_models()
    if name in _AUXILIARY:
        settings["aux_logits"] = False
        if not pretrained:
            settings["init_weights"] = True
    family = name.partition("_")[0]
    if size is not None and family in _SIZED:
        settings[_SIZED[family]] = _fixed_size(name, size)
    if pretrained:
        model: nn.Module = models.get_model(name, weights="DEFAULT", **settings)
        _replace_head(model, name, num_classes)
        return model
    try:
        model = models.get_model(name, weights=None, num_classes=num_classes, **settings)
    except (AssertionError, ValueError) as why:  # patches that the size is no multiple of
        raise ValueError(
            f"`shape` must suit torchvision's {name}, got images of {size} ({why}). Choose another "
            "network, or images of another size."
        ) from None
    if channels != COLOURS:
        _replace_first_convolution(model, name, channels)
    return model


def torchvision_preprocessing(name: str) -> Preprocessing:
    """Returns how images become the input of one of torchvision's classifiers with its weights.

    Args:
        name: as in `torchvision_names()`.
    """
    weights = _import_models().get_model_weights(name)
    if not len(weights):
        raise ValueError(
            f"`pretrained` must be False for torchvision's {name}, got True: torchvision has no "
            "weights of it."
        )
    own = weights.DEFAULT.transforms()
    (side,), (resize,) = own.crop_size, own.resize_size
    return Preprocessing((COLOURS, side, side), tuple(own.mean), tuple(own.std), resize)


def _import_models() -> Any:
    try:
        # Not at the top, as torchvision is an extra: only who asks for its models needs it.
        return importlib.import_module("torchvision").models
    except ModuleNotFoundError as error:
        if error.name != "torchvision":
            raise
        raise ModuleNotFoundError(
            "torchvision must be installed for its models, and it is not. Run: "
            "pip install 'comixup[train]'.",
            name="torchvision",
        ) from error


def _fixed_size(name: str, size: tuple[int, int]) -> int | tuple[int, int]:
    """Returns the size as the family's keyword takes it."""
    if name.startswith("maxvit"):
        return size
    height, width = size
    if height != width:
        raise ValueError(
            f"`shape` must be square for torchvision's {name}, got {height} x {width}. Crop the "
            "images, or choose a network without a fixed size, such as 'resnet50'."
        )
    return height


def _replace_first_convolution(model: nn.Module, name: str, channels: int) -> None:
    """Puts a convolution for another number of channels in the first one's place."""
    convolutions = _modules_of(model, nn.Conv2d)
    if not convolutions or convolutions[0][1].in_channels != COLOURS:
        raise ValueError(
            f"`shape` must have 3 channels for torchvision's {name}, which does not begin with a "
            f"convolution of the image, got {channels}. Choose another network."
        )
    path, module = convolutions[0]
    convolution = nn.Conv2d(
        channels,
        module.out_channels,
        module.kernel_size,
        module.stride,
        module.padding,
        bias=module.bias is not None,
        device=module.weight.device,
        dtype=module.weight.dtype,
    )
    # Each architecture has its own rule for the initial weights: their spread tells what it is.
    with torch.no_grad():
        convolution.weight.normal_().mul_(module.weight.std())
        if convolution.bias is not None:
            convolution.bias.zero_()
    _put(model, path, convolution)


def _replace_head(model: nn.Module, name: str, num_classes: int) -> None:
    """Puts a new last layer in place of the pretrained one if the number of classes differs."""
    path, module = _modules_of(model, nn.Linear, nn.Conv2d)[-1]
    head: nn.Module
    if isinstance(module, nn.Linear):
        if module.out_features == num_classes:
            return
        head = nn.Linear(module.in_features, num_classes, bias=module.bias is not None)
    elif isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1):
        if module.out_channels == num_classes:
            return
        head = nn.Conv2d(module.in_channels, num_classes, 1, bias=module.bias is not None)
    else:
        raise ValueError(
            f"`name` must be of a network that ends in a linear layer, got {name!r}. Choose "
            "another one, or build it without pretrained weights."
        )
    _put(model, path, head)


def _modules_of(model: nn.Module, *kinds: type[nn.Module]) -> list[tuple[str, Any]]:
    """Returns the paths and modules of some kinds, in the order in which they were made."""
    return [(path, module) for path, module in model.named_modules() if isinstance(module, kinds)]


def _put(model: nn.Module, path: str, module: nn.Module) -> None:
    """Puts a module in the place of another."""
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)


# ---- The paper's ResNet-50 -----------------------------------------------------------------------


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


# ---- timm ----------------------------------------------------------------------------------------


def timm_names() -> tuple[str, ...]:
    """Returns the names of timm's models."""
    return tuple(import_timm().list_models())


def build_timm(
    name: str, num_classes: int, *, shape: tuple[int, int, int], pretrained: bool = False
) -> nn.Module:
    """Returns one of timm's classifiers.

    Args:
        name: as in `timm_names()`, with or without a tag of pretrained weights after a dot.
        num_classes: number of classes.
        shape: channels, height and width of the images.
        pretrained: load timm's weights, downloading them the first time.
    """
    check_count("num_classes", num_classes)
    timm = import_timm()
    channels, height, width = shape
    settings: dict[str, Any] = {}
    own = timm.models.get_pretrained_cfg(name)
    # Transformers are built for one size; the others reject the keyword.
    if own is not None and own.fixed_input_size and tuple(own.input_size[1:]) != (height, width):
        settings["img_size"] = (height, width)
    model: nn.Module = timm.create_model(
        name, pretrained=pretrained, num_classes=num_classes, in_chans=channels, **settings
    )
    return model


def timm_preprocessing(name: str) -> Preprocessing:
    """Returns how images become the input of one of timm's classifiers with its weights.

    Args:
        name: see `build_timm`.
    """
    own = import_timm().models.get_pretrained_cfg(name)
    if own is None or not own.has_weights:
        raise ValueError(
            f"`pretrained` must be False for timm's {name}, got True: timm has no weights of it."
        )
    channels, height, width = own.input_size
    resize = math.floor(min(height, width) / own.crop_pct)
    return Preprocessing((channels, height, width), tuple(own.mean), tuple(own.std), resize)


def import_timm() -> Any:
    """Returns timm; `ModuleNotFoundError` with what to do where it is not installed."""
    try:
        # Not at the top, as timm is optional: only who asks for its models needs it.
        return importlib.import_module("timm")
    except ModuleNotFoundError as error:
        if error.name != "timm":
            raise
        raise ModuleNotFoundError(
            "timm must be installed for its models, and it is not. Run: pip install timm.",
            name="timm",
        ) from error
