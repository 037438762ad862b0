"""A trained network, read from a run's folder or from a file of weights; nothing in them is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from comixup import models
from comixup.data import DataSet
from comixup.evaluation._weights_file import (
    PICKLED,
    REASON_LETTERS,
    read_about,
    read_weights,
    reason,
    weights_digest,
    without_wrapper,
)
from comixup.models import MEMORY_FORMAT, Shape
from comixup.training import RunFolder, load_weights

MAX_SIDE = 4096
"""Pixels: a file that states larger images would have networks built that fill the memory."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network and what is known of it.

    Attributes:
        model: in evaluation mode, on the CPU.
        name: of the network, see `comixup.models.build`.
        num_classes: number of classes.
        shape: (C, H, W) of the images that it was built for.
        path: the folder or file that it was read from.
        method: how it was trained; None if a file of weights alone does not say.
        seed: of its run; None likewise.
        recipe: of its run, as `Recipe.as_dict` has it; None likewise.
        data: name of the data set that it was trained on; None likewise.
        classes: the names of the classes; empty likewise.
        digest: of the file of weights: other weights have another.
    """

    model: nn.Module
    name: str
    num_classes: int
    shape: Shape
    path: Path
    method: str | None = None
    seed: int | None = None
    recipe: Mapping[str, Any] | None = None
    data: str | None = None
    classes: tuple[str, ...] = ()
    digest: str | None = None

    @property
    def title(self) -> str:
        """A name for people: the method and the seed, or the file's name."""
        return self.path.name if self.method is None else f"{self.method}, seed {self.seed}"


def load_trained(
    path: Path,
    *,
    model: str | None = None,
    num_classes: int | None = None,
    shape: Shape | None = None,
) -> Trained:
    """Returns the network that a run's folder or a file of weights holds, ready to evaluate.

    Args:
        path: a run's folder, a .safetensors file, or a .pt or .pth file with a state dict.
        model: name of the network, where the file does not say; see `comixup.models.build`.
        num_classes: of the data to evaluate on. A head of another size raises `ValueError`.
        shape: (C, H, W) of the images, where the file does not say.
    """
    path = Path(path)
    file, metadata = _find(path)
    content = read_weights(file)
    about = content.about
    name = model or about.get("model")
    if name is None:
        raise ValueError(
            f"`model` must be given for {file}, which does not say what network its weights are "
            "of. Name it with --model, for instance --model preactresnet18."
        )
    stated = _number(about, file)
    count = num_classes if num_classes is not None else stated
    if count is None:
        raise ValueError(
            f"`num_classes` must be given for {file}, which does not say how many classes it has."
        )
    _check_head(content.weights, stated, count, file)
    built_for = _shape(about, file) or shape
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
    width = _number(about, file, "width")
    weights = without_wrapper(content.weights)
    # What a file says of its network is compared with its weights before any memory is taken.
    with torch.device("meta"):
        _check_shapes(models.build(name, count, shape=built_for, width=width), weights, name, file)
    network = models.build(name, count, shape=built_for, width=width)
    _fill(network, weights, name, file)
    network.to(memory_format=MEMORY_FORMAT)
    return Trained(
        network.eval(),
        name,
        count,
        built_for,
        path,
        data=about.get("data"),
        classes=_classes(about, count, file),
        digest=weights_digest(file),
        **_told(metadata),
    )


def trained_on(path: Path) -> str:
    """Returns the name of the data set that a network was trained on, as its file says."""
    file, about = _about(path)
    name = about.get("data")
    if name is None:
        raise ValueError(
            f"`data_set` must be given for {file}, which does not say what it was trained on. Name "
            "it with --data-set, for instance --data-set cifar100."
        )
    return name


def trained_classes(path: Path) -> tuple[str, ...]:
    """Returns the names of the classes that a network tells apart; empty if its file says none."""
    file, about = _about(path)
    count = _number(about, file)
    return () if count is None else _classes(about, count, file)


def _about(path: Path) -> tuple[Path, Mapping[str, str]]:
    """Returns the file of weights and what its header says."""
    file, _ = _find(Path(path))
    return file, read_about(file)


def check_data(trained: Trained, data: DataSet) -> None:
    """Raises `ValueError` unless a data set has the classes of a trained network."""
    if trained.num_classes != data.num_classes:
        raise ValueError(
            f"`data` must have {trained.num_classes} classes, as many as the network of "
            f"{trained.path} tells apart, got {data.name} with {data.num_classes}. Evaluate on "
            f"{trained.data or 'the data set it was trained on'}."
        )
    if trained.classes and trained.classes != data.classes:
        pairs = enumerate(zip(trained.classes, data.classes, strict=True))
        index, (ours, theirs) = next((k, pair) for k, pair in pairs if pair[0] != pair[1])
        raise ValueError(
            f"`data` must have the classes of the network of {trained.path} in their order, but "
            f"class {index} is {theirs!r} in {data.name} and {ours!r} there. Evaluate on the data "
            "set it was trained on."
        )


def _find(path: Path) -> tuple[Path, Path]:
    """Returns the file of weights, and the file (it may not exist) that tells of the run."""
    if path.is_dir():
        run = RunFolder(path)
        if run.weights.is_file():
            return run.weights, run.metadata
        found, advice = "no run", "Runs are in OUT/RECIPE/METHOD/seed-N"
        if run.checkpoint.exists():
            found = "a run that is not finished"
            advice = "Finish it with the command that began it"
        raise ValueError(
            f"`path` must be the folder of a finished run, but {path} holds {found}: there is no "
            f"{run.weights.name}. {advice}."
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"`path` must be a run's folder or a file of weights, but there is no {path}."
        )
    if path.suffix not in (".safetensors", *PICKLED):
        raise ValueError(
            f"`path` must be a run's folder or end in .safetensors, .pt or .pth, got {path}."
        )
    # The weights of a run have its metadata beside them; other files have none.
    run = RunFolder(path.parent)
    return path, run.metadata if path == run.weights else path.with_name(f"{path.name}.none")


def _number(about: Mapping[str, str], file: Path, key: str = "num_classes") -> int | None:
    text = about.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < len("1000000000") and int(text)):
        raise _damaged(file, key, text)
    return int(text)


def _shape(about: Mapping[str, str], file: Path) -> Shape | None:
    if "shape" not in about:
        return None
    shape = _parsed(about, "shape", file)
    sides = shape if isinstance(shape, list) else []
    good = all(type(side) is int and 0 < side <= MAX_SIDE for side in sides)
    if len(sides) != 3 or not good:
        raise _damaged(file, "shape", about["shape"])
    channels, height, width = sides
    return channels, height, width


def _classes(about: Mapping[str, str], count: int, file: Path) -> tuple[str, ...]:
    if "classes" not in about:
        return ()
    names = _parsed(about, "classes", file)
    good = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not good or len(names) != count:
        raise _damaged(file, "classes", about["classes"])
    return tuple(names)


def _parsed(about: Mapping[str, str], key: str, file: Path) -> Any:
    try:
        return json.loads(about[key])
    except (ValueError, RecursionError):
        raise _damaged(file, key, about[key]) from None


def _told(metadata: Path) -> dict[str, Any]:
    """Returns the method, the seed and the recipe of a run's metadata; nothing without a file."""
    if not metadata.is_file():
        return {}
    try:
        told = json.loads(metadata.read_text())
        found = {name: told[name] for name in ("method", "seed", "recipe")}
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as why:
        raise ValueError(
            f"`path` must be a run's folder, but its {metadata} is damaged ({reason(why)}). Put "
            "back a good copy, or move that file away and evaluate the weights alone."
        ) from None
    kinds = {"method": str, "seed": int, "recipe": dict}
    for name, kind in kinds.items():
        if not isinstance(found[name], kind):
            raise _damaged(metadata, name, str(found[name]))
    return found


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
        raise _misfit(name, file, reason(why)) from None


def _misfit(name: str, file: Path, why: str) -> ValueError:
    return ValueError(
        f"`path` must hold weights of the network {name}, but those of {file} do not fit it "
        f"({why}). Name the network they are of with --model."
    )


def _damaged(file: Path, name: str, value: str) -> ValueError:
    return ValueError(
        f"`path` must be a file that comixup wrote, but {name} of {file} is "
        f"{value[:REASON_LETTERS]!r}. Put back a good copy."
    )
