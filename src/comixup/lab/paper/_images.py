"""Batches of a run's training images, with the saliency that its network sees in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from comixup import saliency
from comixup.lab.data import DataSet
from comixup.lab.evaluation import load_trained, trained_on
from comixup.lab.training import RunFolder, shape_of


@dataclass(frozen=True, eq=False)
class Batch:
    """Images of a data set.

    Attributes:
        images: (m, C, H, W), normalised.
        pixels: the same in [0, 1] colours.
        targets: (m,) class indices.
        saliency: (m, H, W).
    """

    images: Tensor
    pixels: Tensor
    targets: Tensor
    saliency: Tensor


class Images:
    """The training images of a run, and its network.

    Args:
        run: the folder of a finished run.
        data_root: see `comixup.lab.data.load`.
    """

    def __init__(self, run: Path, data_root: Path | None) -> None:
        if not RunFolder(run).weights.is_file():
            raise FileNotFoundError(
                f"`run` must be the folder of a finished run, but {run} has no weights. Train it "
                "to its end."
            )
        origin = trained_on(run)
        self.image_size = origin.image_size
        self.data: DataSet = origin.load_data(data_root)
        self.model = load_trained(
            run, num_classes=self.data.num_classes, shape=shape_of(self.data, self.image_size)
        ).model

    def batch(self, size: int, number: int, *, augment: bool = True) -> Batch:
        """Returns a batch of the training images, shuffled.

        Args:
            size: images of it.
            number: which one, over all epochs.
            augment: flip and crop the images, as in training. Without, the batch is drawn by the
                number from the images as they are.
        """
        if augment:
            loader = self.data.train.loader(
                size, seed=0, augment="crop-flip", image_size=self._cropped_size()
            )
            epoch, step = divmod(number, len(loader))
            images, targets = next(iter(loader.epoch(epoch, first_step=step)))
        else:
            generator = torch.Generator().manual_seed(number)
            chosen = torch.randperm(len(self.data.train), generator=generator)[:size]
            split = self.data.train.subset(chosen)
            plain = split.loader(size, image_size=self._cropped_size())
            images, targets = next(iter(plain.epoch(0)))
        maps = saliency(self.model, images, targets, keep_gradients=False)
        return Batch(images, self.data.pixels(images), targets, maps)

    def names(self, targets: Tensor) -> list[str]:
        """Returns the names of classes, by index."""
        return [self.data.classes[index].replace("_", " ") for index in targets.tolist()]

    def _cropped_size(self) -> int | None:
        """Returns the pixels per side of images that are files; None for sets of one size."""
        return None if self.data.train.resized_side() is None else self.image_size
