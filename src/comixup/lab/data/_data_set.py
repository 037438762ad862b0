"""The class of data sets, and functions to select classes and images of one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from comixup._did_you_mean import did_you_mean
from comixup.lab._preprocess import per_channel
from comixup.lab._seeds import Purpose, permutation
from comixup.lab.data._split import Split

_NAMED = 5
"""Most classes that an error message names; it counts the others."""
DIGEST_LENGTH = 16
"""Length of a digest in hexadecimal digits."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set, ready to train on.

    Attributes:
        name: the name given to `load`; for a folder of images, the folder's.
        classes: class names, in the order of the class indices.
        shape: (C, H, W) of the loaders' images by default.
        mean: mean of the normalization per channel, for colors in [0, 1].
        std: standard deviation of the normalization per channel.
        train: the training split.
        test: the split of the paper's results (Tiny-ImageNet's and ImageNet's `val`).
        validation: the split to select settings on; None if there is none and none was held out.
        test_boxes: (n, k, 4) int64 boxes of the objects in each test image: x0, y0, x1, y1 in
            pixels, x1 and y1 exclusive; None if the set has none.
        notes: messages on skipped files of a folder or table, and why.
        left_out: error messages of damaged images skipped on request.
    """

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    train: Split
    test: Split
    validation: Split | None = None
    test_boxes: Tensor | None = None
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def splits(self) -> dict[str, Split]:
        """Returns the existing splits by name."""
        splits = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: split for name, split in splits.items() if split is not None}

    @property
    def missing_note(self) -> str | None:
        """Returns a message on classes without images in a split; None if there are none.

        Errors on such a split do not cover these classes.
        """
        parts = []
        for split in self.splits:
            counts = self.class_counts(split)
            names = [repr(name) for name, n in zip(self.classes, counts, strict=True) if not n]
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            parts += [f"{', '.join(names[:_NAMED])}{more} in {split}"] if names else []
        if not parts:
            return None
        return (
            f"Classes of {self.name} without images: {'; '.join(parts)}. Errors there leave them "
            "out."
        )

    def digest(self) -> str:
        """Returns a digest of classes and images, independent of their location.

        Names are compared by bytes: case and Unicode normalization matter.
        """
        # A name with the separator must not count as two names.
        names = [name.replace("\\", "\\\\").replace("\0", "\\0") for name in self.classes]
        digest = hashlib.blake2b("\0".join(names).encode(errors="surrogateescape"))
        for name, split in self.splits.items():
            digest.update(f"\0{name}\0{split.digest()}".encode())
        return digest.hexdigest()[:DIGEST_LENGTH]

    @property
    def num_classes(self) -> int:
        """Returns the number of classes."""
        return len(self.classes)

    @property
    def multi_label(self) -> bool:
        """Whether an image may have any number of labels: targets are then (n, classes)."""
        return self.train.targets.ndim > 1

    def class_counts(self, split: str) -> list[int]:
        """Returns the number of images of each class in a split, by the split's name."""
        targets = self.splits[split].targets
        if targets.ndim > 1:
            return [int(count) for count in targets.sum(0).tolist()]
        return targets.bincount(minlength=self.num_classes).tolist()

    @property
    def has_colours(self) -> bool:
        """Whether images are colors in [0, 1] before normalization; spectrograms are not."""
        return set(self.mean) != {0.0} or set(self.std) != {1.0}

    def with_normalization(self, mean: tuple[float, ...], std: tuple[float, ...]) -> DataSet:
        """Returns the data set with another normalization, as a network's weights require.

        Spectrograms are left unchanged.

        Args:
            mean: mean per channel, for colors in [0, 1]. Gray images use the average of three.
            std: the same.
        """
        channels = self.shape[0]
        if channels == 1:
            mean, std = ((sum(values) / len(values),) for values in (mean, std))
        if not self.has_colours or (tuple(mean), tuple(std)) == (self.mean, self.std):
            return self
        if not len(mean) == len(std) == channels:
            raise ValueError(
                f"`mean` and `std` must have a number for each of {channels} channels of "
                f"{self.name}, got {len(mean)} and {len(std)}."
            )
        splits: dict[str, Any] = dict(self.splits)
        normalized = {name: replace(split, mean=mean, std=std) for name, split in splits.items()}
        return replace(self, mean=mean, std=std, **normalized)

    def pixels(self, images: Tensor) -> Tensor:
        """Returns a normalized batch in [0, 1] colors, for pictures.

        Spectrograms are returned unchanged.

        Args:
            images: (..., C, H, W). Not changed.
        """
        if not self.has_colours:
            return images.clone()
        mean, std = per_channel(self.mean, images), per_channel(self.std, images)
        return (images * std + mean).clamp(0, 1)  # rounding may exceed the range slightly


# ---- Some of its classes, fewer images, images held out of the training ones ---------------------


def keep_classes(data: DataSet, classes: Sequence[str | int]) -> DataSet:
    """Returns the set with these classes only, renumbered from 0 in their original order."""
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
    parts: dict[str, Any] = {name: data.splits[name].subset(chosen[name]) for name in chosen}
    splits = {name: replace(part, targets=number[part.targets]) for name, part in parts.items()}
    names = tuple(data.classes[index] for index in kept)
    boxes = None if data.test_boxes is None else data.test_boxes[chosen["test"]]
    return replace(data, classes=names, test_boxes=boxes, **splits)


def _class_index(data: DataSet, given: str | int) -> int:
    """Returns the index of a class, given its name or index."""
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
    """Returns the indices of remaining and of held-out images, a fraction of each class.

    An image with several labels counts for its rarest one. At least one image of each class is held
    out. `setting` names the fraction in error messages.
    """
    if targets.ndim > 1:  # images without labels count for the first class
        targets = torch.where(targets > 0, targets.sum(0), torch.inf).argmin(1)
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


def keep_images(data: DataSet, count: int, seed: int) -> DataSet:
    """Returns the set with `count` training images of each class, in their original order."""
    _check_one_label(data, "images_per_class")
    kept = []
    for target in range(data.num_classes):
        members = (data.train.targets == target).nonzero().squeeze(1)
        if len(members) < count:
            raise ValueError(
                f"`images_per_class` must be at most {len(members)}, the training images of class "
                f"{data.classes[target]!r}, got {count}."
            )
        kept.append(_drawn(members, count, seed, target, Purpose.LABELS))
    return replace(data, train=data.train.subset(torch.cat(kept).sort().values))


def _check_one_label(data: DataSet, name: str) -> None:
    """Rejects a selection by class for multi-label data."""
    if data.train.targets.ndim > 1:
        raise ValueError(
            f"`{name}` must be left out for images with any number of labels, as {data.name} has: "
            "an image belongs to no single class. Leave rows or columns out of the CSV file."
        )


def _drawn(members: Tensor, count: int, seed: int, target: int, purpose: Purpose) -> Tensor:
    order = permutation(len(members), seed, target, purpose)
    return members[torch.from_numpy(np.sort(order[:count]))]
