"""ResizeMix: another whole image, downscaled and pasted into each image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_number
from comixup.mixers._cutmix import Boxes, boxes_inside
from comixup.mixers._mixer import Mixed, Mixer


@dataclass(eq=False, repr=False, kw_only=True)
class ResizeMix(Mixer):
    """ResizeMix (Qin et al., 2020): a downscaled copy of another image pasted into each image.

    The partner's sides are scaled by tau ~ U(low, high), so that its whole object is shown; targets
    are weighted by the copy's pixels. The copy lies inside the image; the official implementation
    draws its center and clips the box, which changes the copy's aspect ratio.

    Args:
        scale: (low, high) of tau, 0 < low <= high <= 1.
        per_sample: draw scales and locations for each image rather than for the batch.
        num_classes, p, clean_weight, clean_reduction, generator, validate: see `Mixer`.

    >>> mixup = ResizeMix(num_classes=10)
    >>> images, targets = mixup(torch.rand(8, 3, 32, 32), torch.arange(8))
    >>> images.shape, targets.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    scale: tuple[float, float] = (0.1, 0.8)
    per_sample: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        vars(self)["scale"] = checked_range("scale", self.scale)
        check_boolean("per_sample", self.per_sample)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns partners and boxes for a batch."""
        m, size = len(images), tuple(images.shape[2:])
        partners = torch.randperm(m, generator=self.generator).unsqueeze(1)
        low, high = self.scale
        rows = m if self.per_sample else 1
        tau = low + (high - low) * torch.rand(rows, 1, 1, generator=self.generator)
        begin, end = boxes_inside(tau, size, self.generator)
        return Mixed(Boxes(partners, begin, end, size, resized=True))


def checked_range(name: str, value: object, high: float = 1.0) -> tuple[float, float]:
    """Returns a validated range of two numbers from 0 to `high`."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"`{name}` must be a pair (min, max), got {value!r}.")
    for number in value:
        check_number(name, number, high=high)
    least, most = value
    if least > most:
        raise ValueError(f"`{name}` must have its least number first, got {value!r}.")
    return float(least), float(most)
