"""Checks of tensor arguments, and copies between host and device.

Error messages name argument, rule, value and remedy.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from comixup._checks import MAX_MAGNITUDE
from comixup.core.grid import MAX_DIMENSIONS

Floats: TypeAlias = npt.NDArray[np.float64]

_ALIGNED = 8
"""Bytes that numbers of any type are aligned to."""
MAX_THREADS = 1024
"""Largest accepted number of threads: more are a mistake."""


def floating(name: str, value: object) -> Tensor:
    """Returns a tensor argument detached, in float32 or float64, in its own memory layout.

    Lazy negation (of a conjugate's imaginary part) is resolved: the kernel reads raw memory.
    """
    if not isinstance(value, Tensor):
        raise TypeError(
            f"`{name}` must be a torch tensor, got {type(value).__name__}. Wrap it in "
            "torch.as_tensor()."
        )
    if value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"`{name}` must hold real numbers, got {value.dtype}.")
    value = value.detach().resolve_neg()
    return value if value.dtype in (torch.float32, torch.float64) else value.float()


def on_host(value: Tensor) -> Floats:
    """Returns a tensor as a float64 array in host memory."""
    return np.ascontiguousarray(value.detach().resolve_neg().cpu().numpy(), dtype=np.float64)


def host_copy(value: Tensor) -> Floats:
    """Returns a copy of a tensor as a float64 array in host memory."""
    return np.array(on_host(value))


def to_device(
    values: Tensor, device: torch.device | str, dtype: torch.dtype | None = None
) -> Tensor:
    """Returns a tensor on a device, copied asynchronously where that is safe.

    Copies to a device are ordered with its other work. Copies to the host are synchronous: the host
    would read stale memory otherwise.
    """
    device = torch.device(device)
    return values.to(device, dtype or values.dtype, non_blocking=device.type != "cpu")


def together(values: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Returns tensors on a device; host tensors share a single copy."""
    rows = [k for k, value in enumerate(values) if value.device != device]
    found = list(values)
    if len(rows) < 2:
        return [to_device(value, device) for value in found]
    flat = [found[k].contiguous().view(-1).view(torch.uint8) for k in rows]
    ends = list(itertools.accumulate(-(-len(one) // _ALIGNED) * _ALIGNED for one in flat))
    packed = torch.empty(ends[-1], dtype=torch.uint8, device="cpu")
    for one, begin in zip(flat, [0, *ends], strict=False):
        packed[begin : begin + len(one)] = one
    there = to_device(packed, device)
    for k, one, begin in zip(rows, flat, [0, *ends], strict=False):
        bytes_ = there[begin : begin + len(one)]
        found[k] = bytes_.view(found[k].dtype).view(found[k].shape)
    return found


def check_precision(name: str, value: Tensor) -> None:
    """Raises for floating-point types of fewer than 16 bits."""
    if value.is_floating_point() and value.dtype.itemsize < 2:
        raise TypeError(
            f"`{name}` must have at least 16 bits if floating point, got {value.dtype}. Convert "
            "first, for instance by .to(torch.bfloat16)."
        )


def check_finite(name: str, values: Floats) -> None:
    """Raises for NaN, infinite or too large values; the first axis is that of inputs."""
    if not np.abs(values).max() <= MAX_MAGNITUDE:  # rejects NaN too
        bad, *_ = index = np.argwhere(~(np.abs(values) <= MAX_MAGNITUDE))[0]
        raise ValueError(
            f"`{name}` must be finite and at most {MAX_MAGNITUDE:g} in size, got "
            f"{values[tuple(index)]:g} for input {bad}. Replace that input's map, for instance by "
            "a uniform one."
        )


def check_images(images: Tensor) -> None:
    """Raises unless a tensor is a batch of images, sounds or volumes."""
    if not isinstance(images, Tensor):
        raise TypeError(f"`images` must be a torch tensor, got {type(images).__name__}.")
    if not 3 <= images.ndim <= 2 + MAX_DIMENSIONS or images.numel() == 0:
        raise ValueError(
            "`images` must have shape (batch, channels, *size) with 1 to "
            f"{MAX_DIMENSIONS} spatial dimensions and none empty, got {tuple(images.shape)}. Mix "
            "whole batches: after the data loader, or in its collate function."
        )


def thread_count(num_threads: int | None) -> int:
    """Returns the number of threads: the one given, or torch's."""
    return min(torch.get_num_threads(), MAX_THREADS) if num_threads is None else int(num_threads)


def check_model(model: object, arguments: str, others: tuple[type, ...] = ()) -> None:
    """Raises unless a model is callable and not an instance of `others`.

    `arguments` are the caller's, in order, for the error message.
    """
    if isinstance(model, nn.Module):
        return
    if isinstance(model, (Tensor, *others)) or not callable(model):
        raise TypeError(
            f"`model` must be a torch module, got {type(model).__name__}. The arguments are "
            f"({arguments})."
        )


def check_no_transform(what: str) -> None:
    """Raises inside torch.func transforms, where values cannot be read."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise RuntimeError(
            f"{what} must run outside of torch.func's transforms (vmap, grad, jvp), in which "
            "the values of tensors cannot be read. Call it before the transform."
        )
