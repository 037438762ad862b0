"""The batches of a run: this process's share of them, on its device."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from comixup.lab.data import DataSet, Loader, Split
from comixup.lab.training._run import Run

EVALUATION_BATCH = 250


@dataclass(frozen=True)
class Loaders:
    """Makes the loaders of a run.

    Attributes:
        run: what is trained.
        data: what it is trained on.
        rank: of this process.
        world_size: number of processes.
        device: where batches are wanted.
        workers: processes that read images from disk.
    """

    run: Run
    data: DataSet
    rank: int
    world_size: int
    device: torch.device
    workers: int

    def training(self, epoch: int) -> Loader:
        """Returns this process's shares of an epoch's batches, augmented."""
        phase = self.run.trained.phase_at(epoch)
        return self.data.train.loader(
            phase.batch_size,
            seed=self.run.seed,
            augment=self.run.trained.augment,
            image_size=phase.image_size,
            min_scale=phase.min_scale,
            rank=self.rank,
            world_size=self.world_size,
            device=self.device,
            workers=self.workers,
        )

    def evaluation(self, split: Split) -> Loader:
        """Returns this process's shares of the batches of a split."""
        return self._unaugmented(split, self.rank, self.world_size)

    def whole(self, split: Split) -> Loader:
        """Returns the whole batches of a split, for a process that evaluates alone."""
        return self._unaugmented(split, 0, 1)

    def _unaugmented(self, split: Split, rank: int, world_size: int) -> Loader:
        return split.loader(
            EVALUATION_BATCH,
            image_size=self.run.final_image_size,
            rank=rank,
            world_size=world_size,
            device=self.device,
            workers=self.workers,
        )
