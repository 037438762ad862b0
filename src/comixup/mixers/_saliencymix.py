"""SaliencyMix: CutMix with boxes around the partner's most salient pixel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_positive
from comixup._random import dirichlet, numpy_generator
from comixup.mixers._cutmix import Boxes, boxes_around
from comixup.mixers._mixer import Mixed
from comixup.mixers._salient import SHOWN, SaliencyMixer


@dataclass(eq=False, repr=False, kw_only=True)
class SaliencyMix(SaliencyMixer):
    """SaliencyMix (Uddin et al., ICLR 2021): CutMix with boxes around salient pixels.

    The box covers a ratio of 1 - lambda around the partner's most salient pixel, clipped to the
    image; lambda ~ Beta(alpha, alpha), and targets are weighted by the visible pixels. Each pair
    has its own box; public code uses one image's box for all pairs. The paper's maps need no model,
    like those of `comixup.spectral_residual(images)`; any maps can be used. A uniformly salient
    partner has a random center.

    Args:
        alpha: parameter of lambda's Beta distribution.
        per_sample: draw lambda for each image rather than for the batch.
        clean_weight: see `Mixer`; the paper trains on the mixed loss only.
        keep_gradients: see `comixup.saliency`.
        saliency_scale: compute saliency on images of this relative size (`scale` of
            `comixup.saliency`); below 1 only with keep_gradients=False or clean_weight=0.
        num_classes, p, clean_reduction, generator, validate: see `Mixer`.

    >>> import comixup
    >>> mixup = SaliencyMix(num_classes=10)
    >>> images = torch.rand(8, 3, 32, 32)
    >>> images, targets = mixup(images, torch.arange(8), comixup.spectral_residual(images))
    >>> images.shape, targets.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    alpha: float = 1.0
    per_sample: bool = False
    clean_weight: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("alpha", self.alpha)
        check_boolean("per_sample", self.per_sample)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns partners and boxes for a batch."""
        m, size = len(images), tuple(images.shape[2:])
        maps = self.pooled(saliency, images, SHOWN)
        partners = torch.randperm(m, generator=self.generator)
        rows = m if self.per_sample else 1
        ratio = dirichlet(self.alpha, 2, numpy_generator(self.generator), rows)[:, 1].float()
        anywhere = torch.rand(m, len(size), generator=self.generator)
        uniform = torch.from_numpy(maps.uniform)
        place = torch.where(uniform.unsqueeze(1), anywhere, salient_places(maps.saliency))
        centre = (place * torch.tensor(size)).long()[partners]
        begin, end = boxes_around(centre.unsqueeze(1), ratio.expand(m).unsqueeze(1), size)
        plan = Boxes(partners.unsqueeze(1), begin, end, size)
        return Mixed(plan, uniform_maps=int(uniform.sum()), cells=torch.from_numpy(maps.cells))


def salient_places(maps: Tensor) -> Tensor:
    """Returns the center of each map's most salient pixel, (m, dimensions), in [0, 1].

    >>> salient_places(torch.tensor([[0.0, 0.0, 5.0, 1.0]])).tolist()
    [[0.625]]
    """
    size = maps.shape[1:]
    pixels = torch.unravel_index(maps.flatten(1).argmax(1).cpu(), size)
    return (torch.stack(pixels, 1) + 0.5) / torch.tensor(tuple(size))
