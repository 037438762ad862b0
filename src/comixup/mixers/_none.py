"""No mixing, with the calling convention of the methods that mix."""

from __future__ import annotations

import torch
from torch import Tensor

from comixup.mixers._mixer import Mixed, Mixer


class NoMix(Mixer):
    """Leaves batches as they are; targets become soft, (batch, classes), as with every method.

    >>> images, targets = NoMix(num_classes=3)(torch.rand(2, 3, 8, 8), torch.tensor([1, 0]))
    >>> targets.tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        p: float = 1.0,
        generator: torch.Generator | None = None,
        validate: bool = False,
    ) -> None:
        super().__init__(num_classes, p=p, generator=generator, validate=validate)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns that nothing is mixed."""
        return Mixed(self.leave(images), mixed=False)
