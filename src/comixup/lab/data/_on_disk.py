"""Large data sets: read from disk, by worker processes if wanted, at every epoch anew."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from comixup import Origin, SaliencyMemory
from comixup._checks import check_choice, check_count, check_number, check_positive
from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import tracked
from comixup.core.tensors import to_device
from comixup.lab._augmentation import AUGMENTATIONS, DEFAULT_MIN_SCALE, Augmentation, training_view
from comixup.lab._image_files import read_image
from comixup.lab._pictures import CenterView
from comixup.lab._preprocess import normalize, resized_side
from comixup.lab._seeds import Purpose, seed_for
from comixup.lab.data._data_set import digest_of, file_sources
from comixup.lab.data._sampler import Order
from comixup.lab.data._scan import NO_ROWS, Rows

DEFAULT_SIZE = 224

# An image's index and the epoch that its augmentation is for; None to leave it as it is.
_Request: TypeAlias = tuple[int, int | None]
_Target: TypeAlias = np.int64 | npt.NDArray[np.float32]
# An image, its class or labels, its index, and its cells' numbers if a memory asks for them.
_Sample: TypeAlias = tuple[Tensor, _Target, int, Tensor | None]
_Batch: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor | None]


@dataclass(frozen=True, eq=False)
class DiskSplit:
    """A split whose images are files of any size.

    Attributes:
        files: (n,) paths, as bytes: one array, since workers would copy a list of strings in time.
        targets: (n,) int64 class indices, or (n, classes) float32 labels of 0 and 1.
        mean: per channel: what normalisation subtracts.
        std: per channel: what it then divides by.
        rows: (n,) what `scan` has found of each file; none if they were not scanned.
    """

    files: npt.NDArray[np.bytes_]
    targets: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    rows: Rows = field(default_factory=lambda: NO_ROWS)

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def paths(self) -> list[Path]:
        """Returns the images' files; see `Split.paths`."""
        return [Path(os.fsdecode(file)) for file in self.files]

    def subset(self, indices: Tensor) -> DiskSplit:
        """Returns the split with these images alone."""
        chosen = indices.numpy()
        rows = self.rows[chosen] if len(self.rows) else self.rows
        return replace(self, files=self.files[chosen], targets=self.targets[indices], rows=rows)

    def with_targets(self, targets: Tensor) -> DiskSplit:
        """Returns the split with other class indices."""
        return replace(self, targets=targets)

    def with_normalization(self, mean: tuple[float, ...], std: tuple[float, ...]) -> DiskSplit:
        """Returns the split with its images normalised by other numbers."""
        return replace(self, mean=mean, std=std)

    def digest(self) -> str:
        """Returns a digest of what the images are; see `Split.digest`."""
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        contents = self.rows["content"] if len(self.rows) else None
        return digest_of(self.targets, file_sources(self.files.tolist(), contents).tolist())

    def resized_side(self, image_size: int | None = None) -> int:
        """Returns the shorter side that images are resized to before the crop."""
        return resized_side(DEFAULT_SIZE if image_size is None else image_size)

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
    ) -> DiskLoader:
        """Returns batches; see `Split.loader`. Images travel as bytes, normalised on the device."""
        size = DEFAULT_SIZE if image_size is None else image_size
        scale = DEFAULT_MIN_SCALE if min_scale is None else min_scale
        check_count("image_size", size)
        check_number("min_scale", scale, high=1)
        check_positive("min_scale", scale)
        check_count("workers", workers, low=0)
        check_choice("augment", augment, (None, *AUGMENTATIONS))
        order = Order(len(self), batch_size, seed, augment is not None, rank, world_size)
        transform = training_view(augment or "none", size, scale)
        return DiskLoader(self, order, _Images(self, transform, size, seed), device, workers)


class DiskLoader:
    """Batches of a `DiskSplit`; see `Loader`."""

    def __init__(
        self,
        split: DiskSplit,
        order: Order,
        images: _Images,
        device: torch.device | str,
        workers: int,
    ) -> None:
        self._split = split
        self._order = order
        self._images = images
        self._device = torch.device(device)
        self._workers = workers

    def __len__(self) -> int:
        return len(self._order)

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Returns an epoch's batches from `first_step` on; see `Loader.epoch`."""
        batches = self._batches(self._images, epoch, self._order.steps(first_step))
        return ((images, targets) for images, targets, _, _ in batches)

    def epoch_with_origins(
        self, epoch: int, memory: SaliencyMemory, first_step: int = 0
    ) -> Iterator[tuple[Tensor, Tensor, Origin]]:
        """Returns the same batches with where they come from; see `Loader.epoch_with_origins`."""
        requested = self._images.with_cells(memory.grid)
        batches = self._batches(requested, epoch, self._order.steps(first_step))
        return (
            (images, targets, Origin(indices, cells)) for images, targets, indices, cells in batches
        )

    def _requests(self, epoch: int, steps: range) -> Iterator[list[_Request]]:
        """Yields what is to be read at each step."""
        indices = self._order.indices(epoch)
        augmented_for = epoch if self._order.shuffled else None
        for step in steps:
            share = self._order.share(step)
            yield [(index, augmented_for) for index in indices[share.start : share.stop].tolist()]

    def _batches(self, images: _Images, epoch: int, steps: range) -> Iterator[_Batch]:
        # Workers live for an epoch: starting them is cheap beside reading one. The generator is
        # for the loader's own seeds, which nothing uses; else it would draw from torch's global.
        loader: DataLoader[Any] = DataLoader(
            images,
            batch_sampler=self._requests(epoch, steps),
            num_workers=self._workers,
            collate_fn=images.collate,
            pin_memory=self._device.type == "cuda",
            generator=torch.Generator(),
        )
        for batch in loader:
            if isinstance(batch, str):
                raise ValueError(batch)
            pixels, targets, indices, cells = batch
            pixels, targets = (to_device(t, self._device) for t in (pixels, targets))
            yield normalize(pixels, self._split.mean, self._split.std), targets, indices, cells


class _Images(Dataset[_Sample | str]):
    """What workers do: read an image and transform it, or return an error message."""

    def __init__(
        self, split: DiskSplit, transform: Callable[..., Any], size: int, seed: int
    ) -> None:
        self._files = split.files
        self._targets = split.targets.numpy()
        self._transform = transform
        self._tracked = transform if isinstance(transform, CenterView) else tracked(transform)
        self._size = size
        self._seed = seed
        self._grid: tuple[int, ...] | None = None

    def with_cells(self, grid: tuple[int, ...]) -> _Images:
        """Returns the same images, with the numbers of their cells beside them."""
        images = copy.copy(self)
        images._grid = grid
        return images

    def __getitem__(self, request: _Request) -> _Sample | str:
        """Returns an image (3, size, size) uint8 and its class, or an error message."""
        index, epoch = request
        try:
            picture = read_image(Path(os.fsdecode(self._files[index])))
        except ValueError as error:  # exceptions from a worker come with its traceback
            return str(error)
        # torchvision's transforms draw from torch's global generator: it is lent to them, seeded.
        with torch.random.fork_rng(devices=[]):
            if epoch is not None:
                seed = seed_for(self._seed, epoch, index, Purpose.CROPS)
                torch.default_generator.manual_seed(seed)
            if self._grid is None:
                return self._transform(picture), self._targets[index], index, None
            numbers = CellNumbers.of((picture.height, picture.width), self._grid)
            pixels, numbers = self._tracked(picture, numbers)
            return pixels, self._targets[index], index, numbers.tensor()

    def collate(self, samples: list[_Sample | str]) -> _Batch | str:
        """Returns a batch, possibly empty, or the error message of its first damaged image."""
        good: list[_Sample] = []
        for sample in samples:
            if isinstance(sample, str):
                return sample
            good.append(sample)
        if not good:
            empty = torch.empty(0, 3, self._size, self._size, dtype=torch.uint8)
            none = torch.empty(0, dtype=torch.int64)
            return (
                empty,
                torch.from_numpy(self._targets[:0]),
                none,
                (None if self._grid is None else empty[:, 0]),
            )
        images, targets, indices, cells = zip(*good, strict=True)
        moved = None if self._grid is None else torch.stack(cells)
        return (
            torch.stack(images),
            torch.from_numpy(np.array(targets)),
            torch.tensor(indices),
            moved,
        )
