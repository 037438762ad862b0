"""Small data sets in memory, augmented a whole batch at a time."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import PIL.Image
import torch
from torch import Tensor
from torch.nn.functional import pad as pad_borders

from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import tracked
from comixup.core.grid import cell_numbers
from comixup.core.tensors import to_device
from comixup.lab._augmentation import Augmentation, operations
from comixup.lab._seeds import Purpose, raw_draws
from comixup.lab.data._split import Grid, Loader, Order, Share, Split

_HALF_OF_ALL_WORDS = np.uint64(2**63)


@dataclass(frozen=True, eq=False)
class MemorySplit(Split):
    """A split with all images in host memory, or memory-mapped from a file.

    Attributes:
        images: (n, C, H, W), uint8 colors or floats.
        targets: see `Split`.
        mean: see `Split`.
        std: see `Split`.
        pad: black pixels at each border, before a random crop of the image's size.
        flip: whether augmentation mirrors images with probability 0.5.
        sources: (n,) result of `file_sources` for the images' files; None for images without files.
    """

    images: Tensor
    targets: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    pad: int = 0
    flip: bool = False
    sources: npt.NDArray[np.bytes_] | None = None

    def subset(self, indices: Tensor) -> MemorySplit:
        """Returns a copy of the split with these images only."""
        sources = None if self.sources is None else self.sources[indices.numpy()]
        images, targets = self.images[indices], self.targets[indices]
        return replace(self, images=images, targets=targets, sources=sources)

    def _content(self) -> Iterable[bytes | Tensor]:
        if self.sources is not None:
            return self.sources
        return [bytes(str(tuple(self.images.shape)), "ascii"), self.images]

    @property
    def _loader(self) -> type[MemoryLoader]:
        return MemoryLoader


class MemoryLoader(Loader):
    """Batches of a `MemorySplit`.

    The images are on the device, unless they are augmented one by one on the host. Workers are used
    only then: other batches take less time than their transfer between processes.
    """

    def __init__(
        self,
        split: MemorySplit,
        order: Order,
        device: torch.device,
        workers: int,
        augment: Augmentation | None,
        image_size: int | None,
        min_scale: float | None,
    ) -> None:
        size = split.images.shape[2:]
        if image_size is not None and {image_size} != set(size):
            raise ValueError(
                f"`image_size` must be None or {size[-1]}, the size that this data set has, got "
                f"{image_size!r}. Data sets read from disk ('imagenet', 'folder') come in any."
            )
        if min_scale is not None:
            raise ValueError(
                "`min_scale` must be None for a data set of small images, which are shifted and "
                f"not scaled, got {min_scale!r}."
            )
        self._drawn = None if augment is None else operations(augment)
        if self._drawn is not None and split.images.dtype != torch.uint8:
            raise ValueError(
                '`augment` must be "crop-flip" or "none" for spectrograms, got '
                f"{augment!r}, which changes brightness and colours too."
            )
        super().__init__(split, order, device, 0 if self._drawn is None else workers)
        self._split = split
        self._moved = augment not in (None, "none") and bool(split.pad or split.flip)
        self._images = split.images.to("cpu" if self._drawn is not None else device)

    def _views(
        self, chosen: Tensor, epoch: int, step: int, grid: Grid | None
    ) -> tuple[Tensor, Tensor | None]:
        with self._threads():
            chosen = to_device(chosen, self._images.device)
            images, cells = self._images.index_select(0, chosen), None
            if grid is not None:
                numbers = cell_numbers(images.shape[2:], grid).to(torch.uint8)
                cells = numbers.expand(len(images), 1, *numbers.shape)
            images, cells = self._augmented(images, cells, epoch, step)
            return images, None if cells is None else cells.squeeze(1)

    def _threads(self) -> contextlib.AbstractContextManager[None]:
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
        seeds = raw_draws(share.batch, *seed, Purpose.OPERATIONS)[share.first :].tolist()
        # As PIL images: at this size Pillow is several times as fast as tensor transforms.
        pixels = images.permute(0, 2, 3, 1).contiguous()
        pictures = (pixels.squeeze(3) if pixels.shape[3] == 1 else pixels).numpy()  # a view of it
        cells = None if cells is None else cells.clone()
        follow = tracked(self._drawn)
        with torch.random.fork_rng(devices=[]):
            for k, picture in enumerate(map(PIL.Image.fromarray, pictures)):
                torch.default_generator.manual_seed(seeds[k])
                if cells is None:
                    pictures[k] = self._drawn(picture)
                else:
                    pictures[k], moved = follow(picture, CellNumbers.from_tensor(cells[k, 0]))
                    cells[k, 0] = moved.tensor()
        return pixels.permute(0, 3, 1, 2).contiguous(), cells


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Limits torch to one thread: a batch takes 1 ms, waking other threads takes longer.

    On busy cores, each of a batch's ten operations would wait for the scheduler, tens of
    milliseconds in all.
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
    """Whether this build of torch can change the number of threads at any time."""
    return "parallel backend: OpenMP" in torch.__config__.parallel_info()


def draw_crops(share: Share, split: MemorySplit, seed: tuple[int, int, int]) -> Tensor:
    """Returns each image's crop row and column, from 0 to 2 pad, and 1 if mirrored, (3, b).

    Draws are made for the batch of all processes and then sliced, so that they do not depend on the
    number of processes.
    """
    draws = raw_draws(3 * share.batch, *seed, Purpose.CROPS).reshape(3, share.batch)
    draws = draws[:, share.first : share.first + len(share)]
    places = np.uint64(2 * split.pad + 1)
    mirrored = (draws[2:] < _HALF_OF_ALL_WORDS) & split.flip
    return torch.from_numpy(np.concatenate([draws[:2] % places, mirrored]).astype(np.int64))


def cropped(images: Tensor, crops: Tensor, pad: int) -> Tensor:
    """Returns images mirrored if drawn, padded with zeros, and cropped at their own offsets.

    Args:
        images: (b, C, H, W). Not changed.
        crops: (3, b): for each image, first row and column of the crop in the padded image, and
            nonzero to mirror it.
        pad: zeros at each border.

    >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
    >>> cropped(image, torch.tensor([[2], [1], [1]]), pad=1).tolist()
    [[[[4, 3], [0, 0]]]]
    """
    b, channels, height, width = images.shape
    rows, columns, mirrored = to_device(crops, images.device)
    padded = pad_borders(images, (pad, pad, pad, pad))
    tall, wide = padded.shape[2:]
    # Gather whole rows, then columns: five times as fast as one gather of pixels with several
    # threads, and no loop over images.
    line = torch.arange(max(tall, wide), device=images.device)
    image_rows = line[:height] + rows.unsqueeze(1)
    first = torch.arange(b * channels, device=images.device).view(b, channels, 1) * tall
    chosen = (first + image_rows.unsqueeze(1)).view(-1)
    kept = padded.view(-1, wide).index_select(0, chosen).view(b, channels * height, wide)
    # Mirroring and then cropping at c reads the padded image backwards from wide - 1 - c.
    across = line[:width] + columns.unsqueeze(1)
    across = torch.where(mirrored.bool().unsqueeze(1), wide - 1 - across, across)
    index = across.unsqueeze(1).expand(b, channels * height, width)
    return kept.gather(2, index).view(images.shape)
