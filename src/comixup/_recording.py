"""What it takes to record a backward pass, wherever the caller is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Records a backward pass, also inside of torch.no_grad() and torch.inference_mode()."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def recordable(values: Tensor) -> Tensor:
    """Returns a tensor that may be kept for a backward pass: a copy of an inference tensor."""
    return values.clone() if isinstance(values, Tensor) and values.is_inference() else values


def gradient_by(outputs: Tensor, inputs: Tensor, weight: Tensor) -> Tensor | None:
    """Returns the gradient of weighted outputs by the inputs alone; None if they do not depend."""
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


def check_no_transform(what: str) -> None:
    """Raises inside of torch.func's transforms, where tensors have no numbers to look at."""
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise RuntimeError(
            f"{what} must run outside of torch.func's transforms (vmap, grad, jvp), in which "
            "tensors have no numbers to look at. Call it before the transform."
        )


def check_can_record(what: str) -> None:
    """Raises inside of torch.inference_mode(), where no backward pass is recorded."""
    if torch.is_inference_mode_enabled():
        raise RuntimeError(
            f"{what} must be able to record a backward pass, but torch.inference_mode() is on. "
            "Call it outside."
        )
