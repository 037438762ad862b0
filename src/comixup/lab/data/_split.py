"""Splits of a data set, their loaders, and the images of each process at each step."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from comixup import Origin, SaliencyMemory
from comixup._checks import check_choice, check_count
from comixup.core.tensors import to_device
from comixup.lab._augmentation import AUGMENTATIONS, Augmentation
from comixup.lab._image_files import status_of
from comixup.lab._preprocess import normalize
from comixup.lab._seeds import Purpose, permutation
from comixup.lab.data._scan import NO_ROWS, Rows

MIN_SHARE = 2
"""Least images per process and step: batch norm needs more than one."""
Grid: TypeAlias = tuple[int, ...]
"""Cells per side, such as `SaliencyMemory.grid`."""


class Split(ABC):
    """The images and targets of a split, such as the training split.

    Attributes:
        targets: (n,) int64 class indices in the split's own order, in host memory. For multi-label
            data, (n, classes) float32 of 0 and 1.
        mean: mean of the normalization per channel.
        std: standard deviation of the normalization per channel.
        rows: (n,) results of the scan of the images' files; empty without a scan.
    """

    targets: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rows: Rows = NO_ROWS

    def __len__(self) -> int:
        """Returns the number of images."""
        return len(self.targets)

    @property
    def paths(self) -> list[Path]:
        """Returns the images' files in the split's order; empty for images without files."""
        return []

    @abstractmethod
    def subset(self, indices: Tensor) -> Split:
        """Returns the split with these images only, in the order of `indices`."""

    def digest(self) -> str:
        """Returns a digest of the images, independent of their location and age.

        It covers relative names and contents of image files (for ImageNet, names and sizes), or all
        bytes of other images. It is computed once.
        """
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        return digest_of(self.targets, self._content())

    @abstractmethod
    def _content(self) -> Iterable[bytes | Tensor]:
        """Returns the content of the digest."""

    def resized_side(self, image_size: int | None = None) -> int | None:
        """Returns the shorter side that images are resized to before evaluation crops them.

        None for sets of one size, whose images are not resized.

        Args:
            image_size: size of the crop; see `loader`.
        """
        return None

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
        """Returns a loader of batches, optionally shuffled and augmented.

        Args:
            batch_size: images per step, over all processes.
            seed: seed of the order and the augmentation of every epoch.
            augment: shuffle and augment, for training: "crop-flip"; "trivial", "rand" or "auto",
                which add torchvision's TrivialAugmentWide, RandAugment or AutoAugment; or "none". A
                last batch with fewer than 2 images for some process is dropped. None: neither
                shuffles nor drops images; a process's share of the last batch may be empty.
            image_size: pixels per side, for sets read from disk; None means 224.
            min_scale: least area of a random crop, as a fraction of the image's, for sets read from
                disk; None means 0.08.
            rank: rank of this process, from 0. Each has a contiguous share of every batch; all
                shares together are the batch of a single process.
            world_size: number of processes that share a batch.
            device: device of the batches. Images in memory are moved there once, here.
            workers: processes that read from disk, or augment images in memory one by one. Batches
                do not depend on their number.
        """
        check_choice("augment", augment, (None, *AUGMENTATIONS))
        check_count("workers", workers, low=0)
        order = Order(len(self), batch_size, seed, augment is not None, rank, world_size)
        place = torch.device(device)
        return self._loader(self, order, place, workers, augment, image_size, min_scale)

    @property
    @abstractmethod
    def _loader(self) -> Callable[..., Loader]:
        """Returns the class of the split's loaders."""


class Loader(ABC):
    """Batches of a split, epoch by epoch; from `Split.loader`."""

    def __init__(self, split: Split, order: Order, device: torch.device, workers: int) -> None:
        self._order = order
        self._device = device
        self._workers = workers
        self._targets = split.targets.to(device)
        self._mean, self._std = split.mean, split.std

    def __len__(self) -> int:
        """Returns the steps of an epoch."""
        return len(self._order)

    def share(self, step: int) -> slice:
        """Returns this process's images of a step, as a slice of the split's own order."""
        share = self._order.share(step)
        return slice(share.start, share.stop)

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Returns an epoch's batches: normalized float32 images on the device, int64 targets.

        Args:
            epoch: epoch, from 0. With augmentation, each epoch has its own order and draws.
            first_step: step to start at. Earlier batches are not loaded; later ones do not change.
        """
        batches = self._batches(epoch, self._order.steps(first_step), None)
        return ((images, targets) for images, targets, _ in batches)

    def epoch_with_origins(
        self, epoch: int, memory: SaliencyMemory, first_step: int = 0
    ) -> Iterator[tuple[Tensor, Tensor, Origin]]:
        """Returns the same batches, with the examples and cells that their pixels show.

        Args:
            epoch: see `epoch`.
            memory: saliency memory of the split's images; it defines the cells.
            first_step: see `epoch`.
        """
        return self._batches(epoch, self._order.steps(first_step), memory.grid)

    def _batches(
        self, epoch: int, steps: range, grid: Grid | None
    ) -> Iterator[tuple[Tensor, Tensor, Origin]]:
        batches = _Batches(self, epoch, grid)
        made: Iterable[Any] = map(batches.__getitem__, steps)
        if self._workers:
            # Workers are started per epoch, which is cheap in comparison. The generator is for the
            # loader's own unused seeds; otherwise it would draw from torch's global one.
            made = DataLoader(
                batches,
                batch_size=None,
                sampler=list(steps),
                num_workers=self._workers,
                pin_memory=self._device.type == "cuda",
                generator=torch.Generator(),
            )
        for batch in made:
            if isinstance(batch, str):
                raise ValueError(batch)
            pixels, cells, chosen = batch
            with self._threads():
                images = normalize(to_device(pixels, self._device), self._mean, self._std)
                targets = self._targets.index_select(0, to_device(chosen, self._device))
            yield images, targets, Origin(chosen, cells)

    @abstractmethod
    def _views(
        self, chosen: Tensor, epoch: int, step: int, grid: Grid | None
    ) -> tuple[Tensor, Tensor | None]:
        """Returns a step's images, not normalized, and if requested the cells that they show.

        Args:
            chosen: indices of the images.
            epoch: epoch of the augmentation.
            step: step of the epoch.
            grid: grid of the returned cell numbers, (b, H, W) uint8; None returns None.
        """

    def _threads(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context that sets the number of threads for a batch."""
        return contextlib.nullcontext()


class _Batches(Dataset[Any]):
    """The batches of an epoch by step, loaded by workers."""

    def __init__(self, loader: Loader, epoch: int, grid: Grid | None) -> None:
        self._loader, self._epoch, self._grid = loader, epoch, grid
        self._indices = torch.from_numpy(loader._order.indices(epoch))

    def __getitem__(self, step: int) -> tuple[Tensor, Tensor | None, Tensor] | str:
        """Returns a step's images, cells and indices, or the error message of a damaged image."""
        share = self._loader._order.share(step)
        chosen = self._indices[share.start : share.stop]
        try:
            return *self._loader._views(chosen, self._epoch, step, self._grid), chosen
        except ValueError as error:  # exceptions from a worker include its traceback
            return str(error)


# ---- Order ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """A process's share of a batch, as positions in the epoch's order.

    Attributes:
        start: position of its first image in the epoch.
        stop: exclusive end.
        first: position of its first image within the batch of all processes.
        batch: images in the batch of all processes.
    """

    start: int
    stop: int
    first: int
    batch: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Order:
    """The order of a split's images in every epoch, and its division into steps and shares.

    Attributes:
        count: number of images in the split.
        batch_size: images per step, over all processes.
        seed: seed of the order of every epoch.
        shuffled: random order, with at least two images per process and step; else the images' own
            order, with all images.
        rank: rank of this process, from 0.
        world_size: number of processes.

    >>> len(Order(count=10, batch_size=4)), len(Order(count=9, batch_size=4, shuffled=True))
    (3, 2)
    """

    count: int
    batch_size: int
    seed: int = 0
    shuffled: bool = False
    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        check_count("batch_size", self.batch_size)
        check_count("world_size", self.world_size)
        check_count("seed", self.seed, low=0)
        check_count("rank", self.rank, low=0)
        if self.rank >= self.world_size:
            raise ValueError(
                f"`rank` must be below `world_size`, got rank {self.rank} of {self.world_size}. "
                "Ranks are counted from 0."
            )
        batch = min(self.batch_size, self.count)
        if self.shuffled and batch // self.world_size < MIN_SHARE:
            raise ValueError(
                f"`batch_size` must give each of the {self.world_size} processes at least "
                f"{MIN_SHARE} images to train on, got batches of {batch} (of {self.count} training "
                f"images). Use --batch-size {MIN_SHARE * self.world_size} or more (with as many "
                f"images), or at most {max(batch // MIN_SHARE, 1)} processes."
            )

    def __len__(self) -> int:
        """Returns the steps of an epoch."""
        full, rest = divmod(self.count, self.batch_size)
        if not self.shuffled or not full:
            return full + (rest > 0)
        return full + (rest // self.world_size >= MIN_SHARE)

    def indices(self, epoch: int) -> npt.NDArray[np.int64]:
        """Returns all images' indices in an epoch's order."""
        check_count("epoch", epoch, low=0)
        if not self.shuffled:
            return np.arange(self.count)
        return permutation(self.count, self.seed, epoch, Purpose.ORDER)

    def steps(self, first_step: int) -> range:
        """Returns the steps of an epoch from `first_step` on."""
        check_count("first_step", first_step, low=0)
        if first_step > len(self):
            raise ValueError(
                f"`first_step` must be at most {len(self)}, the steps of an epoch, got "
                f"{first_step}. Was the run begun with other batches?"
            )
        return range(first_step, len(self))

    def share(self, step: int) -> Share:
        """Returns this process's share of a step, divided as `torch.tensor_split` does."""
        begin = step * self.batch_size
        batch = min(self.batch_size, self.count - begin)
        each, larger = divmod(batch, self.world_size)
        first = self.rank * each + min(self.rank, larger)
        size = each + (self.rank < larger)
        return Share(begin + first, begin + first + size, first, batch)


# ---- Digests -------------------------------------------------------------------------------------


def digest_of(targets: Tensor, content: Iterable[bytes | Tensor]) -> str:
    """Returns a digest of class indices and of bytes or tensors, in order.

    >>> import torch
    >>> digest_of(torch.tensor([0]), [b"a", b"b"]) == digest_of(torch.tensor([0]), [b"ab"])
    False
    """
    digest = hashlib.blake2b(_raw(targets), digest_size=16)
    for item in content:
        data = _raw(item) if isinstance(item, Tensor) else item
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def file_sources(
    files: Sequence[bytes | Path], contents: npt.NDArray[np.bytes_] | None
) -> npt.NDArray[np.bytes_]:
    r"""Returns each file's name, relative to the common parent folder, with its content's digest.

    Args:
        files: their paths.
        contents: (n,) digests; None uses the files' sizes instead.

    >>> file_sources([Path("a/b/c")], np.array([b"123"])).tolist()
    [b'c\x00123']
    """
    names = [os.fsencode(file) for file in files]
    # The common path of the alphabetically first and last names is common to all. A single file has
    # its own name.
    folder = os.path.commonpath([os.path.dirname(min(names)), os.path.dirname(max(names))])
    relative = (os.path.relpath(name, folder).replace(os.fsencode(os.sep), b"/") for name in names)
    if contents is None:
        contents = np.array([b"%d" % status_of(name).st_size for name in names])
    return np.array([b"%s\0%s" % pair for pair in zip(relative, contents.tolist(), strict=True)])


def _raw(tensor: Tensor) -> memoryview:
    """Returns a tensor's bytes, without a copy if contiguous."""
    array = np.ascontiguousarray(tensor.numpy()).reshape(-1)
    return array.view(np.uint8).data
