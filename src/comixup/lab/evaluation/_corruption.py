"""Background corruption: what is around the object is replaced, or noise is put in its place.

The paper's appendix on background corruption: x~ = x z + b (1 - z), where z is 1 inside the
object's boxes, and the background b another image, or noise. Pixels are in [0, 1], before
normalization.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from comixup.lab._preprocess import normalize
from comixup.lab._seeds import permutation, seed_for
from comixup.lab.data import DataSet, Loader, Split
from comixup.lab.evaluation._boxes import box_areas

Corruption: TypeAlias = Literal["replace", "noise", "added-noise"]

# Paper: "adding Gaussian noise", but its formula puts noise in the background's place: both are
# here, "noise" as the formula has it and "added-noise" as the text has it.
CORRUPTIONS: tuple[Corruption, ...] = ("replace", "noise", "added-noise")
SIGMA = 0.1
"""Standard deviation of the noise."""
_NOISE, _PARTNERS = 110, 111
"""What seeds are for; see `comixup.lab._seeds.seed_for`."""


class CorruptedLoader:
    """Batches of a split whose background, all that is outside their boxes, is corrupted.

    An image's background comes from a random order of the whole split, not of its batch: splits
    are often sorted by class, and another image of the same class would be a help. Every image
    has draws of its own, so that the corrupted set is the same for any size of batches. Memory is
    that of two loaders, one of which shows the images in the other order.

    Images without a box are left out, since all of them would be background; compare with the
    error on the clean images `kept`.

    Args:
        data: the data set, which tells how images are normalized.
        split: the images.
        boxes: (n, k, 4) in the split's order; see `check_boxes`.
        kind: "replace" takes another image's pixels; "noise" Gaussian noise of mean 0 and standard
            deviation 0.1, so that half of it is black; "added-noise" adds such noise to what is
            there. Noise is clipped to [0, 1].
        batch_size: images of a step.
        seed: decides what is drawn.
        options: image_size, device and workers, as for `Split.loader`.

    Attributes:
        kept: (m,) indices in the split of the images that have a box, in order.
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
        **options: Any,
    ) -> None:
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
        self._data, self._kind, self._seed = data, kind, seed

        def loader(indices: Tensor) -> Loader:
            # In-memory splits copy their subsets, which is not needed for all of them as they are.
            everything = torch.equal(indices, torch.arange(len(split)))
            return (split if everything else split.subset(indices)).loader(batch_size, **options)

        self._images = loader(self.kept)
        # The successor in a random order: any other image with the same chance, and never itself.
        # Paper: a random permutation, which on average leaves one image as it is.
        order = permutation(len(self.kept), seed, _PARTNERS)
        partners = np.empty_like(order)
        partners[order] = np.roll(order, -1)
        self._others = loader(self.kept[torch.from_numpy(partners)]) if kind == "replace" else None

    def epoch(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields normalized images and their classes; every epoch is the same."""
        done = 0
        others = None if self._others is None else self._others.epoch(0)
        for images, targets in self._images.epoch(0):
            rows = slice(done, done + len(images))
            background = self._noisy(images, self.kept[rows]) if others is None else next(others)[0]
            # Chosen among normalized colours, so that the object keeps its own to the last bit.
            yield torch.where(_inside(self._boxes[rows], images), images, background), targets
            done += len(images)

    def _noisy(self, images: Tensor, indices: Tensor) -> Tensor:
        """Returns noise, or the images with it, clipped and normalized."""
        generator, noise = torch.Generator(), torch.empty(images.shape)
        for row, index in zip(noise, indices.tolist(), strict=True):
            generator.manual_seed(seed_for(self._seed, index, _NOISE))
            row.normal_(generator=generator)
        pixels = self._data.pixels(images)
        scaled = SIGMA * noise.to(pixels)
        noisy = (pixels + scaled if self._kind == "added-noise" else scaled).clamp(0, 1)
        return normalize(noisy, self._data.mean, self._data.std)


def _inside(boxes: Tensor, images: Tensor) -> Tensor:
    """Returns where the images' boxes are, (n, 1, H, W) bool, on the images' device."""
    height, width = images.shape[2:]
    columns = torch.arange(width, device=images.device)
    rows = torch.arange(height, device=images.device)[:, None]
    inside = torch.zeros(len(images), height, width, dtype=torch.bool, device=images.device)
    # One box of each image at a time: ImageNet has images with dozens, and most have one.
    for x0, y0, x1, y1 in boxes.to(images.device).permute(1, 2, 0)[..., None, None]:
        inside |= (columns >= x0) & (columns < x1) & (rows >= y0) & (rows < y1)
    return inside[:, None]
