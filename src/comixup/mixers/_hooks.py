"""Hooks on a user's model: mix a layer's output, check the kept clean gradient."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from comixup._checks import warn_caller
from comixup._lightning import automatic_optimization
from comixup._passes import layers_of_wrapping, unwrapped
from comixup.core.mix import Plan

_CHECKPOINT = "torch.utils.checkpoint"
_Function = TypeVar("_Function", bound=Callable[..., Any])
_HOOKS_ARE_WATCHED = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)
"""Whether torch.compile guards on attributes of a hook. If not, the first batch's plan would be
compiled into the code."""
_REMEDY = (
    "or set keep_gradients=False (CoMixup, PuzzleMix) or clean_weight=0 to train on mixed images "
    "alone, which costs less. This warning is shown once."
)


def uncompiled(function: _Function) -> _Function:
    """Returns a function excluded from torch.compile."""
    return cast(_Function, torch._disable_dynamo(function))  # type: ignore[attr-defined]


class Recomputation(NamedTuple):
    """A recomputed checkpoint block, and the backward pass that recomputes it."""

    block: object
    backward: object


@uncompiled
def checkpointed_blocks() -> tuple[list[object], Recomputation | None]:
    """Returns the active blocks of `torch.utils.checkpoint`, from the call stack.

    First the blocks in their first run, then the innermost one being recomputed, which contains
    them; None in a forward pass.

    `torch.utils.checkpoint` has no API to tell a block's first run from its recomputation. But in
    both its own functions are on the call stack, with an object that belongs to the block and lives
    as long as its graph.
    """
    entered: list[object] = []
    for frame in _callers():
        if frame.f_globals.get("__name__") != _CHECKPOINT:
            continue
        names, function = frame.f_locals, frame.f_code.co_name
        if function == "unpack_hook" and "frame" in names and "gid" in names:
            return entered, Recomputation(names["frame"], names["gid"])
        if function == "backward" and "ctx" in names:  # use_reentrant=True: an autograd function
            return entered, Recomputation(names["ctx"], _graph_task())
        if function == "forward" and "ctx" in names:
            entered.append(names["ctx"])
        if "gen" in names:  # use_reentrant=False: a suspended generator
            waiting = names["gen"].gi_frame
            if waiting is not None and "new_frame" in waiting.f_locals:
                entered.append(waiting.f_locals["new_frame"])
    return entered, None


def in_backward() -> bool:
    """Returns whether a backward pass is running in this thread."""
    return _graph_task() != -1


@uncompiled
def calls_under_way(module: nn.Module) -> int:
    """Returns the number of active calls of a module."""
    code = nn.Module._call_impl.__code__
    return sum(f.f_code is code and f.f_locals.get("self") is module for f in _callers())


def _graph_task() -> int:
    return torch._C._current_graph_task_id()


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


@dataclass
class _BlockRuns:
    """The plans of a layer's runs in a checkpointed block, in order; None for unmixed runs."""

    blends: list[Plan | None] = field(default_factory=list)
    repeated: dict[object, int] = field(default_factory=dict)  # runs, by backward pass

    def repeat(self, backward: object) -> Plan | None:
        """Returns the plan of the next run that a backward pass recomputes."""
        number = self.repeated.get(backward, 0)
        self.repeated[backward] = number + 1
        return self.blends[number]


class LayerHook:
    """Mixes a layer's first output in each forward pass, if it has a plan and the model trains.

    A block recomputed by gradient checkpointing is mixed as in its forward pass, even if the hook
    has a new plan by then.

    It is registered once, before the model is compiled; a new plan changes only attributes, which
    torch.compile guards on. Copies, pickled ones too, have no plan: no mixer refers to them.

    Attributes:
        name: name of the layer.
        passes: the model's forward passes.
        blend: the plan; None for no mixing.
        has_mixed: whether the plan has been applied.
        has_run: whether the layer has run in this forward pass.
        has_repeated: whether it has run more than once in it.
        compiled: whether it has run in compiled code of a forward pass by this plan.
    """

    def __init__(self, name: str, passes: ForwardPasses | None = None) -> None:
        self.name = name
        self.passes = ForwardPasses() if passes is None else passes
        self.blend: Plan | None = None
        self.has_mixed = self.has_run = self.has_repeated = self.compiled = False
        self._block_runs: weakref.WeakKeyDictionary[object, _BlockRuns] = (
            weakref.WeakKeyDictionary()
        )

    def __reduce__(self) -> tuple[object, ...]:
        return LayerHook, (self.name,)

    def set_plan(self, blend: Plan) -> None:
        """Mixes by this plan from now on."""
        self.blend = blend
        self.has_mixed = self.has_run = self.has_repeated = self.compiled = False

    def __call__(self, module: nn.Module, inputs: object, output: object) -> Tensor | None:
        if torch.compiler.is_compiling():
            return self._call_compiled(module, output)
        return self._call(module, output)

    def _call(self, module: nn.Module, output: object) -> Tensor | None:
        if self.blend is None and not self._block_runs:
            return None
        return self._mix(self._choose(module), output)

    _call_uncompiled = uncompiled(_call)

    def _call_compiled(self, module: nn.Module, output: object) -> Tensor | None:
        if not _HOOKS_ARE_WATCHED:
            return self._call_uncompiled(module, output)
        if self.blend is None or not module.training:
            return None
        if self.passes.depth:
            self.compiled = True
            return self._mix(self._next_in_pass(), output)
        if self.compiled and not self.has_repeated:  # recomputed
            return self._mix(self.blend, output)
        return self._call_uncompiled(module, output)

    def _choose(self, module: nn.Module) -> Plan | None:
        """Returns the plan for this run of the layer; None to leave it unmixed."""
        entered, again = checkpointed_blocks()
        runs = None if again is None else self._block_runs.get(again.block)
        if again is not None and runs is not None:
            blend = runs.repeat(again.backward)
        elif self.blend is None or not module.training or (again and not self.compiled):
            blend = None  # the last: a block whose forward pass was not mixed
        elif self.passes.depth == 0 and (again or in_backward()):
            blend = self._next_recomputed()
        else:
            blend = self._next_in_pass()
        for block in entered:
            self._block_runs.setdefault(block, _BlockRuns()).blends.append(blend)
        return blend

    def _next_in_pass(self) -> Plan | None:
        """Returns the plan for the layer's next run in a forward pass."""
        if self.has_run and not self.passes.depth:
            raise RuntimeError(
                f"ManifoldMixup must be attached to the model that is run, but layer {self.name!r} "
                "runs again outside of a call of that model. Call mixer.attach(model) with the "
                "module that you call on images, or mixer.cancel() if this run is not to be mixed."
            )
        self.has_repeated = self.has_run
        if self.has_run:
            return None
        self.has_run = self.has_mixed = True
        return self.blend

    def _next_recomputed(self) -> Plan | None:
        """Returns the plan for a run recomputed by an unknown checkpointing implementation."""
        if self.has_repeated:
            raise RuntimeError(
                f"ManifoldMixup must know which run of a layer to mix, but layer {self.name!r} "
                "runs several times in a forward pass, and is recomputed in compiled code or by "
                "something else than torch.utils.checkpoint. Choose a layer that runs once."
            )
        return self.blend if self.has_run else None

    def _mix(self, blend: Plan | None, output: object) -> Tensor | None:
        if blend is None:
            return None
        if not isinstance(output, Tensor):
            raise TypeError(
                f"`layers` must return one tensor, but layer {self.name!r} returned "
                f"{type(output).__name__}. Choose another layer."
            )
        if len(output) != blend.num_inputs:
            raise ValueError(
                f"`model` must be run on the batch that was mixed: layer {self.name!r} saw "
                f"{len(output)} inputs, the targets are for {blend.num_inputs}. Call "
                "mixer.cancel() before running other batches in training mode."
            )
        return blend.mix_images(output)


class ForwardPasses:
    """Tracks where a model's forward passes begin and end."""

    def __init__(self) -> None:
        self.hooks: list[LayerHook] = []
        self.depth = 0  # active calls of the model: more than one if it calls itself

    def __reduce__(self) -> tuple[object, ...]:
        return ForwardPasses, ()

    def watch(self, model: nn.Module) -> list[RemovableHandle]:
        """Registers the forward hooks on a model; returns their handles."""
        return [
            model.register_forward_pre_hook(self.begin),
            model.register_forward_hook(self.end, always_call=True),
        ]

    def begin(self, model: nn.Module, inputs: object) -> None:
        """Counts a call of the model; the outermost one begins a forward pass."""
        if not [hook for hook in self.hooks if hook.blend is not None]:
            return
        if torch.compiler.is_compiling():
            self.depth += 1
        else:  # restart the count: an interrupted pass has no end
            self.depth = max(1, calls_under_way(model))
        if self.depth == 1:
            for hook in self.hooks:
                hook.has_run = hook.has_repeated = False

    def end(self, model: nn.Module, inputs: object, output: object) -> None:
        """Counts the end of a call."""
        if self.depth:
            self.depth -= 1


def layer_hooks(model: nn.Module) -> list[LayerHook]:
    """Returns the hooks on a model's layers, of all mixers."""
    inner = unwrapped(model)
    if not isinstance(inner, nn.Module):  # any callable serves as a model
        return []
    return [
        hook
        for module in inner.modules()
        for hook in module._forward_hooks.values()
        if isinstance(hook, LayerHook)
    ]


def remove_copied_hooks(model: nn.Module) -> None:
    """Removes hooks that came with a copy of a model and belong to no mixer."""
    for module in model.modules():
        for hooks in (module._forward_pre_hooks, module._forward_hooks):
            for key, hook in list(hooks.items()):
                owner = getattr(hook, "__self__", hook)  # `begin` and `end` are methods
                copied_hook = isinstance(owner, LayerHook) and owner not in owner.passes.hooks
                if copied_hook or (isinstance(owner, ForwardPasses) and not owner.hooks):
                    del hooks[key]
                    module._forward_hooks_always_called.pop(key, None)


def check_and_cancel(hooks: list[LayerHook]) -> None:
    """Clears all plans; raises if a planned layer did not run."""
    idle = [hook.name for hook in hooks if hook.blend is not None and not hook.has_mixed]
    for hook in hooks:
        hook.blend = None
    if idle:
        raise RuntimeError(
            f"ManifoldMixup mixed the targets of the last batch, but layer {idle[0]!r} has not "
            "run in training mode since. Was the model compiled and run before "
            "mixer.attach(model), left in eval mode, or not run at all? If on purpose, call "
            "mixer.cancel() after such a batch."
        )


class KeptGradient:
    """Warns if the clean gradient is zeroed before the mixed loss's backward pass.

    The clean pass leaves its gradient in the weights' `.grad`, to which the mixed loss's backward
    pass adds. Zeroing it in between would silently drop the clean loss. One weight is checked for
    all. Its values are read from a device only if the gradient changed in between, which a correct
    loop does not do.
    """

    def __init__(self) -> None:
        self._warned = False
        self._weight: weakref.ref[nn.Parameter] | None = None
        self._version = 0
        self._handle: RemovableHandle | None = None

    def __reduce__(self) -> tuple[type[KeptGradient], tuple[()]]:
        """Copies and pickles as a new object: a copied mixer has had no clean pass."""
        return KeptGradient, ()

    def forget(self) -> None:
        """Stops watching the last clean pass."""
        if self._handle is not None:
            self._handle.remove()
        self._weight = self._handle = None

    def remember(self, model: nn.Module) -> None:
        """Records the gradient that a clean pass has left in a model's weights."""
        self.forget()
        if self._warned:
            return
        module = automatic_optimization()
        if module is not None:
            self._warn(
                f"{module} must not use Lightning's automatic optimization with a clean gradient "
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
        """Checks the gradient in the next backward pass."""
        weight = None if self._weight is None else self._weight()
        if weight is not None and weight.requires_grad:
            self._handle = weight.register_hook(self._check)  # type: ignore[no-untyped-call]

    def _check(self, _: Tensor) -> None:
        weight, version = None if self._weight is None else self._weight(), self._version
        self.forget()
        if weight is None:
            return
        grad = weight.grad
        # Clipping or scaling in place changes the version, too, but not to zero.
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
    """Returns a weight with an unsharded gradient; None if there is none."""
    if not isinstance(model, nn.Module):  # any callable serves as a model
        return None
    if any(type(m).__name__ == "FullyShardedDataParallel" for m in layers_of_wrapping(model)):
        return None
    for weight in model.parameters():
        if type(weight) is nn.Parameter and weight.requires_grad and weight.grad is not None:
            return weight
    return None
