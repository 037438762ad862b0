"""Checks of what a caller gives; error messages name argument, rule, value and remedy."""

from __future__ import annotations

import sys
import warnings
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from comixup._grid import MAX_DIMENSIONS

Floats: TypeAlias = npt.NDArray[np.float64]

MAX_MAGNITUDE = 1e30
"""Largest cost, compatibility or weight: the kernel adds up a whole grid of them in float32."""


MAX_THREADS = 1024
"""More threads than this are a mistake."""


def floating(name: str, value: object) -> Tensor:
    """Returns a tensor argument detached, in float32 or float64."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"`{name}` must be a torch tensor, got {type(value).__name__}. Wrap it in "
            "torch.as_tensor()."
        )
    if value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"`{name}` must hold real numbers, got {value.dtype}.")
    value = value.detach()
    return value if value.dtype in (torch.float32, torch.float64) else value.float()


def on_host(value: Tensor) -> Floats:
    """Returns a tensor as a float64 array in host memory, where checks are cheap."""
    return np.ascontiguousarray(value.numpy(force=True), dtype=np.float64)


def host_copy(value: Tensor) -> Floats:
    """Returns a copy of a tensor as a float64 array in host memory."""
    return np.array(on_host(value))


def check_precision(name: str, value: Tensor) -> None:
    """Rejects floating-point numbers of fewer than 16 bits, which torch can hardly compute with."""
    if value.is_floating_point() and value.dtype.itemsize < 2:
        raise TypeError(
            f"`{name}` must have at least 16 bits if floating point, got {value.dtype}. Convert "
            "first, for instance by .to(torch.bfloat16)."
        )


def check_finite(name: str, values: Floats) -> None:
    """Rejects NaN, infinities and absurd sizes; the first axis counts inputs."""
    if not np.abs(values).max() <= MAX_MAGNITUDE:  # NaN is not
        bad, *_ = index = np.argwhere(~(np.abs(values) <= MAX_MAGNITUDE))[0]
        raise ValueError(
            f"`{name}` must be finite and at most {MAX_MAGNITUDE:g} in size, got "
            f"{values[tuple(index)]:g} for input {bad}. Replace that input's map, for instance by "
            "a uniform one."
        )


def check_images(images: Tensor) -> None:
    """Rejects what is not a batch of images, sounds or volumes."""
    if not isinstance(images, Tensor):
        raise TypeError(f"`images` must be a torch tensor, got {type(images).__name__}.")
    if not 3 <= images.ndim <= 2 + MAX_DIMENSIONS or images.numel() == 0:
        raise ValueError(
            "`images` must have shape (batch, channels, *size) with 1 to "
            f"{MAX_DIMENSIONS} spatial dimensions and none empty, got {tuple(images.shape)}. Mix "
            "whole batches: after the data loader, or in its collate function."
        )


def check_number(name: str, value: Any, high: float = MAX_MAGNITUDE) -> None:
    """Rejects what is not a number from 0 to `high`."""
    rule = f"a number from 0 to {high:g}"
    if isinstance(value, bool) or not issubclass(type(value), Real):
        raise TypeError(f"`{name}` must be {rule}, got {value!r}.")
    if not 0 <= value <= high:  # NaN is not
        raise ValueError(f"`{name}` must be {rule}, got {value!r}.")


def check_positive(name: str, value: Any, hint: str = "") -> None:
    """Rejects what is not a number above 0; the hint says what to do instead."""
    check_number(name, value)
    if value == 0:
        raise ValueError(f"`{name}` must be above 0, got {value!r}. {hint}".rstrip())


def check_fraction(name: str, value: Any) -> None:
    """Rejects what is not a number between 0 and 1, both exclusive."""
    check_number(name, value, high=1)
    if value in (0, 1):
        raise ValueError(
            f"`{name}` must be between 0 and 1, got {value!r}. Leave it out to hold out nothing."
        )


def check_count(name: str, value: object, low: int = 1, high: int | None = None) -> None:
    """Rejects what is not an integer from `low` on, up to `high` if that is given."""
    # `int` comes first because the abstract class takes a while to ask.
    if isinstance(value, bool) or not isinstance(value, (int, Integral)) or value < low:
        rule = "a positive integer" if low == 1 else f"an integer of at least {low}"
        raise ValueError(f"`{name}` must be {rule}, got {value!r}.")
    if high is not None and int(value) > high:
        raise ValueError(f"`{name}` must be an integer from {low} to {high}, got {value!r}.")


def check_boolean(name: str, value: object) -> None:
    """Rejects what is not True or False: any object would pass for one of them."""
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False, got {value!r}.")


def thread_count(num_threads: int | None) -> int:
    """Returns the number of threads to use: the one asked for, or else torch's."""
    return min(torch.get_num_threads(), MAX_THREADS) if num_threads is None else int(num_threads)


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Rejects what is not one of the choices."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {list(choices)}, got {value!r}.")


_OURS = ("comixup.", "torch.")  # modules call their `forward` through torch


def warn_caller(message: str) -> None:
    """Warns at the line that led here through calls of this package, and of torch."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
