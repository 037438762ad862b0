"""What torch.compile is to call as it is: decisions made in host memory have no graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

_P = ParamSpec("_P")
_R = TypeVar("_R")


def eager(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Returns a function that breaks a graph being compiled once, and runs as it is.

    As `torch.compiler.disable`, which would import the compiler, and takes as long as torch
    itself, in programs that compile nothing.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if torch.compiler.is_compiling():
            from comixup.mixers._disabled import run  # noqa: PLC0415  # the compiler is there already

            answer: _R = run(function, *args, **kwargs)
            return answer
        return function(*args, **kwargs)

    return call
