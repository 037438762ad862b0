"""No mixing, with the calling convention of the methods that mix."""

from __future__ import annotations

from torch import Tensor

from comixup.mixers._mixer import Mixed, Mixer


class NoMix(Mixer):
    """Leaves batches as they are; targets become soft, (batch, classes), as with every method.

    >>> import torch
    >>> images, targets = NoMix(num_classes=3)(torch.rand(2, 3, 8, 8), torch.tensor([1, 0]))
    >>> targets.tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns that nothing is mixed."""
        return Mixed(self.leave(images), mixed=False)
