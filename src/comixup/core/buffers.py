"""A model's buffers, running statistics mostly, through a pass that is not to change them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from comixup._wrappers import unwrapped


@contextlib.contextmanager
def unchanged_buffers(model: nn.Module) -> Iterator[None]:
    """Gives a model's buffers back their values at the end.

    The values are those with which its forward pass begins: DistributedDataParallel first hands
    out the ones of the first process, and that is to stay. Buffers of lazy modules, which have none
    until their first pass, get back those that they are initialized with.
    """
    inner = unwrapped(model)
    if not any(module.training for module in inner.modules()):
        yield
        return
    saved = _save_buffers(inner)

    def save_again(*_: object) -> None:
        saved[:] = _save_buffers(inner)

    def save_initialized(module: nn.Module, *_: object) -> None:
        saved.extend(_own_buffers(module))

    handles = [inner.register_forward_pre_hook(save_again)]
    for module in inner.modules():
        if any(buffer is not None and is_lazy(buffer) for buffer in module._buffers.values()):
            # It runs after the hook of the lazy module itself, which makes the buffers.
            handles.append(module.register_forward_pre_hook(save_initialized))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        with torch.no_grad():
            for owner, name, buffer, value in saved:
                owner._buffers[name] = buffer  # some modules put a new one in its place
                if 0 not in buffer.stride():  # an expanded one cannot have been written to
                    buffer.copy_(value)


_SavedBuffer: TypeAlias = tuple[nn.Module, str, Tensor, Tensor]


def _save_buffers(model: nn.Module) -> list[_SavedBuffer]:
    """Returns each buffer with its owner, name and a copy of its values."""
    return [saved for module in model.modules() for saved in _own_buffers(module)]


def _own_buffers(module: nn.Module) -> list[_SavedBuffer]:
    return [
        (module, name, buffer, buffer.clone())
        for name, buffer in module._buffers.items()
        if buffer is not None and not is_lazy(buffer)
    ]
