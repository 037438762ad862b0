"""Which blocks under gradient checkpointing the running code belongs to.

`torch.utils.checkpoint` runs a block in the forward pass and again in the backward pass, and has no
function that tells the two apart. Its own functions are on the call stack in both, though, and hold
an object that belongs to the block and lives as long as its graph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeVar, cast

import torch
from torch import nn

_MODULE = "torch.utils.checkpoint"
_Function = TypeVar("_Function", bound=Callable[..., Any])


def uncompiled(function: _Function) -> _Function:
    """Returns a function that torch.compile leaves alone: compiled code has no call stack."""
    return cast(_Function, torch._disable_dynamo(function))  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Recomputation:
    """A block that is run again, and the backward pass that asked for it."""

    block: object
    backward: object


@dataclass(frozen=True)
class Blocks:
    """The checkpointed blocks around the running code.

    Attributes:
        entered: those that run for the first time, inside of `recomputation` if there is one.
        recomputation: the innermost one that is run again; None in a forward pass.
    """

    entered: tuple[object, ...]
    recomputation: Recomputation | None


@uncompiled
def checkpointed_blocks() -> Blocks:
    """Returns the blocks of `torch.utils.checkpoint` that the caller runs in."""
    entered: list[object] = []
    for frame in _callers():
        if frame.f_globals.get("__name__") != _MODULE:
            continue
        names, function = frame.f_locals, frame.f_code.co_name
        if function == "unpack_hook" and "frame" in names and "gid" in names:
            return Blocks(tuple(entered), Recomputation(names["frame"], names["gid"]))
        if function == "backward" and "ctx" in names:  # use_reentrant=True: an autograd function
            return Blocks(tuple(entered), Recomputation(names["ctx"], _graph_task()))
        if function == "forward" and "ctx" in names:
            entered.append(names["ctx"])
        if "gen" in names:  # use_reentrant=False: a generator that waits for the block
            waiting = names["gen"].gi_frame
            if waiting is not None and "new_frame" in waiting.f_locals:
                entered.append(waiting.f_locals["new_frame"])
    return Blocks(tuple(entered), None)


def in_backward() -> bool:
    """Returns whether a backward pass is under way in this thread."""
    return _graph_task() != -1


@uncompiled
def calls_under_way(module: nn.Module) -> int:
    """Returns how many calls of a module have not returned yet; more than one if it recurses."""
    code = nn.Module._call_impl.__code__
    return sum(f.f_code is code and f.f_locals.get("self") is module for f in _callers())


def _graph_task() -> int:
    return torch._C._current_graph_task_id()


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
