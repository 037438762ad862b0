"""The memory format that networks run in."""

from __future__ import annotations

import torch
from torch import nn

MEMORY_FORMAT = torch.channels_last
"""Of images and weights: convolutions are faster in it, on CPUs by up to a half."""

_BLOCK = {"AVX512": 16}
"""Channels that oneDNN's 1 x 1 convolutions compute together, by the CPU's capability."""
_SMALLEST_BLOCK = 8


def memory_format(model: nn.Module, device: torch.device) -> torch.memory_format:
    """Returns channels last, or the contiguous format for networks that it would crash.

    On CPUs, the weight gradient of a 1 x 1 convolution with a stride and fewer input channels than
    a block writes beyond its buffer if the images are channels last (oneDNN issue 6035): the
    process crashes, or trains on wrong gradients.

    >>> memory_format(nn.Conv2d(4, 8, 1, stride=2), torch.device("cpu"))
    torch.contiguous_format
    >>> memory_format(nn.Conv2d(16, 32, 1, stride=2), torch.device("cpu"))
    torch.channels_last
    """
    if device.type != "cpu":
        return MEMORY_FORMAT
    block = _BLOCK.get(torch.backends.cpu.get_cpu_capability(), _SMALLEST_BLOCK)
    narrow = any(
        isinstance(module, nn.Conv2d)
        and set(module.kernel_size) == {1}
        and max(module.stride) > 1
        and module.groups == 1
        and 1 < module.in_channels < block
        for module in model.modules()
    )
    return torch.contiguous_format if narrow else MEMORY_FORMAT
