"""Warns of training loops that drop the clean gradient between its pass and that of the mixed loss.

The clean pass leaves its gradient in the weights' `.grad`, for the mixed loss's backward pass to
add to. Where the gradients are zeroed in between, the clean term is gone, and nothing else shows.
"""

from __future__ import annotations

import weakref

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from comixup._checks import warn_caller
from comixup._lightning import automatic_optimization
from comixup._passes import layers_of_wrapping

_REMEDY = (
    "or set keep_gradients=False (CoMixup, PuzzleMix) or clean_weight=0 to train on mixed images "
    "alone, which costs less. This warning is shown once."
)


class KeptGradient:
    """The clean gradient of one weight, from its pass to the mixed loss's backward pass.

    One weight stands for all: gradients are zeroed together. Nothing is read from a device unless
    the gradient was changed in between, which a correct loop does not do.
    """

    def __init__(self) -> None:
        self._warned = False
        self._weight: weakref.ref[nn.Parameter] | None = None
        self._version = 0
        self._handle: RemovableHandle | None = None

    def __reduce__(self) -> tuple[type[KeptGradient], tuple[()]]:
        """Returns how to copy and pickle it: a copied mixer has had no clean pass."""
        return KeptGradient, ()

    def forget(self) -> None:
        """Stops watching: the clean pass of before is not followed by its mixed batch."""
        if self._handle is not None:
            self._handle.remove()
        self._weight = self._handle = None

    def remember(self, model: nn.Module) -> None:
        """Takes note of the gradient that a clean pass has just left in a model's weights."""
        self.forget()
        if self._warned:
            return
        module = automatic_optimization()
        if module is not None:
            self._warn(
                f"{module} must not use Lightning's automatic optimisation with a clean gradient "
                "that is kept: it zeroes the gradients after training_step, and the clean term is "
                "dropped. Use comixup.adapters.lightning.KeepCleanGradient, or set "
                "self.automatic_optimization = False and pass backward=self.manual_backward, "
                f"{_REMEDY}"
            )
            return
        weight = _plain_weight(model)
        if weight is not None and weight.grad is not None:
            self._weight, self._version = weakref.ref(weight), weight.grad._version

    def watch(self) -> None:
        """Looks at the gradient once the next backward pass reaches it."""
        weight = None if self._weight is None else self._weight()
        if weight is not None and weight.requires_grad:
            self._handle = weight.register_hook(self._check)  # type: ignore[no-untyped-call]

    def _check(self, _: Tensor) -> None:
        weight, version = None if self._weight is None else self._weight(), self._version
        self.forget()
        if weight is None:
            return
        grad = weight.grad
        # A gradient that was clipped or scaled in place is another version, too, but not zero.
        if grad is None or (grad._version != version and not grad.any()):
            self._warn(
                "Gradients must not be zeroed between the clean pass (`saliency`, `clean_pass`) "
                "and the backward pass of the mixed loss, but were: the clean term is dropped. "
                f"Call optimizer.zero_grad() before the clean pass, {_REMEDY}"
            )

    def _warn(self, message: str) -> None:
        self._warned = True
        warn_caller(message)


def _plain_weight(model: nn.Module) -> nn.Parameter | None:
    """Returns a weight of a model that has a gradient of its own: not a shard of one."""
    if not isinstance(model, nn.Module):  # a function will do as well
        return None
    if any(type(m).__name__ == "FullyShardedDataParallel" for m in layers_of_wrapping(model)):
        return None
    for weight in model.parameters():
        if type(weight) is nn.Parameter and weight.requires_grad and weight.grad is not None:
            return weight
    return None
