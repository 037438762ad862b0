"""Which images each process has at each step of each epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from comixup._checks import check_count
from comixup.lab._seeds import Purpose, permutation

MIN_SHARE = 2
"""Images that a process trains on at least: batch norm learns nothing from one."""


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
                "images). Use larger batches, fewer processes or more images."
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
