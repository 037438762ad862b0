"""RecursiveMix: the last mixed batch, downscaled and pasted into this one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from comixup._checks import check_boolean
from comixup.mixers._cutmix import Boxes, boxes_inside
from comixup.mixers._mixer import Mixed, Mixer
from comixup.mixers._resizemix import checked_range


@dataclass(eq=False, repr=False, kw_only=True)
class RecursiveMix(Mixer):
    """RecursiveMix (Yang et al., NeurIPS 2022): the last mixed batch, downscaled and pasted.

    Mixed image j of the last batch is resized into a box inside image j of this one. The box covers
    a share u ~ U(low, high) of the area, the weight of the last targets. The paper's region
    consistency loss is not implemented.

    The first batch of an epoch (after `end_epoch`) is not mixed, nor is one with more images than
    the last or with another image size; if it has fewer, the last one's first images are used. Only
    the last batch is kept, detached, on its device, per process, and in `state_dict`. The plan's
    inputs are this batch's images followed by the last one's; dictionary batches must all have the
    same entries.

    Args:
        share: (low, high) of the box's share, 0 <= low <= high <= 1.
        per_sample: draw shares and locations for each image rather than for the batch.
        num_classes, p, clean_weight, clean_reduction, generator, validate: see `Mixer`.

    >>> mixup = RecursiveMix(num_classes=10)
    >>> for _ in range(2):
    ...     images, targets = mixup(torch.rand(8, 3, 32, 32), torch.arange(8))
    >>> images.shape, targets.shape, mixup.last.plan.num_inputs
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]), 16)
    """

    recalls = True
    share: tuple[float, float] = (0.0, 0.5)
    per_sample: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self)["share"] = checked_range("share", self.share)
        check_boolean("per_sample", self.per_sample)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns the boxes for a batch; the identity plan without a previous batch."""
        m, size = len(images), tuple(images.shape[2:])
        last = self.previous.get("images")
        if last is None or len(last) < m or last.shape[1:] != images.shape[1:]:
            return Mixed(self.identity_plan(images), mixed=False)
        low, high = self.share
        rows = m if self.per_sample else 1
        area = low + (high - low) * torch.rand(rows, 1, 1, generator=self.generator)
        begin, end = boxes_inside(area ** (1 / len(size)), size, self.generator)
        partners = torch.arange(m, 2 * m).unsqueeze(1)
        return Mixed(Boxes(partners, begin, end, size, resized=True, others=m))
