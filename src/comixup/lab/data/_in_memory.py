"""Small data sets: kept in memory, augmented a whole batch at a time."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL.Image
import torch
from torch import Tensor
from torch.nn.functional import pad as pad_borders
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2  # type: ignore[import-untyped]

from comixup import Origin, SaliencyMemory
from comixup._checks import check_choice, check_count
from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import tracked
from comixup.core.grid import cell_numbers
from comixup.core.tensors import to_device
from comixup.lab._augmentation import AUGMENTATIONS, Augmentation, operations
from comixup.lab._preprocess import normalize
from comixup.lab._seeds import Purpose, raw_draws
from comixup.lab.data._data_set import digest_of
from comixup.lab.data._sampler import Order, Share
from comixup.lab.data._scan import NO_ROWS, Rows

_HALF_OF_ALL_WORDS = np.uint64(2**63)


@dataclass(frozen=True, eq=False)
class MemorySplit:
    """A split whose images are all in host memory (or mapped into it from a file).

    Attributes:
        images: (n, C, H, W), uint8 colours or floats.
        targets: (n,) int64 class indices.
        mean: per channel: what normalisation subtracts.
        std: per channel: what it then divides by.
        pad: black pixels at each border, before a random crop of the image's size.
        flip: whether augmentation mirrors every other image.
        sources: (n,) what `file_sources` returns for the images' files; None for images that have
            no file of their own.
    """

    images: Tensor
    targets: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 0
    flip: bool = False
    sources: npt.NDArray[np.bytes_] | None = None

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def paths(self) -> list[Path]:
        """Returns nothing: the images are in memory."""
        return []

    @property
    def rows(self) -> Rows:
        """Returns nothing: the images are in memory."""
        return NO_ROWS

    def subset(self, indices: Tensor) -> MemorySplit:
        """Returns the split with these images alone, copied."""
        return replace(
            self,
            images=self.images[indices],
            targets=self.targets[indices],
            sources=None if self.sources is None else self.sources[indices.numpy()],
        )

    def with_targets(self, targets: Tensor) -> MemorySplit:
        """Returns the split with other class indices."""
        return replace(self, targets=targets)

    def with_normalization(self, mean: tuple[float, ...], std: tuple[float, ...]) -> MemorySplit:
        """Returns the split with its images normalised by other numbers."""
        return replace(self, mean=mean, std=std)

    def digest(self) -> str:
        """Returns a digest of what the images are; see `Split.digest`."""
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        if self.sources is not None:
            return digest_of(self.targets, self.sources.tolist())
        return digest_of(self.targets, [bytes(str(tuple(self.images.shape)), "ascii"), self.images])

    def resized_side(self, image_size: int | None = None) -> None:
        """Returns None: the images are shown as they are."""
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
    ) -> MemoryLoader:
        """Returns batches; see `Split.loader`. The images move to the device here, once.

        `workers` make batches whose images are augmented one by one; of others a batch takes less
        time than handing it over.
        """
        size = self.images.shape[-1]
        if image_size is not None and {image_size} != set(self.images.shape[2:]):
            raise ValueError(
                f"`image_size` must be None or {size}, the size that this data set has, got "
                f"{image_size!r}. Data sets read from disk ('imagenet', 'folder') come in any."
            )
        if min_scale is not None:
            raise ValueError(
                "`min_scale` must be None for a data set of small images, which are shifted and "
                f"not scaled, got {min_scale!r}."
            )
        check_choice("augment", augment, (None, *AUGMENTATIONS))
        drawn = None if augment is None else operations(augment)
        if drawn is not None and self.images.dtype != torch.uint8:
            raise ValueError(
                '`augment` must be "crop-flip" or "none" for spectrograms, got '
                f"{augment!r}, which changes brightness and colours too."
            )
        order = Order(len(self), batch_size, seed, augment is not None, rank, world_size)
        moved = augment not in (None, "none") and bool(self.pad or self.flip)
        check_count("workers", workers, low=0)
        return MemoryLoader(self, order, torch.device(device), moved, drawn, workers)


class MemoryLoader:
    """Batches of a `MemorySplit`; see `Loader`.

    Args:
        split: the images.
        order: of the epochs.
        device: where batches are wanted. The images are kept there, unless they are augmented one
            by one, on the host.
        moved: whether images are shifted and flipped.
        drawn: a transform of torchvision that is applied to each image after that, or None.
        workers: processes that make batches where there is one.
    """

    def __init__(
        self,
        split: MemorySplit,
        order: Order,
        device: torch.device,
        moved: bool,
        drawn: v2.Transform | None,
        workers: int = 0,
    ) -> None:
        self._split = split
        self._order = order
        self._device = device
        self._moved = moved
        self._drawn = drawn
        self._workers = 0 if drawn is None else workers
        self._images = split.images.to("cpu" if drawn is not None else device)
        self._targets = split.targets.to(device)

    def __len__(self) -> int:
        return len(self._order)

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Returns an epoch's batches from `first_step` on; see `Loader.epoch`."""
        batches = self._batches(epoch, self._order.steps(first_step), None)
        return ((images, targets) for images, targets, _ in batches)

    def epoch_with_origins(
        self, epoch: int, memory: SaliencyMemory, first_step: int = 0
    ) -> Iterator[tuple[Tensor, Tensor, Origin]]:
        """Returns the same batches with where they come from; see `Loader.epoch_with_origins`."""
        size = self._split.images.shape[2:]
        numbers = cell_numbers(size, memory.grid).to(torch.uint8)
        return self._batches(epoch, self._order.steps(first_step), numbers)

    def _batches(
        self, epoch: int, steps: range, numbers: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor, Origin]]:
        """Yields batches with where they come from; without cells where no `numbers` are given."""
        batches = _AugmentedBatches(self, epoch, numbers)
        made: Iterable[tuple[Tensor, Tensor | None, Tensor]] = map(batches.__getitem__, steps)
        if self._workers:
            # The generator is for the loader's own seeds, which nothing uses.
            made = DataLoader(
                batches,
                batch_size=None,
                sampler=list(steps),
                num_workers=self._workers,
                pin_memory=self._device.type == "cuda",
                generator=torch.Generator(),
            )
        for images, cells, chosen in made:
            with self._few_threads():
                moved = to_device(images, self._device)
                normalized = normalize(moved, self._split.mean, self._split.std)
                targets = self._targets.index_select(0, chosen.to(self._device))
            yield normalized, targets, Origin(chosen, None if cells is None else cells.squeeze(1))

    def augmented_batch(
        self, epoch: int, step: int, everything: Tensor, numbers: Tensor | None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Returns a step's images as bytes, their cell numbers, and which they are."""
        share = self._order.share(step)
        chosen = everything[share.start : share.stop]
        with self._few_threads():
            images = self._images.index_select(0, chosen.to(self._images.device))
            cells = None if numbers is None else numbers.expand(len(share), 1, *numbers.shape)
            return *self._augmented(images, cells, epoch, step), chosen

    def _few_threads(self) -> contextlib.AbstractContextManager[None]:
        return _one_thread() if self._device.type == "cpu" else contextlib.nullcontext()

    def _augmented(
        self, images: Tensor, cells: Tensor | None, epoch: int, step: int
    ) -> tuple[Tensor, Tensor | None]:
        """Returns a step's images and their cell numbers, (b, 1, H, W), after augmentation."""
        share, seed = self._order.share(step), (self._order.seed, epoch, step)
        if self._moved:
            crops, pad = draw_crops(share, self._split, seed), self._split.pad
            images = cropped(images, crops, pad)
            cells = None if cells is None else cropped(cells, crops, pad)
        if self._drawn is None:
            return images, cells
        seeds = raw_draws(share.batch, *seed, Purpose.OPERATIONS)[share.first :]
        with torch.random.fork_rng(devices=[]):
            return one_by_one(images, cells, self._drawn, seeds.tolist())


class _AugmentedBatches(Dataset[Any]):
    """The batches of an epoch by step: what workers make."""

    def __init__(self, loader: MemoryLoader, epoch: int, numbers: Tensor | None) -> None:
        self._loader, self._epoch, self._numbers = loader, epoch, numbers
        self._everything = torch.from_numpy(loader._order.indices(epoch))

    def __getitem__(self, step: int) -> tuple[Tensor, Tensor | None, Tensor]:
        """Returns the batch of a step; see `MemoryLoader.augmented_batch`."""
        return self._loader.augmented_batch(self._epoch, step, self._everything, self._numbers)


def one_by_one(
    images: Tensor, cells: Tensor | None, transform: v2.Transform, seeds: Sequence[int]
) -> tuple[Tensor, Tensor | None]:
    """Returns images and their cell numbers after a transform that draws for each of them anew.

    Args:
        images: (b, C, H, W) uint8, grey or in colours. Not changed.
        cells: (b, 1, H, W) uint8, or None. Not changed.
        transform: of torchvision, which draws from torch's global generator.
        seeds: of that generator, one per image.
    """
    follow = tracked(transform)
    # As PIL images: of such small ones, Pillow transforms several in the time of one tensor.
    pixels = images.permute(0, 2, 3, 1).contiguous()
    pictures = (pixels.squeeze(3) if pixels.shape[3] == 1 else pixels).numpy()  # shares its memory
    moved = None if cells is None else cells.clone()
    for k, picture in enumerate(map(PIL.Image.fromarray, pictures)):
        torch.default_generator.manual_seed(seeds[k])
        if moved is None:
            pictures[k] = transform(picture)
        else:
            pictures[k], numbers = follow(picture, CellNumbers.from_tensor(moved[k, 0]))
            moved[k, 0] = numbers.tensor()
    return pixels.permute(0, 3, 1, 2).contiguous(), moved


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Lets torch compute on one thread: a batch takes 1 ms, and waiting for others longer.

    On busy cores, each of a batch's ten operations would wait for the scheduler to wake the other
    threads: tens of milliseconds in all.
    """
    threads = torch.get_num_threads()
    if threads == 1 or not _threads_can_change():
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@functools.cache
def _threads_can_change() -> bool:
    """Returns whether this build of torch can change the number of threads at any time."""
    return "parallel backend: OpenMP" in torch.__config__.parallel_info()


def draw_crops(share: Share, split: MemorySplit, seed: tuple[int, int, int]) -> Tensor:
    """Returns each image's rows and columns of the cut, from 0 to 2 pad, and 1 if mirrored, (3, b).

    Drawn for the batch of all processes, of which the share is then kept: so the draws of an image
    do not depend on how many processes there are.
    """
    draws = raw_draws(3 * share.batch, *seed, Purpose.CROPS).reshape(3, share.batch)
    draws = draws[:, share.first : share.first + len(share)]
    places = np.uint64(2 * split.pad + 1)
    mirrored = (draws[2:] < _HALF_OF_ALL_WORDS) & split.flip
    return torch.from_numpy(np.concatenate([draws[:2] % places, mirrored]).astype(np.int64))


def cropped(images: Tensor, crops: Tensor, pad: int) -> Tensor:
    """Returns each image mirrored or not, then padded with zeros, then cropped at its own offset.

    Args:
        images: (b, C, H, W). Not changed.
        crops: (3, b) for each image, rows of the padded image above the cut, columns left of it,
            and not 0 where left and right change places.
        pad: zeros at each border.

    >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
    >>> cropped(image, torch.tensor([[2], [1], [1]]), pad=1).tolist()
    [[[[4, 3], [0, 0]]]]
    """
    b, channels, height, width = images.shape
    rows, columns, mirrored = crops.to(images.device)
    padded = pad_borders(images, (pad, pad, pad, pad))
    tall, wide = padded.shape[2:]
    # Whole rows first, then columns within them: a fifth of the time that one gather of single
    # pixels takes with several threads, and no loop over the images.
    line = torch.arange(max(tall, wide), device=images.device)
    image_rows = line[:height] + rows.unsqueeze(1)
    first = torch.arange(b * channels, device=images.device).view(b, channels, 1) * tall
    chosen = (first + image_rows.unsqueeze(1)).view(-1)
    kept = padded.view(-1, wide).index_select(0, chosen).view(b, channels * height, wide)
    # Mirroring the image and then cutting at c is cutting the padded image from wide - 1 - c down.
    across = line[:width] + columns.unsqueeze(1)
    across = torch.where(mirrored.bool().unsqueeze(1), wide - 1 - across, across)
    index = across.unsqueeze(1).expand(b, channels * height, width)
    return kept.gather(2, index).view(images.shape)
