"""Small data sets: kept in memory, augmented a whole batch at a time."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad as pad_borders

from comixup import Origin, SaliencyMemory
from comixup._normalize import normalize
from comixup.data._digest import digest_of
from comixup.data._sampler import Order, Share
from comixup.data._seeds import Purpose, raw_draws

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
        augment: bool = False,
        image_size: int | None = None,
        min_scale: float | None = None,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str = "cpu",
        workers: int = 0,
    ) -> MemoryLoader:
        """Returns batches; see `Split.loader`. The images move to the device here, once.

        `workers` are not needed: there is nothing to wait for.
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
        order = Order(len(self), batch_size, seed, augment, rank, world_size)
        return MemoryLoader(self, order, torch.device(device))


class MemoryLoader:
    """Batches of a `MemorySplit`; see `Loader`."""

    def __init__(self, split: MemorySplit, order: Order, device: torch.device) -> None:
        self._split = split
        self._order = order
        self._images = split.images.to(device)
        self._targets = split.targets.to(device)

    def __len__(self) -> int:
        return len(self._order)

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Returns an epoch's batches from `first_step` on; see `Loader.epoch`."""
        steps = self._order.steps(first_step)
        indices = torch.from_numpy(self._order.indices(epoch)).to(self._images.device)
        return (self._batch(epoch, step, indices) for step in steps)

    def epoch_with_origins(
        self, epoch: int, memory: SaliencyMemory, first_step: int = 0
    ) -> Iterator[tuple[Tensor, Tensor, Origin]]:
        """Returns the same batches with where they come from; see `Loader.epoch_with_origins`."""
        numbers = memory.cell_numbers(self._split.images.shape[2:])
        everything = torch.from_numpy(self._order.indices(epoch))
        steps = self._order.steps(first_step)
        for step, (images, targets) in zip(steps, self.epoch(epoch, first_step), strict=True):
            share = self._order.share(step)
            # Drawn anew and in host memory: the draws depend on the counts alone.
            cells = self._moved(numbers.cpu().expand(len(share), 1, *numbers.shape), epoch, step)
            yield images, targets, Origin(everything[share.start : share.stop], cells.squeeze(1))

    def _batch(self, epoch: int, step: int, indices: Tensor) -> tuple[Tensor, Tensor]:
        if self._images.device.type != "cpu":
            return self._make_batch(epoch, step, indices)
        with _one_thread():
            return self._make_batch(epoch, step, indices)

    def _make_batch(self, epoch: int, step: int, indices: Tensor) -> tuple[Tensor, Tensor]:
        split, share = self._split, self._order.share(step)
        chosen = indices[share.start : share.stop]
        images = self._moved(self._images.index_select(0, chosen), epoch, step)
        return normalize(images, split.mean, split.std), self._targets.index_select(0, chosen)

    def _moved(self, images: Tensor, epoch: int, step: int) -> Tensor:
        """Returns a step's images, or pictures of their cell numbers, flipped and shifted."""
        split, share = self._split, self._order.share(step)
        if not self._order.shuffled or not (split.pad or split.flip):
            return images
        seed = (self._order.seed, epoch, step)
        rows, columns, mirrored = draw_crops(share, split, seed).to(images.device)
        return cropped(images, rows, columns, mirrored, split.pad)


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


def cropped(images: Tensor, rows: Tensor, columns: Tensor, mirrored: Tensor, pad: int) -> Tensor:
    """Returns each image mirrored or not, then padded with zeros, then cropped at its own offset.

    Args:
        images: (b, C, H, W). Not changed.
        rows: (b,) rows of the padded image above the cut.
        columns: (b,) columns of the padded image left of the cut.
        mirrored: (b,) not 0 where left and right change places.
        pad: zeros at each border.

    >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
    >>> place = torch.tensor([2])
    >>> cropped(image, place, torch.tensor([1]), torch.tensor([True]), pad=1).tolist()
    [[[[4, 3], [0, 0]]]]
    """
    b, channels, height, width = images.shape
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
