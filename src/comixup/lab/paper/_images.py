"""Batches of images, with the saliency that a network sees in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from comixup import saliency
from comixup.lab import models
from comixup.lab._image_files import read_image
from comixup.lab.data import DataSet, data_root
from comixup.lab.evaluation import load_trained, trained_on
from comixup.lab.evaluation._trained import Trained
from comixup.lab.training._setup import shape_of

_NETWORK = "efficientnet-lite0"
"""Trained on ImageNet: its gradients are the saliency of photographs."""
_LEAST_PHOTOGRAPHS = 24
"""As many as a sheet has."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Images, (m, C, H, W): normalized, and in [0, 1] colours; what they show; their saliency."""

    images: Tensor
    pixels: Tensor
    names: list[str]
    saliency: Tensor

    def chosen(self, indices: Tensor) -> Batch:
        """Returns some of the images."""
        names = [self.names[index] for index in indices.tolist()]
        return Batch(self.images[indices], self.pixels[indices], names, self.saliency[indices])


def load_run(run: Path, root: Path | None) -> tuple[Trained, DataSet, int | None]:
    """Returns the network of a finished run, its data set, and the pixels per side it takes."""
    origin = trained_on(run, root=root)
    data = origin.load_data()
    shape = shape_of(data, origin.image_size)
    return load_trained(run, num_classes=data.num_classes, shape=shape), data, origin.image_size


class Images:
    """The training images of a finished run, and its network."""

    def __init__(self, run: Path, root: Path | None) -> None:
        trained, self.data, size = load_run(run, root)
        self.model = trained.model
        # None for sets of images that are not files, but have one size.
        self._size = None if self.data.train.resized_side() is None else size

    def batch(self, size: int, number: int, *, augment: bool = True) -> Batch:
        """Returns a batch of the training images: the number-th over all epochs of training.

        Without augmentation, the images as they are, drawn by the number.
        """
        train = self.data.train
        if augment:
            loader = train.loader(size, seed=0, augment="crop-flip", image_size=self._size)
            epoch, step = divmod(number, len(loader))
        else:
            drawn = train.subset(_drawn(len(train), size, number))
            loader, epoch, step = drawn.loader(size, image_size=self._size), 0, 0
        images, targets = next(iter(loader.epoch(epoch, first_step=step)))
        maps = saliency(self.model, images, targets, keep_gradients=False)
        names = [self.data.classes[index].replace("_", " ") for index in targets.tolist()]
        return Batch(images, self.data.pixels(images), names, maps)


class Photographs:
    """Photographs of a folder, seen by a network that was trained on ImageNet.

    They lie in the folder `photos` of the data sets. Their classes are those that the network
    predicts; their names are the files'.
    """

    def __init__(self, root: Path | None) -> None:
        folder = data_root(root) / "photos"
        files = sorted(folder.rglob("*.jpg")) if folder.is_dir() else []
        if len(files) < _LEAST_PHOTOGRAPHS:
            raise FileNotFoundError(
                f"{folder} must have {_LEAST_PHOTOGRAPHS} photographs or more (.jpg), got "
                f"{len(files)}. Put some there, or name the folder that it lies in by --data."
            )
        preprocessing = models.pretrained_preprocessing(_NETWORK)
        model = models.build(_NETWORK, 1000, shape=preprocessing.shape, pretrained=True).eval()
        views = torch.stack([preprocessing.view(read_image(file)) for file in files])
        images = preprocessing.normalize(views)
        with torch.no_grad():
            predicted = model(images).argmax(1)
        maps = saliency(model, images, predicted, keep_gradients=False)
        names = [file.stem.rstrip("_0123456789").replace("_", " ") for file in files]
        self._all = Batch(images, views / 255, names, maps)

    def batch(self, size: int, number: int, *, augment: bool = False) -> Batch:
        """Returns some of the photographs, drawn by a number; they are not augmented."""
        return self._all.chosen(_drawn(len(self._all.names), size, number))


Source: TypeAlias = Images | Photographs
"""Where batches come from."""


def _drawn(count: int, size: int, number: int) -> Tensor:
    """Returns the indices of so many of some images, shuffled by a number."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(number))[:size]
