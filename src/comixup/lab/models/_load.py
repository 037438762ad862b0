"""Trained networks from their files: `load("runs/digits/comixup/seed-0")`; nothing in them runs.

A file's header says which network its weights are of, for which images and classes. Weights that
fit but for the last layer can begin another training, with the others frozen if wanted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from comixup._checks import reason_of
from comixup.lab._limits import MAX_SIDE
from comixup.lab._networks import MEMORY_FORMAT, check_weights
from comixup.lab._preprocess import Preprocessing, Shape
from comixup.lab._weights_file import (
    damaged_header,
    find_weights,
    read_about,
    read_weights,
    weights_digest,
    without_wrapper,
)
from comixup.lab.models._build import build
from comixup.lab.models._paper import STRIDES

MAX_COUNT = 10**9
"""Of classes and feature maps: a larger one is damage."""
_TEXTS = ("model", "data")
"""Fields of a header that are written as they are; the others as JSON."""


@dataclass(frozen=True)
class Header:
    """What is known of weights; None or empty where their file does not say.

    Attributes:
        model: name of the network; see `build`.
        num_classes: number of classes.
        shape: (C, H, W) of the images that the network was built for.
        width: feature maps of its first stage, where that was chosen.
        data: name of the data set that it was trained on.
        classes: their names, in the order of the class indices.
        preprocessing: how pictures become its input.
        multi_label: whether an image may have any number of labels: probabilities are then
            sigmoids of the logits, each for itself.
    """

    model: str | None = None
    num_classes: int | None = None
    shape: Shape | None = None
    width: int | None = None
    data: str | None = None
    classes: tuple[str, ...] = ()
    preprocessing: Preprocessing | None = None
    multi_label: bool = False

    def as_metadata(self) -> dict[str, str]:
        """Returns the header as text by name, for a safetensors file; see `from_metadata`."""
        found: dict[str, Any] = {
            name: value for name, value in vars(self).items() if value not in (None, (), False)
        }
        if self.preprocessing is not None:
            found["preprocessing"] = self.preprocessing.as_dict()
        return {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in found.items()
        }

    @classmethod
    def from_metadata(cls, about: Mapping[str, str], file: Path) -> Header:
        """Returns the header of a file as it was written; a damaged one raises `ValueError`."""
        found: dict[str, Any] = {}
        for field in fields(cls):
            text = about.get(field.name)
            if text is None:
                continue
            try:
                value = text if field.name in _TEXTS else json.loads(text)
                found[field.name] = _checked(field.name, value, found)
            # A damaged header raises anything.
            except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
                raise damaged_header(file, field.name, text) from None
        return cls(**found)


def read_header(path: str | Path) -> Header:
    """Returns what a run's or a file's weights say of themselves, without reading the weights.

    Args:
        path: as for `load`.
    """
    file = find_weights(Path(path))
    return Header.from_metadata(read_about(file), file)


def _checked(name: str, value: Any, before: Mapping[str, Any]) -> Any:
    """Returns a field of a header, behind those `before`; what comixup did not write raises."""
    if name == "preprocessing":
        return Preprocessing.from_dict(value, before["shape"])
    if name in ("num_classes", "width"):
        good = _is_count(value, MAX_COUNT)
    elif name == "shape":
        good = len(value) == 3 and all(_is_count(side, MAX_SIDE) for side in value)
    elif name == "classes":
        named = isinstance(value, list) and all(isinstance(word, str) for word in value)
        good = named and len(value) == before["num_classes"]
    else:
        good = isinstance(value, bool if name == "multi_label" else str)
    if not good:
        raise ValueError(name)
    return tuple(value) if isinstance(value, list) else value


def _is_count(value: object, most: int) -> bool:
    return type(value) is int and 0 < value <= most


# ---- Trained networks ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Classifier:
    """A trained network, built as it was for its training, and what its file says of it.

    Attributes:
        model: the network, in evaluation mode, on the CPU.
        name: of the network; see `build`.
        num_classes: number of classes.
        shape: (C, H, W) of the images that it was built for.
        path: the folder or file that it was read from.
        width: feature maps of its first stage; None for the network's own.
        data: name of the data set that it was trained on; None if its file does not say.
        classes: the names of the classes; empty likewise.
        digest: of the file of weights: other weights have another.
        stated_preprocessing: how pictures become its input; None if its file does not say.
        multi_label: whether an image may have any number of labels.
    """

    model: nn.Module
    name: str
    num_classes: int
    shape: Shape
    path: Path
    width: int | None = None
    data: str | None = None
    classes: tuple[str, ...] = ()
    digest: str | None = None
    stated_preprocessing: Preprocessing | None = None
    multi_label: bool = False

    @property
    def preprocessing(self) -> Preprocessing:
        """How pictures become the network's input; `ValueError` if its file does not say."""
        if self.stated_preprocessing is None:
            raise ValueError(
                f"`path` must be weights that say how images are prepared, but {self.path} does "
                "not: a finished run of this version does. Train it again, or resize, crop and "
                "normalize the images as its training did and call `model` yourself."
            )
        return self.stated_preprocessing

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Returns the class probabilities, (n, num_classes), of images that are preprocessed."""
        logits: Tensor = self.model(images)
        return self.probabilities(logits.float())

    def probabilities(self, logits: Tensor) -> Tensor:
        """Returns the probabilities of logits, (n, num_classes).

        They sum to one for each image, but where an image may have any number of labels.
        """
        return logits.sigmoid() if self.multi_label else logits.softmax(-1)


def load(
    path: str | Path,
    *,
    model: str | None = None,
    num_classes: int | None = None,
    shape: Shape | None = None,
) -> Classifier:
    """Returns the network that a run's folder or a file of weights holds, as it was trained.

    Everything is taken from the file where it says it; what is given and contradicts the file
    raises `ValueError`.

    Args:
        path: a run's folder, a .safetensors file, or a .pt or .pth file with a state dict.
        model: name of the network, where the file does not say; see `build`.
        num_classes: number of classes, where the file does not say.
        shape: (C, H, W) of the images, where the file does not say.
    """
    path = Path(path)
    file = find_weights(path)
    content = read_weights(file)
    header = Header.from_metadata(content.about, file)
    name, count, built_for = _network_of(header, file, model, num_classes, shape)
    _check_head(content.weights, header.num_classes, count, file)
    # What a file says of its network is compared with its weights before any memory is taken.
    with torch.device("meta"):
        own = build(name, count, shape=built_for, width=header.width).state_dict()
    weights = dict(without_wrapper(content.weights))
    for key in own.keys() & weights.keys():
        mine, given = own[key], weights[key]
        # In the network's own precision. A tensor of another shape may be larger than its file.
        if given.shape == mine.shape and given.is_floating_point() and mine.is_floating_point():
            weights[key] = given.to(mine.dtype)
    try:
        check_weights(own, weights)
        network = build(name, count, shape=built_for, width=header.width)
        network.load_state_dict(weights)
    except (RuntimeError, ValueError) as why:
        raise ValueError(
            f"`path` must hold weights of the network {name}, but those of {file} do not fit it "
            f"({reason_of(why)}). Name the network they are of with --model."
        ) from None
    return Classifier(
        network.to(memory_format=MEMORY_FORMAT).eval(),
        name,
        count,
        built_for,
        path,
        width=header.width,
        data=header.data,
        classes=header.classes,
        digest=weights_digest(file),
        stated_preprocessing=header.preprocessing,
        multi_label=header.multi_label,
    )


def _network_of(
    header: Header, file: Path, model: str | None, num_classes: int | None, shape: Shape | None
) -> tuple[str, int, Shape]:
    """Returns the network's name, number of classes and (C, H, W): the file's, or those given."""
    name = model or header.model
    if name is None:
        raise ValueError(
            f"`model` must be given for {file}, which does not say what network its weights are "
            "of. Name it with --model, for instance --model preactresnet18."
        )
    count = num_classes if num_classes is not None else header.num_classes
    if count is None:
        raise ValueError(
            f"`num_classes` must be given for {file}, which does not say how many classes it has."
        )
    built_for = header.shape or shape
    if built_for is None:
        raise ValueError(
            f"`shape` must be given for {file}, which does not say what images it is for. CIFAR's "
            "is (3, 32, 32)."
        )
    if shape is not None and shape[0] != built_for[0]:
        raise ValueError(
            f"`shape` must have {built_for[0]} channel(s), those of the images that {file} was "
            f"trained on, got {shape[0]}. Evaluate on a data set of that kind."
        )
    if shape is not None and tuple(shape) != built_for:
        raise ValueError(
            f"`shape` must be {built_for}, that of the images that the training of {file} ended "
            f"with, got {tuple(shape)}. Leave it out."
        )
    return name, count, built_for


def _check_head(weights: Mapping[str, Tensor], stated: int | None, count: int, file: Path) -> None:
    """Raises `ValueError` if none of the weights has a row for each class."""
    sizes = [tensor.shape[0] for tensor in weights.values() if tensor.ndim]
    if stated not in (None, count) or count not in sizes:
        has = stated if stated is not None else f"no layer with {count} outputs"
        raise ValueError(
            f"`num_classes` must be that of the network's head, but {file} has "
            f"{has} where the data have {count} classes. Evaluate on the data set it was trained "
            "on."
        )


# ---- Fine-tuning ---------------------------------------------------------------------------------


def load_matching(model: nn.Module, path: str | Path, num_classes: int) -> list[str]:
    """Loads all weights that fit a network, and returns the names of those that stay new.

    The last layer is new where it has other classes. What else does not fit raises `ValueError`:
    the file is of another network.

    Args:
        model: with its initial weights.
        path: a run's folder, or a file of weights of comixup, torchvision or timm.
        num_classes: number of classes of the model.
    """
    file = find_weights(Path(path))
    given = without_wrapper(read_weights(file).weights)
    own = {name: tensor for name, tensor in model.state_dict().items() if name != STRIDES}
    fitting: dict[str, Tensor] = {
        name: given[name]
        for name, tensor in own.items()
        if name in given and given[name].shape == tensor.shape
    }
    new = [name for name in own if name not in fitting]
    head = head_name(model, num_classes)
    others = [name for name in new if not name.startswith(f"{head}.")]
    if others:
        name = others[0]
        got = f"of shape {tuple(given[name].shape)}" if name in given else "absent"
        raise ValueError(
            f"`weights` must be of the network that is trained, but in {file} {name}, of shape "
            f"{tuple(own[name].shape)} here, is {got} ({len(others)} of {len(own)} do not fit). "
            "Name the network that they are of with --model, and --width if it has another."
        )
    model.load_state_dict(fitting, strict=False)
    return new


def head_name(model: nn.Module, num_classes: int) -> str:
    """Returns the name of a network's last layer: its last linear one with a row for each class.

    >>> head_name(nn.Sequential(nn.Flatten(), nn.Linear(8, 10), nn.Linear(10, 3)), 3)
    '2'
    """
    linear: list[str] = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module.out_features == num_classes
    ]
    if not linear:
        raise ValueError(
            f"`model` must end in a linear layer with {num_classes} outputs, got "
            f"{type(model).__name__}, which has none. Train all of it, from random weights."
        )
    return linear[-1]


def freeze(model: nn.Module, what: str, num_classes: int) -> None:
    """Keeps a part of a network as its initial weights have it.

    Args:
        model: a network.
        what: "none"; "norms", the statistics of batch normalization; "features", all but the last
            layer, these statistics included.
        num_classes: its number of classes.
    """
    if what == "features":
        head = head_name(model, num_classes)
        for name, weight in model.named_parameters():
            weight.requires_grad_(name.startswith(f"{head}."))
    for module in model.modules() if what != "none" else ():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            # `model.train()` calls this, which would let batches move the statistics.
            module.train = MethodType(_stay_in_evaluation, module)  # type: ignore[method-assign]
            module.eval()


def _stay_in_evaluation(self: nn.Module, mode: bool = True) -> nn.Module:
    """Leaves a frozen layer in evaluation mode, whatever mode its network is put in."""
    self.training = False
    return self
