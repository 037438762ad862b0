"""Data sets by name, with fewer classes or images, or some held out for validation."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from comixup._checks import check_count, check_number
from comixup.data._cifar import KINDS, read_cifar
from comixup.data._digits import read_digits
from comixup.data._folder import read_folder, read_imagenet
from comixup.data._places import data_root
from comixup.data._seeds import Purpose, permutation
from comixup.data._sets import DataSet
from comixup.data._speech import read_speech
from comixup.data._tiny_imagenet import read_tiny_imagenet

_OF_IMAGE_FILES: dict[str, Callable[[str, Path, bool], DataSet]] = {
    "folder": read_folder,
    "imagenet": read_imagenet,
    "tiny-imagenet": read_tiny_imagenet,
}
_SPEECH = "speech-commands"
_DIGITS = "digits"


def names() -> list[str]:
    """Returns the names of the data sets that `load` knows, sorted.

    >>> "cifar100" in names()
    True
    """
    return sorted([*_OF_IMAGE_FILES, *KINDS, _SPEECH, _DIGITS])


def load(
    name: str,
    root: str | Path | None = None,
    *,
    classes: Sequence[str | int] | None = None,
    images_per_class: int | None = None,
    validation: float | None = None,
    validation_seed: int | None = None,
    seed: int = 0,
    download: bool = False,
    skip_bad: bool = False,
) -> DataSet:
    """Returns a data set.

    Args:
        name: one of `names()`.
        root: the folder that data sets lie in, or that of the set itself. None means the
            environment variable COMIXUP_DATA, or else ./data. The digits need none.
        classes: the classes to keep in every split, by name or by index; they are numbered anew,
            in the data set's own order. None keeps all.
        images_per_class: how many training images of each class to keep, drawn by `seed`; None
            keeps all.
        validation: fraction of the training images of each class that is held out as `.validation`
            before anything else; None holds out nothing.
        validation_seed: decides which images are held out, so that they can be the same ones for
            every `seed`; None means `seed`.
        seed: decides which images are kept, and held out if nothing else does.
        download: fetch CIFAR if it is not there; others have to be fetched by hand.
        skip_bad: leave out damaged images, with a warning that counts and names them, rather than
            reject the set. Of sets that stay on the disk this tries the test images alone; damaged
            training images still stop an epoch with an error message.

    >>> digits = load("digits", images_per_class=5)
    >>> digits.num_classes, len(digits.train), len(digits.test)
    (10, 50, 1000)
    """
    _check(name, images_per_class, validation, validation_seed, seed, download, skip_bad)
    if name == _DIGITS:
        data = read_digits(name)
    elif name == _SPEECH:
        data = read_speech(name, data_root(root))
    elif name in KINDS:
        data = read_cifar(name, data_root(root), download)
    else:
        data = _OF_IMAGE_FILES[name](name, data_root(root), skip_bad)
    if classes is not None:
        data = _keep_classes(data, classes)
    if validation is not None:
        data = _hold_out(data, validation, seed if validation_seed is None else validation_seed)
    if images_per_class is not None:
        data = _keep_images(data, images_per_class, seed)
    return data


def _check(
    name: str,
    images_per_class: int | None,
    validation: float | None,
    validation_seed: int | None,
    seed: int,
    download: bool,
    skip_bad: bool,
) -> None:
    if name not in names():
        close = difflib.get_close_matches(str(name).lower(), names(), n=2, cutoff=0.5)
        hint = f" Did you mean {' or '.join(repr(match) for match in close)}?" if close else ""
        raise ValueError(f"`name` must be one of {names()}, got {name!r}.{hint}")
    if images_per_class is not None:
        check_count("images_per_class", images_per_class)
    if validation is not None:
        check_number("validation", validation, high=1)
        if validation in (0, 1):
            raise ValueError(
                f"`validation` must be between 0 and 1, got {validation!r}. Leave it out to hold "
                "out nothing."
            )
    check_count("seed", seed, low=0)
    if validation_seed is not None:
        check_count("validation_seed", validation_seed, low=0)
        if validation is None:
            raise ValueError(
                f"`validation_seed` must be None where nothing is held out, got {validation_seed}. "
                "Give the fraction to hold out as `validation` (--validation)."
            )
    if skip_bad and name not in _OF_IMAGE_FILES:
        raise ValueError(
            f"`skip_bad` must be False for {name!r}, got True. Only {', '.join(_OF_IMAGE_FILES)} "
            "have a file for each image."
        )
    if download and name not in (*KINDS, _DIGITS):
        raise ValueError(
            f"`download` must be False for {name!r}, got True. Only {' and '.join(KINDS)} can be "
            "fetched; fetch others by hand and name their folder by `root`."
        )


def _keep_classes(data: DataSet, classes: Sequence[str | int]) -> DataSet:
    """Returns the set with these classes alone, numbered from 0 in the order they had."""
    kept = sorted({_class_index(data, given) for given in classes})
    if len(kept) != len(classes) or not kept:
        raise ValueError(
            f"`classes` must name different classes, one at least, got {list(classes)!r}."
        )
    number = torch.full((data.num_classes,), -1)
    number[kept] = torch.arange(len(kept))
    chosen = {
        name: (number[split.targets] >= 0).nonzero().squeeze(1)
        for name, split in data.splits.items()
    }
    empty = [name for name, indices in chosen.items() if not len(indices)]
    if empty:
        raise ValueError(
            f"`classes` must have {empty[0]} images in {data.name}, got {list(classes)!r}, which "
            "have none."
        )
    splits = {
        name: split.subset(chosen[name]).with_targets(number[split.targets[chosen[name]]])
        for name, split in data.splits.items()
    }
    names = tuple(data.classes[index] for index in kept)
    return replace(data, classes=names, test_indices=chosen["test"], **splits)  # type: ignore[arg-type]


def _class_index(data: DataSet, given: str | int) -> int:
    """Returns the index of a class given by its name, else by its index."""
    if isinstance(given, str) and given in data.classes:
        first = data.classes.index(given)
        if given in data.classes[first + 1 :]:
            second = data.classes.index(given, first + 1)
            raise ValueError(
                f"`classes` must name one class each, got {given!r}, the name of classes {first} "
                f"and {second} of {data.name}. Give its index."
            )
        return first
    if isinstance(given, str) and given.isascii() and given.isdigit():
        given = int(given)
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < data.num_classes:
        return given
    close = difflib.get_close_matches(str(given), data.classes, n=3)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    raise ValueError(
        f"`classes` must be names or indices, from 0 to {data.num_classes - 1}, of classes of "
        f"{data.name}, got {given!r}.{hint}"
    )


def _hold_out(data: DataSet, fraction: float, seed: int) -> DataSet:
    """Returns the set with a fraction of each class's training images as its validation images."""
    if data.validation is not None:
        raise ValueError(
            f"`validation` must be None for {data.name!r}, which has validation images of its own, "
            f"got {fraction!r}."
        )
    held = []
    for target, members in enumerate(_members(data)):
        if len(members) < 2:
            raise ValueError(
                f"`validation` must leave images of each class to train on, got {fraction!r} where "
                f"class {data.classes[target]!r} has {len(members)} in all."
            )
        count = min(max(1, round(fraction * len(members))), len(members) - 1)
        held.append(_drawn(members, count, seed, target, Purpose.VALIDATION))
    chosen = torch.cat(held).sort().values
    rest = torch.ones(len(data.train), dtype=torch.bool)
    rest[chosen] = False
    return replace(
        data,
        train=data.train.subset(rest.nonzero().squeeze(1)),
        validation=data.train.subset(chosen),
    )


def _keep_images(data: DataSet, count: int, seed: int) -> DataSet:
    """Returns the set with so many training images of each class, in their own order."""
    kept = []
    for target, members in enumerate(_members(data)):
        if len(members) < count:
            raise ValueError(
                f"`images_per_class` must be at most {len(members)}, the training images of class "
                f"{data.classes[target]!r}, got {count}."
            )
        kept.append(_drawn(members, count, seed, target, Purpose.LABELS))
    return replace(data, train=data.train.subset(torch.cat(kept).sort().values))


def _members(data: DataSet) -> list[Tensor]:
    """Returns the training images of each class."""
    targets = data.train.targets
    return [(targets == target).nonzero().squeeze(1) for target in range(data.num_classes)]


def _drawn(members: Tensor, count: int, seed: int, target: int, purpose: Purpose) -> Tensor:
    order = permutation(len(members), seed, target, purpose)
    return members[torch.from_numpy(np.sort(order[:count]))]
