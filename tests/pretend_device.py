"""A device that is not there: tensors that compute in host memory, but as if elsewhere.

What leaves or reaches the device is counted, operations on tensors of different devices fail as
they would on a GPU, and nothing can look into such a tensor's memory: its data pointer is null.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

aten = torch.ops.aten

COPIES = (aten._to_copy.default, aten.copy_.default)
WAITS = (
    aten._local_scalar_dense,
    aten.equal,
    aten.masked_select,
    aten.nonzero,
    aten.unique_consecutive,
    aten._unique2,
    aten.unique_dim,
)
"""Operations whose result, or its shape, the host must know before it can go on.

So are copies to the device that are not asynchronous."""


class _Backend(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


backend_registration._setup_privateuseone_for_python_backend("pretend", _Backend())
DEVICE = torch.device("pretend", 0)


class Elsewhere(Tensor):
    """A tensor of the device, over one in host memory."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Elsewhere:
        made = Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        made.inner = inner
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise AssertionError(f"{func} runs on the device outside of `counted`.")


def on_host(value: Any) -> Any:
    """Returns the tensor in host memory behind one of the device, and anything else as it is."""
    return value.inner if isinstance(value, Elsewhere) else value


class _Device(TorchDispatchMode):
    """Runs what concerns the device in host memory, and counts what crosses."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        theirs = [value for value in tensors if isinstance(value, Elsewhere)]
        here = bool(theirs)
        if kwargs.get("device") is not None:
            here = torch.device(kwargs["device"]).type == DEVICE.type
            kwargs["device"] = "cpu"
        elif func is aten.copy_.default:
            here = isinstance(args[0], Elsewhere)
        if func in COPIES:
            source = args[1] if func is aten.copy_.default else args[0]
            if isinstance(source, Elsewhere) != here:
                self.counts["to device" if here else "to host"] += 1
                # On CUDA the host would wait for all that the device has yet to do.
                if here and not kwargs.get("non_blocking", args[2] if len(args) > 2 else False):
                    self.counts["waits"] += 1
        elif theirs:
            self._check(func, tensors)
        out = func(*tree_map(on_host, args), **tree_map(on_host, kwargs))
        if not here:
            return out
        out = tree_map(lambda value: Elsewhere(value) if isinstance(value, Tensor) else value, out)
        return return_and_correct_aliasing(func, args, kwargs, out)

    def _check(self, func: Any, tensors: list[Tensor]) -> None:
        """Counts what the host waits for, and fails where devices differ."""
        boolean = func.overloadpacket in (aten.index, aten.index_put, aten.index_put_) and any(
            value.dtype in (torch.bool, torch.uint8) for value in tensors[1:]
        )
        if func.overloadpacket in WAITS or boolean:
            self.counts["waits"] += 1
        # A number of the host goes along with a kernel's launch.
        other = [v for v in tensors if not isinstance(v, Elsewhere) and v.ndim > 0]
        if other:
            raise RuntimeError(
                f"{func} got tensors of the device and of the host, {tuple(other[0].shape)}."
            )


@contextlib.contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts the copies "to device" and "to host", and the host's "waits", in its block."""
    device = _Device()
    # Backward passes run in this thread, for the others have no mode.
    with torch.autograd.set_multithreading_enabled(False), device:
        yield device.counts
