"""What a data set is: splits that make loaders, what is known of the images, and their digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from comixup import Origin, SaliencyMemory
from comixup.lab._augmentation import Augmentation
from comixup.lab._image_files import status_of
from comixup.lab._preprocess import per_channel
from comixup.lab.data._scan import Rows

_NAMED = 5
"""Classes that an error message names; of more it tells the number."""
DIGEST_LENGTH = 16
"""Hexadecimal digits."""


class Loader(Protocol):
    """Batches of a split, epoch by epoch."""

    def __len__(self) -> int:
        """Returns the steps of an epoch."""
        ...

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Returns an epoch's batches: normalised float32 images on the device, int64 targets.

        Args:
            epoch: from 0 on. With augmentation, each epoch has its own order and draws.
            first_step: where to begin. Earlier batches are not loaded, later ones are what they
                would have been.
        """
        ...

    def epoch_with_origins(
        self, epoch: int, memory: SaliencyMemory, first_step: int = 0
    ) -> Iterator[tuple[Tensor, Tensor, Origin]]:
        """Returns the same batches, with the examples and cells that their pixels show.

        Args:
            epoch: see `epoch`.
            memory: of the split's images; it says what the cells are.
            first_step: see `epoch`.
        """
        ...


class Split(Protocol):
    """Images and classes that serve one purpose."""

    @property
    def targets(self) -> Tensor:
        """Returns (n,) int64 class indices in the split's own order, in host memory.

        Where an image may have any number of labels, (n, classes) float32 of 0 and 1.
        """
        ...

    @property
    def paths(self) -> list[Path]:
        """Returns the images' files in the split's order; empty where images have none."""
        ...

    @property
    def rows(self) -> Rows:
        """Returns what a scan has found of the files; empty where images have none."""
        ...

    def __len__(self) -> int:
        """Returns how many images there are."""
        ...

    def subset(self, indices: Tensor) -> Split:
        """Returns the split with these images alone, in the order of `indices`."""
        ...

    def with_targets(self, targets: Tensor) -> Split:
        """Returns the split with other class indices, (n,) int64."""
        ...

    def with_normalization(self, mean: tuple[float, ...], std: tuple[float, ...]) -> Split:
        """Returns the split with its images normalised by other numbers, one per channel."""
        ...

    def digest(self) -> str:
        """Returns a digest of what the images are, wherever they lie and however old they are.

        Of images that are files, their relative names and contents (of ImageNet, names and sizes);
        of others, all their bytes. It is made once.
        """
        ...

    def resized_side(self, image_size: int | None = None) -> int | None:
        """Returns the shorter side that images are resized to before evaluation crops them.

        None for sets of one size, whose images are shown as they are.

        Args:
            image_size: of the crop; see `loader`.
        """
        ...

    def loader(
        self,
        batch_size: int,
        *,
        seed: int = 0,
        augment: Augmentation | None = None,
        image_size: int | None = None,
        min_scale: float | None = None,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str = "cpu",
        workers: int = 0,
    ) -> Loader:
        """Returns batches, shuffled and augmented by `seed` or else as the images are.

        Args:
            batch_size: images of a step, all processes together.
            seed: decides the order and the augmentation of every epoch.
            augment: shuffle and augment, to train on: "crop-flip", on top of that "trivial",
                "rand" or "auto" (torchvision's TrivialAugmentWide, RandAugment, AutoAugment), or
                "none". A last batch with fewer than 2 images for some process is left out. None:
                nothing is left out, the last batch is as small as it comes out, and a process's
                share of it may be empty.
            image_size: pixels per side, for sets read from disk; None means 224.
            min_scale: least fraction of an image's area that a random crop shows, for sets read
                from disk; None means 0.08.
            rank: which of the processes this is, from 0. Each has its own contiguous share of
                every batch; together they have what one process would have.
            world_size: how many processes share a batch.
            device: where the batches are wanted.
            workers: processes that read from disk; in-memory sets need none. They change nothing
                but the speed.
        """
        ...


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set, ready to train on.

    Attributes:
        name: as given to `load`; of a folder of images, the folder's.
        classes: their names, in the order of the class indices.
        shape: (C, H, W) of what loaders yield by default.
        mean: per channel, in [0, 1] colours: what normalisation subtracts.
        std: per channel, in [0, 1] colours: what it then divides by.
        train: to learn from.
        test: what the paper reports on (Tiny-ImageNet's and ImageNet's `val`).
        validation: to choose settings by; None if the set has none and none was held out.
        test_indices: (n,) which of the whole data set's test images `test` has; None for all.
        notes: lines on what of a folder or table was left out, and why.
        left_out: error messages of damaged images that were left out on request.
    """

    name: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    train: Split
    test: Split
    validation: Split | None = None
    test_indices: Tensor | None = None
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def splits(self) -> dict[str, Split]:
        """Returns the splits that there are, by name."""
        splits = {"train": self.train, "validation": self.validation, "test": self.test}
        return {name: split for name, split in splits.items() if split is not None}

    @property
    def missing(self) -> dict[str, tuple[str, ...]]:
        """Returns the names of the classes without images, by split; splits with all are left out.

        Errors over such a split say nothing of these classes.
        """
        found = {}
        for name in self.splits:
            counts = self.class_counts(name)
            absent = [word for word, n in zip(self.classes, counts, strict=True) if not n]
            if absent:
                found[name] = tuple(absent)
        return found

    @property
    def missing_note(self) -> str | None:
        """Returns a message with the classes that have no images in a split; None without any."""
        parts = [
            f"{', '.join(map(repr, names[:_NAMED]))}"
            f"{f' and {len(names) - _NAMED} more' if len(names) > _NAMED else ''} in {split}"
            for split, names in self.missing.items()
        ]
        if not parts:
            return None
        return (
            f"Classes of {self.name} without images: {'; '.join(parts)}. Errors there leave them "
            "out."
        )

    def digest(self) -> str:
        """Returns a digest of classes and images: equal for equal data, wherever they lie.

        Names count byte by byte: those that differ in case or in Unicode's form are others.
        """
        # A name that holds the separator must not pass for two names.
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
        """Whether images are colours from 0 to 1 before normalisation; spectrograms are not."""
        return set(self.mean) != {0.0} or set(self.std) != {1.0}

    def with_normalization(self, mean: tuple[float, ...], std: tuple[float, ...]) -> DataSet:
        """Returns the data set with its images normalised as a network's weights need it.

        Spectrograms, which have no colours, stay as they are.

        Args:
            mean: per channel, in [0, 1] colours. Grey images take the average over three.
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
        splits = {name: split.with_normalization(mean, std) for name, split in self.splits.items()}
        return replace(self, mean=mean, std=std, **splits)  # type: ignore[arg-type]

    def pixels(self, images: Tensor) -> Tensor:
        """Returns a normalised batch in [0, 1] colours, for pictures.

        Spectrograms have no colours: they come back as they are.

        Args:
            images: (..., C, H, W). Not changed.
        """
        if not self.has_colours:
            return images.clone()
        mean, std = per_channel(self.mean, images), per_channel(self.std, images)
        return (images * std + mean).clamp(0, 1)  # rounding may lead out of it by a hair


# ---- Digests -------------------------------------------------------------------------------------


DIGEST_BYTES = 16


def digest_of(targets: Tensor, content: Iterable[bytes | Tensor]) -> str:
    """Returns a digest of class indices and of bytes or tensors, in their order.

    >>> import torch
    >>> digest_of(torch.tensor([0]), [b"a", b"b"]) == digest_of(torch.tensor([0]), [b"ab"])
    False
    """
    digest = hashlib.blake2b(_raw(targets), digest_size=DIGEST_BYTES)
    for item in content:
        data = _raw(item) if isinstance(item, Tensor) else item
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def file_sources(
    files: Sequence[bytes | Path], contents: npt.NDArray[np.bytes_] | None
) -> npt.NDArray[np.bytes_]:
    r"""Returns each file's name, relative to the folder that all lie in, with its content's digest.

    Args:
        files: their paths.
        contents: (n,) digests; None takes the files' sizes instead.

    >>> file_sources([Path("a/b/c")], np.array([b"123"])).tolist()
    [b'c\x00123']
    """
    names = [os.fsencode(file) for file in files]
    # The longest path that the first and the last name in alphabetical order share is shared by
    # all. A lone file is named by itself.
    folder = os.path.commonpath([os.path.dirname(min(names)), os.path.dirname(max(names))])
    relative = (os.path.relpath(name, folder).replace(os.fsencode(os.sep), b"/") for name in names)
    if contents is None:
        contents = np.array([b"%d" % status_of(name).st_size for name in names])
    return np.array([b"%s\0%s" % pair for pair in zip(relative, contents.tolist(), strict=True)])


def _raw(tensor: Tensor) -> memoryview:
    """Returns a tensor's bytes, without a copy where they lie in order."""
    array = np.ascontiguousarray(tensor.numpy()).reshape(-1)
    return array.view(np.uint8).data
