"""Batches of images, with the saliency that a network sees in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from comixup import saliency
from comixup.lab import models
from comixup.lab._image_files import read_image
from comixup.lab.data import DataSet, data_root
from comixup.lab.evaluation import load_trained, trained_on
from comixup.lab.training import RunFolder
from comixup.lab.training._setup import shape_of

NETWORK = "efficientnet-lite0"
"""Trained on ImageNet: its gradients are the saliency of photographs."""
PHOTOGRAPHS = "photos"
"""The folder of the photographs, in that of the data sets."""
LEAST_PHOTOGRAPHS = 24
"""As many as a sheet has."""


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
        root: see `comixup.lab.data.load`.
    """

    def __init__(self, run: Path, root: Path | None) -> None:
        if not RunFolder(run).weights.is_file():
            raise FileNotFoundError(
                f"`run` must be the folder of a finished run, but {run} has no weights. Train it "
                "to its end."
            )
        origin = trained_on(run)
        self.image_size = origin.image_size
        self.data: DataSet = origin.load_data(root)
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


class Photographs:
    """Photographs of a folder, seen by a network that was trained on ImageNet.

    Their classes are those that the network predicts; their names are the files'.

    Args:
        root: the folder with the folder `photos`, as for `comixup.lab.data.load`.
    """

    def __init__(self, root: Path | None) -> None:
        folder = data_root(root) / PHOTOGRAPHS
        files = sorted(folder.rglob("*.jpg")) if folder.is_dir() else []
        if len(files) < LEAST_PHOTOGRAPHS:
            raise FileNotFoundError(
                f"{folder} must have {LEAST_PHOTOGRAPHS} photographs or more (.jpg), got "
                f"{len(files)}. Put some there, or name the folder that it lies in by --data."
            )
        preprocessing = models.pretrained_preprocessing(NETWORK)
        model = models.build(NETWORK, 1000, shape=preprocessing.shape, pretrained=True).eval()
        views = torch.stack([preprocessing.view(read_image(file)) for file in files])
        images = preprocessing.normalize(views)
        with torch.no_grad():
            predicted = model(images).argmax(1)
        maps = saliency(model, images, predicted, keep_gradients=False)
        self._all = Batch(images, views / 255, torch.arange(len(files)), maps)
        self._names = [file.stem.rstrip("_0123456789").replace("_", " ") for file in files]

    def batch(self, size: int, number: int, *, augment: bool = False) -> Batch:
        """Returns some of the photographs, drawn by a number; they are not augmented."""
        generator = torch.Generator().manual_seed(number)
        chosen = torch.randperm(len(self._names), generator=generator)[:size]
        whole = self._all
        return Batch(whole.images[chosen], whole.pixels[chosen], chosen, whole.saliency[chosen])

    def names(self, targets: Tensor) -> list[str]:
        """Returns what photographs show, by index."""
        return [self._names[index] for index in targets.tolist()]
