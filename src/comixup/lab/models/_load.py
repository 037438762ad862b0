"""Trained networks from their files: `load("runs/digits/comixup/seed-0")`; nothing in them runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from comixup._checks import reason_of
from comixup.lab._networks import MEMORY_FORMAT, load_weights
from comixup.lab._preprocess import Shape
from comixup.lab._weights_file import (
    find_weights,
    read_weights,
    weights_digest,
    without_wrapper,
)
from comixup.lab.models._build import build
from comixup.lab.models._header import Header
from comixup.lab.models._preprocessing import Preprocessing


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
                "normalise the images as its training did and call `model` yourself."
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
    name, count = _network_of(header, file, model, num_classes)
    _check_head(content.weights, header.num_classes, count, file)
    built_for = _shape_of(header, file, shape)
    weights = without_wrapper(content.weights)
    # What a file says of its network is compared with its weights before any memory is taken.
    with torch.device("meta"):
        network = build(name, count, shape=built_for, width=header.width)
        _check_shapes(network, weights, name, file)
    network = build(name, count, shape=built_for, width=header.width)
    _fill(network, weights, name, file)
    network.to(memory_format=MEMORY_FORMAT)
    return Classifier(
        network.eval(),
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
    header: Header, file: Path, model: str | None, num_classes: int | None
) -> tuple[str, int]:
    """Returns the network's name and number of classes: the file's, or those given."""
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
    return name, count


def _shape_of(header: Header, file: Path, shape: Shape | None) -> Shape:
    """Returns (C, H, W) of the images: the file's, or the one given."""
    built_for = header.shape or shape
    if built_for is None:
        raise ValueError(
            f"`shape` must be given for {file}, which does not say what images it is for. CIFAR's "
            "is (3, 32, 32)."
        )
    if shape is not None and shape[0] != built_for[0]:
        raise ValueError(
            f"`shape` must have {built_for[0]} channels, those of the images that {file} was "
            f"trained on, got {shape[0]}. Evaluate on a data set of that kind."
        )
    if shape is not None and tuple(shape) != built_for:
        raise ValueError(
            f"`shape` must be {built_for}, that of the images that the training of {file} ended "
            f"with, got {tuple(shape)}. Leave it out."
        )
    return built_for


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


def _check_shapes(network: nn.Module, weights: Mapping[str, Tensor], name: str, file: Path) -> None:
    """Raises `ValueError` if a network's weights have other shapes than those of a file."""
    for key, own in network.state_dict().items():
        given = weights.get(key)
        if given is None or given.shape != own.shape:
            got = "absent" if given is None else f"of shape {tuple(given.shape)}"
            raise _misfit(name, file, f"{key} must be of shape {tuple(own.shape)}, but is {got}")


def _fill(network: nn.Module, weights: Mapping[str, Tensor], name: str, file: Path) -> None:
    """Gives a network its weights, in its own precision."""
    own = network.state_dict()
    cast = {
        key: tensor.to(own[key].dtype)
        if key in own and tensor.is_floating_point() and own[key].is_floating_point()
        else tensor
        for key, tensor in weights.items()
    }
    try:
        load_weights(network, cast)
    except (RuntimeError, ValueError) as why:
        raise _misfit(name, file, reason_of(why)) from None


def _misfit(name: str, file: Path, why: str) -> ValueError:
    return ValueError(
        f"`path` must hold weights of the network {name}, but those of {file} do not fit it "
        f"({why}). Name the network they are of with --model."
    )
