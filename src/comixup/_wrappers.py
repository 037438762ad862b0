"""Models inside models: DistributedDataParallel, fully_shard, torch.compile, Fabric."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn

from comixup._lightning import FABRIC_MODULE, FORWARD_MODULE, in_fabric_backward

_INSIDE = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "OptimizedModule": "_orig_mod",
    FABRIC_MODULE: FORWARD_MODULE,
}
"""Modules that only pass their calls on, by name (not all can be imported everywhere), and where
each keeps the module it passes them on to."""


def layers_of_wrapping(model: nn.Module) -> Iterator[nn.Module]:
    """Yields a model, then what it wraps, then what that wraps, and so on."""
    while True:
        yield model
        names = (_INSIDE.get(kind.__name__) for kind in type(model).__mro__)
        inside = [model._modules.get(name) for name in names if name is not None]
        if not inside or inside[0] is None:
            return
        model = inside[0]


def unwrapped(model: nn.Module) -> nn.Module:
    """Returns the model that the user wrote.

    >>> import torch
    >>> layer = nn.Linear(2, 3)
    >>> unwrapped(torch.compile(layer)) is layer
    True
    """
    *_, inner = layers_of_wrapping(model)
    return inner


def allowing_gradients(model: nn.Module) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which gradients may be taken past a model's own backward pass."""
    return in_fabric_backward(layers_of_wrapping(model))


def without_sync(model: nn.Module) -> contextlib.AbstractContextManager[object]:
    """Returns a context in which backward passes exchange no gradients between processes."""
    for module in layers_of_wrapping(model):
        no_sync = getattr(type(module), "no_sync", None)
        if no_sync is not None:
            context: contextlib.AbstractContextManager[object] = no_sync(module)
            return context
    if not isinstance(model, nn.Module):  # a function will do as well
        return contextlib.nullcontext()
    sharded = [module for module in model.modules() if hasattr(module, _SET_SYNC)]
    return _without_sync_of_shards(sharded) if sharded else contextlib.nullcontext()


_SET_SYNC = "set_requires_gradient_sync"
"""The method of modules that `torch.distributed.fsdp.fully_shard` was applied to (FSDP2)."""


@contextlib.contextmanager
def _without_sync_of_shards(sharded: list[nn.Module]) -> Iterator[None]:
    # Those that exchange nothing already, in a caller's own accumulation, are left alone.
    syncing = [module for module in sharded if _exchanges_gradients(module)]
    for module in syncing:
        getattr(module, _SET_SYNC)(False, recurse=False)
    try:
        yield
    finally:
        for module in syncing:
            getattr(module, _SET_SYNC)(True, recurse=False)


def _exchanges_gradients(sharded: Any) -> bool:
    """Whether a sharded module's next backward pass exchanges gradients; torch has no such call."""
    state = sharded._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
    return any(group is not None and group.reduce_grads for group in groups)
