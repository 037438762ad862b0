"""R-Mix: the more salient of two images at each cell, or a blend where both or neither are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from comixup._checks import check_boolean, check_positive
from comixup._random import dirichlet, numpy_generator
from comixup.mixers._input import Blend
from comixup.mixers._mixer import Mixed
from comixup.mixers._salient import SaliencyMixer, drawn_grid, grid_choices

PERCENTILES = tuple(step * 0.11 for step in range(10))
"""0, 0.11, ..., 0.99: the percentiles that are drawn from."""


@dataclass(eq=False, repr=False, kw_only=True)
class RMix(SaliencyMixer):
    """R-Mix (Luu et al., 2022): cells above a random percentile of saliency replace those below.

    Saliency is averaged over the cells of a grid, and a percentile drawn for each image, which it
    also has as a partner. Where one image of a pair is above its percentile and the other below,
    the upper one is shown; elsewhere they are blended by lambda ~ Beta(alpha, alpha). Targets are
    weighted by each image's share of the mask.

    Args:
        alpha: parameter of lambda's Beta distribution; the paper has 2 on CIFAR, 0.2 elsewhere.
        grid: cells per side, or a list of choices, one of which is drawn per batch; at most one
            cell per pixel. See `PuzzleMix`.
        per_sample: draw lambda for each pair rather than for the batch.
        clean_weight: see `Mixer`.
        keep_gradients: see `comixup.saliency`.
        saliency_scale: compute saliency on images of this relative size (`scale` of
            `comixup.saliency`); below 1 only with keep_gradients=False or clean_weight=0.
        num_classes, p, clean_reduction, generator, validate: see `Mixer`.

    >>> mixup = RMix(num_classes=10)
    >>> images, targets = torch.rand(8, 3, 32, 32), torch.arange(8)
    >>> mixed, soft = mixup(images, targets, saliency=torch.rand(8, 32, 32))
    >>> mixed.shape, soft.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    alpha: float = 2.0
    grid: int | Sequence[int | Sequence[int]] = (2, 4, 8, 16, 32)
    per_sample: bool = False
    clean_weight: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("alpha", self.alpha)
        self._grids = grid_choices(self.grid)
        check_boolean("per_sample", self.per_sample)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns partners and the shares of each cell for a batch."""
        m = len(images)
        maps = self.pooled(saliency, images, drawn_grid(self._grids, self.generator))
        partners = torch.randperm(m, generator=self.generator)
        rows = m if self.per_sample else 1
        ratio = dirichlet(self.alpha, 2, numpy_generator(self.generator), rows)[:, 0].float()
        chosen = torch.randint(len(PERCENTILES), (m,), generator=self.generator)
        cells = torch.from_numpy(maps.cells)
        top = above_percentile(cells, torch.tensor(PERCENTILES, dtype=torch.float64)[chosen])
        other = top[partners]
        blended = ratio.view(-1, *[1] * (top.ndim - 1))
        share = torch.where(top == other, blended, top.float())
        return Mixed(
            Blend(partners.unsqueeze(1), torch.stack([share, 1 - share], 1)),
            uniform_maps=int(np.count_nonzero(maps.uniform)),
            cells=cells,
        )


def above_percentile(cells: Tensor, percentiles: Tensor) -> Tensor:
    """Returns which cells (m, *grid) are above a percentile of their own image's, (m,) from 0 to 1.

    The percentile is interpolated between two cells, so that none equals it.

    >>> above_percentile(torch.tensor([[4.0, 1, 3, 2]]), torch.tensor([0.5])).tolist()
    [[True, False, True, False]]
    """
    flat = cells.flatten(1)
    ordered = flat.sort(1).values
    place = (percentiles * (flat.shape[1] - 1)).unsqueeze(1)
    low, high = (ordered.gather(1, end.long()) for end in (place.floor(), place.ceil()))
    level = torch.lerp(low, high, (place - place.floor()).to(cells.dtype))
    return (flat > level).view(cells.shape)
