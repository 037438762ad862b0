"""Tensors from one device to another."""

from __future__ import annotations

import torch
from torch import Tensor


def to_device(
    values: Tensor, device: torch.device | str, dtype: torch.dtype | None = None
) -> Tensor:
    """Returns a tensor on a device, without waiting for the copy where nothing can read it early.

    A copy to another device is made in the order of that device's other work. One to the host is
    waited for: the host would read what was in its memory before.
    """
    device = torch.device(device)
    return values.to(device, dtype or values.dtype, non_blocking=device.type != "cpu")


def communicating_device(own: torch.device, backends: str) -> torch.device:
    """Returns the device on which processes can exchange a tensor: its own if that is possible.

    Args:
        own: where the tensor is.
        backends: what `torch.distributed.get_backend_config()` returns.

    >>> communicating_device(torch.device("cpu"), "cpu:gloo,cuda:nccl").type
    'cpu'
    >>> communicating_device(torch.device("cpu"), "cuda:nccl").type
    'cuda'
    """
    kinds = [pair.split(":")[0] for pair in backends.split(",")]
    return own if own.type in kinds else torch.device(kinds[0])
