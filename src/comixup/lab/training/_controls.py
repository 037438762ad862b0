"""Control methods: mixers that lack one component of a method, to measure what it contributes."""

from __future__ import annotations

import torch
from torch import Tensor

from comixup import CoMixup, OnePass, Origin, spectral_residual
from comixup.mixers import Mixed


class ShuffledCoMixup(CoMixup):
    """Co-Mixup where each input has another input's saliency map.

    Everything else stays: the maps' statistics, the problem, its solution, the clean pass. The
    difference from `CoMixup` is the contribution of saliency.
    """

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns the labelling for maps that are moved on by a random number of inputs."""
        if saliency is not None and len(saliency) > 1:
            shift = torch.randint(1, len(saliency), (), generator=self.generator).item()
            saliency = saliency.roll(int(shift), 0)
        return super().draw(images, saliency)


class ShuffledOnePass(OnePass):
    """One-pass mixing where each image has the map of another image of its batch."""

    def maps_for(self, images: Tensor, origin: Origin) -> Tensor:
        """Returns the remembered maps, moved on by a random number of images."""
        maps = super().maps_for(images, origin)
        if len(maps) < 2:
            return maps
        shift = torch.randint(1, len(maps), (), generator=self.generator).item()
        return maps.roll(int(shift), 0)


class SpectralOnePass(OnePass):
    """Clean and mixed batches in alternation, with maps that need neither a memory nor a model."""

    def maps_for(self, images: Tensor, origin: Origin) -> Tensor:
        """Returns the spectral residual of the images."""
        return spectral_residual(images)
