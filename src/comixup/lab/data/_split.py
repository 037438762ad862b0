"""Splits of a data set, their batches, and which images each process has at each step."""

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
"""Images that a process trains on at least: batch norm learns nothing from one."""
Grid: TypeAlias = tuple[int, ...]
"""Cells per side, as `SaliencyMemory.grid` has them."""


class Split(ABC):
    """Images and classes that serve one purpose.

    Attributes:
        targets: (n,) int64 class indices in the split's own order, in host memory. Where an image
            may have any number of labels, (n, classes) float32 of 0 and 1.
        mean: per channel: what normalization subtracts.
        std: per channel: what it then divides by.
        rows: (n,) what a scan has found of the images' files; empty where there was none.
    """

    targets: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rows: Rows = NO_ROWS

    def __len__(self) -> int:
        """Returns how many images there are."""
        return len(self.targets)

    @property
    def paths(self) -> list[Path]:
        """Returns the images' files in the split's order; empty where images have none."""
        return []

    @abstractmethod
    def subset(self, indices: Tensor) -> Split:
        """Returns the split with these images alone, in the order of `indices`."""

    def digest(self) -> str:
        """Returns a digest of what the images are, wherever they lie and however old they are.

        Of images that are files, their relative names and contents (of ImageNet, names and sizes);
        of others, all their bytes. It is made once.
        """
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        return digest_of(self.targets, self._content())

    @abstractmethod
    def _content(self) -> Iterable[bytes | Tensor]:
        """Returns what the images' digest is of."""

    def resized_side(self, image_size: int | None = None) -> int | None:
        """Returns the shorter side that images are resized to before evaluation crops them.

        None for sets of one size, whose images are shown as they are.

        Args:
            image_size: of the crop; see `loader`.
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
            device: where the batches are wanted. Images in memory move there here, once.
            workers: processes that read from disk, or augment images in memory one by one. They
                change nothing but the speed.
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
        """Returns which images of the split's own order this process has of a step."""
        share = self._order.share(step)
        return slice(share.start, share.stop)

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Returns an epoch's batches: normalized float32 images on the device, int64 targets.

        Args:
            epoch: from 0 on. With augmentation, each epoch has its own order and draws.
            first_step: where to begin. Earlier batches are not loaded, later ones are what they
                would have been.
        """
        batches = self._batches(epoch, self._order.steps(first_step), None)
        return ((images, targets) for images, targets, _ in batches)

    def epoch_with_origins(
        self, epoch: int, memory: SaliencyMemory, first_step: int = 0
    ) -> Iterator[tuple[Tensor, Tensor, Origin]]:
        """Returns the same batches, with the examples and cells that their pixels show.

        Args:
            epoch: see `epoch`.
            memory: of the split's images; it says what the cells are.
            first_step: see `epoch`.
        """
        return self._batches(epoch, self._order.steps(first_step), memory.grid)

    def _batches(
        self, epoch: int, steps: range, grid: Grid | None
    ) -> Iterator[tuple[Tensor, Tensor, Origin]]:
        batches = _Batches(self, epoch, grid)
        made: Iterable[Any] = map(batches.__getitem__, steps)
        if self._workers:
            # Workers live for an epoch: starting them is cheap beside it. The generator is for the
            # loader's own seeds, which nothing uses; else it would draw from torch's global one.
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
        """Returns a step's images, not normalized, and if asked for the cells that they show.

        Args:
            chosen: indices of the images.
            epoch: of the augmentation.
            step: of the epoch.
            grid: of the cells, (b, H, W) uint8; None asks for none.
        """

    def _threads(self) -> contextlib.AbstractContextManager[None]:
        """Returns what sets the number of threads that make a batch."""
        return contextlib.nullcontext()


class _Batches(Dataset[Any]):
    """The batches of an epoch by step: what workers make."""

    def __init__(self, loader: Loader, epoch: int, grid: Grid | None) -> None:
        self._loader, self._epoch, self._grid = loader, epoch, grid
        self._indices = torch.from_numpy(loader._order.indices(epoch))

    def __getitem__(self, step: int) -> tuple[Tensor, Tensor | None, Tensor] | str:
        """Returns a step's images, cells and indices, or the error message of a damaged image."""
        share = self._loader._order.share(step)
        chosen = self._indices[share.start : share.stop]
        try:
            return *self._loader._views(chosen, self._epoch, step, self._grid), chosen
        except ValueError as error:  # exceptions from a worker come with its traceback
            return str(error)


# ---- Order ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """A process's share of a batch, as positions in the epoch's order.

    Attributes:
        start: position of the share's first image in the epoch.
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
        count: images of the split.
        batch_size: images of a step, all processes together.
        seed: decides the order of every epoch.
        shuffled: in random order, with at least two images for every process at every step; else
            in the images' own order, and nothing is left out.
        rank: which of the processes this is, from 0.
        world_size: how many processes there are.

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
        """Returns the steps of an epoch from the first one wanted."""
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
    """Returns a digest of class indices and of bytes or tensors, in their order.

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
