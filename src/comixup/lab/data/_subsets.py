"""Parts of a data set: some of its classes, fewer images, images held out of the training ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from comixup._did_you_mean import did_you_mean
from comixup.lab._seeds import Purpose, permutation
from comixup.lab.data._data_set import DataSet


def keep_classes(data: DataSet, classes: Sequence[str | int]) -> DataSet:
    """Returns the set with these classes alone, numbered from 0 in the order they had."""
    _check_one_label(data, "classes")
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
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 10:
        given = int(given)
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < data.num_classes:
        return given
    raise ValueError(
        f"`classes` must be names or indices, from 0 to {data.num_classes - 1}, of classes of "
        f"{data.name}, got {given!r}.{did_you_mean(str(given), data.classes)}"
    )


def hold_out(data: DataSet, fraction: float, seed: int) -> DataSet:
    """Returns the set with a fraction of each class's training images as its validation images."""
    if data.validation is not None:
        raise ValueError(
            f"`validation` must be None for {data.name!r}, which has validation images of its own, "
            f"got {fraction!r}."
        )
    rest, chosen = held_out(data.train.targets, data.classes, fraction, seed)
    return replace(data, train=data.train.subset(rest), validation=data.train.subset(chosen))


def held_out(
    targets: Tensor, classes: Sequence[str], fraction: float, seed: int, setting: str = "validation"
) -> tuple[Tensor, Tensor]:
    """Returns the indices of images that remain and of those held out, a fraction of each class.

    Of images with several labels the rarest counts as their class.

    Args:
        targets: (n,) class indices, or (n, classes) of 0 and 1.
        classes: their names.
        fraction: to be held out, of each class; one image at least.
        seed: decides which.
        setting: that the fraction is the value of, for the error message.
    """
    if targets.ndim > 1:
        targets = _rarest(targets)
    held = []
    for target in sorted(set(targets.tolist())):
        members = (targets == target).nonzero().squeeze(1)
        if len(members) < 2:
            raise ValueError(
                f"`{setting}` (--{setting.replace('_', '-')}) must leave images of each class to "
                f"train on, got {fraction!r} where class {classes[target]!r} has {len(members)} in "
                "all. Add images of it, or leave the class out."
            )
        count = min(max(1, round(fraction * len(members))), len(members) - 1)
        held.append(_drawn(members, count, seed, target, Purpose.VALIDATION))
    chosen = torch.cat(held).sort().values
    rest = torch.ones(len(targets), dtype=torch.bool)
    rest[chosen] = False
    return rest.nonzero().squeeze(1), chosen


def _rarest(targets: Tensor) -> Tensor:
    """Returns the rarest label of each image, (n,); that of the set where it has none."""
    counts = targets.sum(0)
    return torch.where(targets > 0, counts, torch.inf).argmin(1)


def keep_images(data: DataSet, count: int, seed: int) -> DataSet:
    """Returns the set with so many training images of each class, in their own order."""
    _check_one_label(data, "images_per_class")
    kept = []
    for target, members in enumerate(_members(data)):
        if len(members) < count:
            raise ValueError(
                f"`images_per_class` must be at most {len(members)}, the training images of class "
                f"{data.classes[target]!r}, got {count}."
            )
        kept.append(_drawn(members, count, seed, target, Purpose.LABELS))
    return replace(data, train=data.train.subset(torch.cat(kept).sort().values))


def _check_one_label(data: DataSet, name: str) -> None:
    """Rejects a choice by classes where an image may have any number of them."""
    if data.train.targets.ndim > 1:
        raise ValueError(
            f"`{name}` must be left out for images with any number of labels, as {data.name} has: "
            "an image belongs to no single class. Leave rows or columns out of the CSV file."
        )


def _members(data: DataSet) -> list[Tensor]:
    """Returns the training images of each class."""
    targets = data.train.targets
    return [(targets == target).nonzero().squeeze(1) for target in range(data.num_classes)]


def _drawn(members: Tensor, count: int, seed: int, target: int, purpose: Purpose) -> Tensor:
    order = permutation(len(members), seed, target, purpose)
    return members[torch.from_numpy(np.sort(order[:count]))]
