"""Background corruption: what is around the object is replaced, or noise is put in its place.

The paper's appendix on background corruption: x~ = x z + b (1 - z), where z is 1 inside the
object's boxes, and the background b another image, or noise. Pixels are in [0, 1], before
normalisation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from comixup._checks import check_choice, check_count
from comixup.lab._preprocess import normalize
from comixup.lab._seeds import permutation, seed_for
from comixup.lab.data import DataSet, Loader, Split
from comixup.lab.evaluation._boxes import box_areas, check_boxes, with_background

Corruption: TypeAlias = Literal["replace", "noise", "added-noise"]

# Paper: "adding Gaussian noise", but its formula puts noise in the background's place: both are
# here, "noise" as the formula has it and "added-noise" as the text has it.
CORRUPTIONS: tuple[Corruption, ...] = ("replace", "noise", "added-noise")
SIGMA = 0.1
"""Standard deviation of the noise."""
_NOISE, _PARTNERS = 110, 111
"""What seeds are for; see `comixup.lab._seeds.seed_for`."""


def corrupt(
    pixels: Tensor,
    boxes: Tensor,
    kind: Corruption,
    *,
    generator: torch.Generator,
    others: Tensor | None = None,
) -> Tensor:
    """Returns images whose background, all that is outside their boxes, is corrupted.

    Args:
        pixels: (n, C, H, W) in [0, 1]. Not changed.
        boxes: (n, k, 4) with a box at least for each image; see `read_boxes`.
        kind: "replace" takes another image's pixels; "noise" Gaussian noise of mean 0 and standard
            deviation 0.1, so that half of it is black; "added-noise" adds such noise to what is
            there. Noise is clipped to [0, 1].
        generator: what is drawn from, on any device.
        others: (n, C, H, W) in [0, 1], what "replace" takes; None for the images themselves in
            another order, in which none stays in its place.

    >>> draw = torch.Generator().manual_seed(0)
    >>> images = torch.tensor([0.25, 0.75]).view(2, 1, 1, 1).expand(2, 1, 1, 3)
    >>> boxes = torch.tensor([[[1, 0, 2, 1]], [[0, 0, 1, 1]]])
    >>> corrupt(images, boxes, "replace", generator=draw).flatten(1)
    tensor([[0.7500, 0.2500, 0.7500],
            [0.7500, 0.2500, 0.2500]])
    """
    check_choice("kind", kind, CORRUPTIONS)
    _check_pixels("pixels", pixels)
    check_boxes(boxes, len(pixels))
    empty = (box_areas(boxes) == 0).all(1).nonzero()
    if len(empty):
        raise ValueError(
            f"`boxes` must have a box for every image, got none for image {int(empty[0])}. Leave "
            "that image out: all of it would be background."
        )
    if others is not None and kind != "replace":
        raise ValueError(f"`others` must be None unless `kind` is 'replace', got {kind!r}.")
    if kind != "replace":
        noise = torch.randn(pixels.shape, generator=generator, device=generator.device)
        return torch.where(_inside(boxes, pixels), pixels, _noise(pixels, kind, noise))
    if others is None:
        others = pixels[_another_order(len(pixels), generator).to(pixels.device)]
    _check_pixels("others", others)
    if others.shape != pixels.shape:
        raise ValueError(
            f"`others` must have the shape of `pixels`, {tuple(pixels.shape)}, got "
            f"{tuple(others.shape)}."
        )
    return torch.where(_inside(boxes, pixels), pixels, others.to(pixels))


class CorruptedLoader:
    """Batches of a split with corrupted backgrounds: a `comixup.lab.data.Loader`.

    An image's background comes from a random order of the whole split, not of its batch: splits
    are often sorted by class, and another image of the same class would be a help. Every image
    has draws of its own, so that the corrupted set is the same for any size of batches. Memory is
    that of two loaders, one of which shows the images in the other order.

    Images without a box are left out, since all of them would be background; compare with the
    error on the clean images `kept`.

    Args:
        data: the data set, which tells how images are normalised.
        split: the images.
        boxes: (n, k, 4) in the split's order.
        kind: see `corrupt`.
        batch_size: images of a step.
        seed: decides what is drawn.
        image_size: as for `Split.loader`.
        device: where the batches are wanted.
        workers: processes that read from disk.

    Attributes:
        kept: (m,) indices in the split of the images that have a box, in order.
        unchanged: how many of them have a box as large as the image, and so no background.
    """

    def __init__(
        self,
        data: DataSet,
        split: Split,
        boxes: Tensor,
        kind: Corruption,
        batch_size: int,
        *,
        seed: int = 0,
        image_size: int | None = None,
        device: torch.device | str = "cpu",
        workers: int = 0,
    ) -> None:
        check_choice("kind", kind, CORRUPTIONS)
        check_boxes(boxes, len(split))
        check_count("seed", seed, low=0)
        if not data.has_colours:
            raise ValueError(
                f"`data` must have images with colours to corrupt, got {data.name!r}, which has "
                "none."
            )
        self.kept = (box_areas(boxes) > 0).any(1).nonzero()[:, 0]
        if len(self.kept) < 2:
            raise ValueError(
                f"`boxes` must have boxes for two images at least, got {len(self.kept)}. Read "
                "others."
            )
        self._boxes = boxes[self.kept]
        size = (image_size, image_size) if image_size else data.shape[1:]
        self.unchanged = len(self.kept) - int(with_background(self._boxes, size).sum())
        self._data, self._kind, self._seed, self._batch_size = data, kind, seed, batch_size

        def loader(indices: Tensor) -> Loader:
            # In-memory splits copy their subsets, which is not needed for all of them as they are.
            chosen = split if _are_all(indices, len(split)) else split.subset(indices)
            return chosen.loader(batch_size, image_size=image_size, device=device, workers=workers)

        self._images = loader(self.kept)
        partners = _cycle(permutation(len(self.kept), seed, _PARTNERS))
        self._others = loader(self.kept[partners]) if kind == "replace" else None

    def __len__(self) -> int:
        """Returns the steps of an epoch."""
        return len(self._images)

    def epoch(self, epoch: int = 0, first_step: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields normalised images and their classes; every epoch is the same."""
        position = first_step * self._batch_size
        others = None if self._others is None else self._others.epoch(0, first_step)
        for images, targets in self._images.epoch(0, first_step):
            boxes = self._boxes[position : position + len(images)]
            if others is not None:
                background = next(others)[0]
            else:
                background = self._noisy(images, range(position, position + len(images)))
            position += len(images)
            # Chosen among normalised colours, so that the object keeps its own to the last bit.
            yield torch.where(_inside(boxes, images), images, background), targets

    def _noisy(self, images: Tensor, positions: range) -> Tensor:
        """Returns noise, or the images with it, clipped and normalised."""
        generator, noise = torch.Generator(), torch.empty(images.shape)
        for row, position in zip(noise, positions, strict=True):
            generator.manual_seed(seed_for(self._seed, int(self.kept[position]), _NOISE))
            row.normal_(generator=generator)
        pixels = self._data.pixels(images)
        return normalize(_noise(pixels, self._kind, noise), self._data.mean, self._data.std)


def _noise(pixels: Tensor, kind: Corruption, noise: Tensor) -> Tensor:
    """Returns noise from N(0, 1), scaled, clipped, and on top of the pixels if it is added."""
    scaled = SIGMA * noise.to(pixels)
    return (pixels + scaled if kind == "added-noise" else scaled).clamp(0, 1)


def _inside(boxes: Tensor, images: Tensor) -> Tensor:
    """Returns where the images' boxes are, (n, 1, H, W) bool, on the images' device."""
    boxes, (height, width) = boxes.to(images.device), images.shape[2:]
    if len(boxes) and (int(boxes[..., 2].max()) > width or int(boxes[..., 3].max()) > height):
        raise ValueError(
            f"`boxes` must lie within the images' {width} x {height} pixels, got some up to "
            f"{int(boxes[..., 2].max())} x {int(boxes[..., 3].max())}. Were they read for another "
            "image size?"
        )
    columns = torch.arange(width, device=images.device)
    rows = torch.arange(height, device=images.device)[:, None]
    inside = torch.zeros(len(images), height, width, dtype=torch.bool, device=images.device)
    # One box of each image at a time: ImageNet has images with dozens, and most have one.
    for x0, y0, x1, y1 in boxes.permute(1, 2, 0)[..., None, None]:
        inside |= (columns >= x0) & (columns < x1) & (rows >= y0) & (rows < y1)
    return inside[:, None]


def _another_order(count: int, generator: torch.Generator) -> Tensor:
    """Returns for each of some images another one, each of them once."""
    if count < 2:
        raise ValueError(
            f"`pixels` must have two images at least to replace one's background by the other, got "
            f"{count}. Give `others`."
        )
    order = torch.randperm(count, generator=generator, device=generator.device)
    return _cycle(order.cpu().numpy())


def _cycle(order: npt.NDArray[np.int64]) -> Tensor:
    """Returns for each number its successor in an order, the first one's for the last.

    A random order gives each number any other with the same chance, and never itself. Paper: a
    random permutation, which on average leaves one image as it is.
    """
    partners = np.empty_like(order)
    partners[order] = np.roll(order, -1)
    return torch.from_numpy(partners)


def _are_all(indices: Tensor, count: int) -> bool:
    return len(indices) == count and bool((indices == torch.arange(count)).all())


def _check_pixels(name: str, pixels: Tensor) -> None:
    if pixels.ndim != 4 or not pixels.dtype.is_floating_point or not pixels.numel():
        raise ValueError(
            f"`{name}` must have floats of shape (n, channels, height, width), got {pixels.dtype} "
            f"of {tuple(pixels.shape)}."
        )
    if not ((pixels >= 0) & (pixels <= 1)).all():  # NaN is not
        raise ValueError(
            f"`{name}` must be from 0 to 1, got {float(pixels.min()):g} to "
            f"{float(pixels.max()):g}. Corrupt images before they are normalised."
        )
