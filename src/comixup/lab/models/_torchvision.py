"""Classifiers of torchvision, with any number of classes and channels."""

from __future__ import annotations

import importlib
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
