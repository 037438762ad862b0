"""The base class of the methods that need saliency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from comixup._checks import check_boolean, warn_caller
from comixup.core.maps import Maps, check_grid, grid_sides, pool_maps
from comixup.core.saliency import check_scale
from comixup.core.tensors import to_device
from comixup.mixers._mixer import Mixer

SHOWN = 8
"""Cells per side of `last.cells` for methods without a grid."""

Grid: TypeAlias = int | Sequence[int]
"""Cells per side, or one number per side."""


@dataclass(eq=False, repr=False, kw_only=True)
class SaliencyMixer(Mixer):
    """Base class of the methods that need saliency.

    Images without a usable saliency map (zero, constant, NaN or infinite: half-precision gradients
    underflow and overflow) count as uniformly salient, with one warning.
    """

    needs_saliency = True
    clean_weight: float = 1.0
    keep_gradients: bool = True
    saliency_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_boolean("keep_gradients", self.keep_gradients)
        trains = self.keep_gradients and self.clean_weight > 0
        check_scale("saliency_scale", self.saliency_scale, trains)
        self._warned = False

    def pooled(self, saliency: Tensor | None, images: Tensor, grid: Grid) -> Maps:
        """Returns saliency pooled to a grid; warns once about unusable maps."""
        saliency = self.checked(saliency, images)
        size = tuple(map(min, images.shape[2:], saliency.shape[1:]))  # every cell needs a pixel
        maps = pool_maps(saliency, grid_sides(grid, size))
        if maps.uniform.any():
            self.warn_of_uniform(maps.uniform, images, saliency)
        return maps

    def warn_of_uniform(
        self, uniform: npt.NDArray[np.bool_], images: Tensor, saliency: Tensor
    ) -> None:
        """Warns once about unusable maps.

        Except finite ones of single-color images, which augmentation may have shifted out of view.
        """
        if self._warned or self.uniform_expected:
            return
        rows = torch.from_numpy(np.flatnonzero(uniform))
        pixels = images.detach()[to_device(rows, images.device)].flatten(2)
        coloured = (pixels != pixels[..., :1]).flatten(1).any(1).cpu()
        broken = ~saliency[to_device(rows, saliency.device)].flatten(1).isfinite().all(1).cpu()
        count = int((coloured | broken).sum())
        if count:
            self._warned = True
            warn_caller(
                f"{count} of {len(images)} saliency maps are zero, constant, NaN or "
                "infinite: these inputs count as uniformly salient. `last.uniform_maps` counts "
                "them; this warning is shown once. Half-precision gradients can vanish or "
                "overflow: see torch.amp.GradScaler."
            )

    def checked(self, saliency: Tensor | None, images: Tensor) -> Tensor:
        """Returns validated saliency, a map for each image."""
        if saliency is None:
            raise ValueError(
                f"`saliency` must be given to {type(self).__name__}, got None. Use "
                "mixer.saliency(model, images, targets), or comixup.spectral_residual(images) "
                "where there is no model."
            )
        if not isinstance(saliency, Tensor):
            raise TypeError(f"`saliency` must be a torch tensor, got {type(saliency).__name__}.")
        if saliency.ndim != images.ndim - 1 or len(saliency) != len(images) or not saliency.numel():
            raise ValueError(
                f"`saliency` must have shape ({len(images)}, *size) with {images.ndim - 2} spatial "
                f"dimensions, a map for each image, got {tuple(saliency.shape)} for images "
                f"{tuple(images.shape)}."
            )
        return saliency


def grid_choices(grid: int | Sequence[Grid]) -> tuple[Grid, ...]:
    """Returns validated grids, one of which is drawn per batch."""
    choices = (grid,) if isinstance(grid, int) else tuple(grid)
    if not choices:
        raise ValueError("`grid` must hold at least one number, got none. Use 4, or (4, 8).")
    for choice in choices:
        check_grid(choice)
    return choices


def drawn_grid(choices: Sequence[Grid], generator: torch.Generator | None) -> Grid:
    """Returns a randomly drawn grid; a single choice draws nothing."""
    if len(choices) == 1:
        return choices[0]
    return choices[int(torch.randint(len(choices), (), generator=generator))]
