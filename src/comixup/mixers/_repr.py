"""Representations that could be typed back."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor


def call_of(value: object) -> str:
    """Returns the call that makes an object, of the arguments that are not at their defaults.

    For classes that keep every argument of theirs as an attribute of the same name.
    """
    arguments = [
        f"{name}={_shown(own)}"
        for name, parameter in inspect.signature(type(value)).parameters.items()
        if not _same(own := getattr(value, name), parameter.default)
    ]
    return f"{type(value).__name__}({', '.join(arguments)})"


def _same(value: Any, default: Any) -> bool:
    return value is default or (not isinstance(value, Tensor) and bool(value == default))


def _shown(value: Any) -> str:
    if isinstance(value, torch.Generator):
        return f"torch.Generator().manual_seed({value.initial_seed()})"
    if isinstance(value, Tensor):
        return f"torch.{value!r}"
    return getattr(value, "__name__", None) or repr(value)
