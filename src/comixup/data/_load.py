"""The door to all data sets: by name, with fewer labels or a part held out if wanted."""

from __future__ import annotations

import difflib
from collections.abc import Callable
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
    labels_per_class: int | None = None,
    validation: float | None = None,
    seed: int = 0,
    download: bool = False,
    skip_bad: bool = False,
) -> DataSet:
    """Returns a data set.

    Args:
        name: one of `names()`.
        root: the folder that data sets lie in, or that of the set itself. None means the
            environment variable COMIXUP_DATA, or else ./data. The digits need none.
        labels_per_class: how many training images of each class to keep, drawn by `seed`; None
            keeps all.
        validation: share of the training images of each class, drawn by `seed`, that is held out
            as `.validation` before anything else; None holds out nothing.
        seed: decides which images are held out and kept.
        download: fetch CIFAR if it is not there; others have to be fetched by hand.
        skip_bad: leave out damaged images, with a warning that counts and names them, rather than
            refuse the set. Of sets that stay on the disk this tries the test images alone; damaged
            ones to train on still stop an epoch with a sentence.

    >>> digits = load("digits", labels_per_class=5)
    >>> digits.num_classes, len(digits.train), len(digits.test)
    (10, 50, 1000)
    """
    _check(name, labels_per_class, validation, seed, download, skip_bad)
    if name == _DIGITS:
        data = read_digits(name)
    elif name == _SPEECH:
        data = read_speech(name, data_root(root))
    elif name in KINDS:
        data = read_cifar(name, data_root(root), download)
    else:
        data = _OF_IMAGE_FILES[name](name, data_root(root), skip_bad)
    if validation is not None:
        data = _hold_out(data, validation, seed)
    if labels_per_class is not None:
        data = _keep_labels(data, labels_per_class, seed)
    return data


def _check(
    name: str,
    labels_per_class: int | None,
    validation: float | None,
    seed: int,
    download: bool,
    skip_bad: bool,
) -> None:
    if name not in names():
        close = difflib.get_close_matches(str(name).lower(), names(), n=2, cutoff=0.5)
        hint = f" Did you mean {' or '.join(repr(match) for match in close)}?" if close else ""
        raise ValueError(f"`name` must be one of {names()}, got {name!r}.{hint}")
    if labels_per_class is not None:
        check_count("labels_per_class", labels_per_class)
    if validation is not None:
        check_number("validation", validation, high=1)
        if validation in (0, 1):
            raise ValueError(
                f"`validation` must be between 0 and 1, got {validation!r}. Leave it out to hold "
                "out nothing."
            )
    check_count("seed", seed, low=0)
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


def _hold_out(data: DataSet, share: float, seed: int) -> DataSet:
    """Returns the set with a share of each class's training images as its validation images."""
    if data.validation is not None:
        raise ValueError(
            f"`validation` must be None for {data.name!r}, which has validation images of its own, "
            f"got {share!r}."
        )
    held = []
    for target, members in enumerate(_members(data)):
        if len(members) < 2:
            raise ValueError(
                f"`validation` must leave images of each class to learn from, got {share!r} where "
                f"class {data.classes[target]!r} has {len(members)} in all."
            )
        count = min(max(1, round(share * len(members))), len(members) - 1)
        held.append(_drawn(members, count, seed, target, Purpose.VALIDATION))
    chosen = torch.cat(held).sort().values
    rest = torch.ones(len(data.train), dtype=torch.bool)
    rest[chosen] = False
    return replace(
        data,
        train=data.train.subset(rest.nonzero().squeeze(1)),
        validation=data.train.subset(chosen),
    )


def _keep_labels(data: DataSet, count: int, seed: int) -> DataSet:
    """Returns the set with so many training images of each class, in their own order."""
    kept = []
    for target, members in enumerate(_members(data)):
        if len(members) < count:
            raise ValueError(
                f"`labels_per_class` must be at most {len(members)}, the training images of class "
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
