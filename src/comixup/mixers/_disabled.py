"""Calls that torch.compile does not look into. Imports the compiler: see `_eager`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import torch

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _run(function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
    return function(*args, **kwargs)


run: Callable[..., Any] = torch.compiler.disable(_run)  # type: ignore[no-untyped-call]
