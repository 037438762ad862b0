"""Mixers that nobody should train with, but that show what a method's parts are worth."""

from __future__ import annotations

import torch
from torch import Tensor

from comixup import CoMixup
from comixup.mixers import Mixed


class ShuffledCoMixup(CoMixup):
    """Co-Mixup where each input has another input's saliency map.

    Everything else stays: the maps' statistics, the problem, its solution, the clean pass. What
    this loses against `CoMixup` is what saliency is worth.
    """

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns the labelling for maps that are moved on by a random number of inputs."""
        if saliency is not None and len(saliency) > 1:
            shift = torch.randint(1, len(saliency), (), generator=self.generator).item()
            saliency = saliency.roll(int(shift), 0)
        return super().draw(images, saliency)
