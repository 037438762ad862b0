"""Clean images and mixtures in one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from comixup.core.gather import in_format_of
from comixup.core.masks import IGNORE_INDEX
from comixup.core.mix import Plan


@dataclass(frozen=True, eq=False)
class PartlyMixed:
    """A plan: the first images of a batch as they are, then outputs of another plan.

    Attributes:
        clean: how many images stay as they are.
        mixed: how many outputs of the other plan follow.
        plan: of the same batch.
    """

    clean: int
    mixed: int
    plan: Plan

    @property
    def num_inputs(self) -> int:
        """m, the number of inputs."""
        return self.plan.num_inputs

    @property
    def masks(self) -> Tensor:
        """The share of each input at each location of each output, (m', m, *grid or size)."""
        masks = self.plan.masks
        own = torch.eye(self.num_inputs, device=masks.device)[: self.clean]
        own = own.view(self.clean, -1, *[1] * (masks.ndim - 2))
        return torch.cat([own.expand(-1, -1, *masks.shape[2:]), masks[: self.mixed]])

    def source_ratio(self, size: Sequence[int] | None = None) -> Tensor:
        """Returns the share of each input in each output of a size, (m', m); rows sum to one."""
        ratio = self.plan.source_ratio(size)[: self.mixed]
        own = torch.eye(self.num_inputs, device=ratio.device)[: self.clean]
        return torch.cat([own, ratio])

    def mix_images(self, images: Tensor) -> Tensor:
        """Returns images, or any tensor (m, C, *size), as they are and mixed."""
        mixed = self.plan.mix_images(images)[: self.mixed]
        return in_format_of(images, torch.cat([images[: self.clean], mixed]))

    def mix_masks(self, masks: Tensor, ignore_index: int | None = IGNORE_INDEX) -> Tensor:
        """Returns masks of class indices, (m, *size) integers, as they are and mixed."""
        mixed = self.plan.mix_masks(masks, ignore_index)[: self.mixed]
        return torch.cat([masks[: self.clean], mixed])
