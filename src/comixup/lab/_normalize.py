"""Colours as networks take them: from 0 to 1, minus the mean, divided by the standard deviation."""

from __future__ import annotations

import torch
from torch import Tensor

BLACK_TO_WHITE = 255
"""Of uint8 colours."""


def normalize(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Returns new float32 images: colours from 0 to 1 (if they came as uint8), minus mean, by std.

    >>> normalize(torch.tensor([[[255]]], dtype=torch.uint8), (0.5,), (0.25,))
    tensor([[[2.]]])
    """
    white = BLACK_TO_WHITE if images.dtype == torch.uint8 else 1
    scale = tuple(1 / (white * deviation) for deviation in std)
    shift = tuple(-average / deviation for average, deviation in zip(mean, std, strict=True))
    output = images.to(torch.float32, copy=True)
    return output.mul_(per_channel(scale, output)).add_(per_channel(shift, output))


def per_channel(values: tuple[float, ...], images: Tensor) -> Tensor:
    """Returns a number per channel, (C, 1, 1) float32, on the images' device."""
    return torch.tensor(values, dtype=torch.float32, device=images.device).view(-1, 1, 1)
