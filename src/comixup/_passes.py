"""Forward and backward passes over a user's model, wrapped or not, in any autograd mode.

Unwrap models (DistributedDataParallel, fully_shard, torch.compile, Fabric), record a backward pass
in any autograd mode, restore a model's buffers after a forward pass.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from comixup._lightning import FABRIC_MODULE, FORWARD_MODULE, in_fabric_backward

_INSIDE = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "OptimizedModule": "_orig_mod",
    FABRIC_MODULE: FORWARD_MODULE,
}
"""Wrapper classes, by name (not all can be imported everywhere), and each one's attribute for the
wrapped module."""


def layers_of_wrapping(model: nn.Module) -> list[nn.Module]:
    """Returns a model and everything it wraps, outermost first."""
    layers = [model]
    while True:
        kinds = [kind.__name__ for kind in type(layers[-1]).__mro__ if kind.__name__ in _INSIDE]
        inside = layers[-1]._modules.get(_INSIDE[kinds[0]]) if kinds else None
        if inside is None:
            return layers
        layers.append(inside)


def unwrapped(model: nn.Module) -> nn.Module:
    """Returns the innermost model, without wrappers.

    >>> import torch
    >>> layer = nn.Linear(2, 3)
    >>> unwrapped(torch.compile(layer)) is layer
    True
    """
    return layers_of_wrapping(model)[-1]


def allowing_gradients(model: nn.Module) -> contextlib.AbstractContextManager[None]:
    """Returns a context that allows gradients outside a wrapper's own backward pass."""
    return in_fabric_backward(layers_of_wrapping(model))


def without_sync(model: nn.Module) -> contextlib.AbstractContextManager[object]:
    """Returns a context without gradient synchronization between processes."""
    for module in layers_of_wrapping(model):
        no_sync = getattr(type(module), "no_sync", None)
        if no_sync is not None:
            context: contextlib.AbstractContextManager[object] = no_sync(module)
            return context
    if not isinstance(model, nn.Module):  # any callable serves as a model
        return contextlib.nullcontext()
    sharded = [module for module in model.modules() if hasattr(module, _SET_SYNC)]
    return _without_sync_of_shards(sharded) if sharded else contextlib.nullcontext()


_SET_SYNC = "set_requires_gradient_sync"
"""The method of modules that `torch.distributed.fsdp.fully_shard` was applied to (FSDP2)."""


@contextlib.contextmanager
def _without_sync_of_shards(sharded: list[nn.Module]) -> Iterator[None]:
    # Modules that the caller has already set to not synchronize (accumulation) stay so.
    syncing = [module for module in sharded if _exchanges_gradients(module)]
    for module in syncing:
        getattr(module, _SET_SYNC)(False, recurse=False)
    try:
        yield
    finally:
        for module in syncing:
            getattr(module, _SET_SYNC)(True, recurse=False)


def _exchanges_gradients(sharded: Any) -> bool:
    """Whether a sharded module synchronizes gradients in its next backward pass."""
    state = sharded._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
    return any(group is not None and group.reduce_grads for group in groups)


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Enables autograd, also inside torch.no_grad() and torch.inference_mode()."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def recordable(values: Tensor) -> Tensor:
    """Returns a tensor that autograd can save: a copy if it is an inference tensor."""
    return values.clone() if isinstance(values, Tensor) and values.is_inference() else values


def gradient_by(outputs: Tensor, inputs: Tensor, weight: Tensor) -> Tensor | None:
    """Returns the gradient of weighted outputs with respect to the inputs; None if independent."""
    try:
        (gradient,) = torch.autograd.grad(outputs, inputs, weight, allow_unused=True)
    except RuntimeError as error:
        if "checkpoint" in str(error).lower() and ".grad()" in str(error):
            raise RuntimeError(
                "`model` must use checkpoint(..., use_reentrant=False) where the gradient of the "
                "images alone is computed; reentrant checkpointing cannot. Or use "
                "keep_gradients=True, if that is a choice."
            ) from error
        raise
    return gradient


def check_can_record(what: str) -> None:
    """Raises inside torch.inference_mode(), where no backward pass is recorded."""
    if torch.is_inference_mode_enabled():
        raise RuntimeError(
            f"{what} must be able to record a backward pass, but torch.inference_mode() is on. "
            "Call it outside."
        )


@contextlib.contextmanager
def unchanged_buffers(model: nn.Module) -> Iterator[None]:
    """Restores a model's buffers on exit.

    To their values at the start of the forward pass: after DistributedDataParallel has broadcast
    those of rank 0, and after lazy modules have initialized theirs.
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
            # It runs after the lazy module's own hook, which creates the buffers.
            handles.append(module.register_forward_pre_hook(save_initialized))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        with torch.no_grad():
            for owner, name, buffer, value in saved:
                owner._buffers[name] = buffer  # some modules replace their buffers
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
