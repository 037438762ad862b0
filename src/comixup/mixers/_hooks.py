"""Hooks that mix the output of a layer inside a model, once in each forward pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from comixup._passes import unwrapped
from comixup.core.mix import Plan
from comixup.mixers._checkpointing import (
    calls_under_way,
    checkpointed_blocks,
    in_backward,
    uncompiled,
)

_HOOKS_ARE_WATCHED = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 5)
"""Whether torch.compile sees that an attribute of a hook has changed. Where it does not, code would
be compiled once and for all with the first batch's blend."""


@dataclass
class _BlockRuns:
    """How a layer's runs in a checkpointed block were mixed, in order.

    Attributes:
        blends: one for each run; None where the output was left as it was.
        repeated: runs that each backward pass has repeated so far.
    """

    blends: list[Plan | None] = field(default_factory=list)
    repeated: dict[object, int] = field(default_factory=dict)

    def repeat(self, backward: object) -> Plan | None:
        """Returns the blend of the next run that a backward pass repeats."""
        number = self.repeated.get(backward, 0)
        self.repeated[backward] = number + 1
        return self.blends[number]


class LayerHook:
    """Mixes the output of a layer's first run in each forward pass, armed and in training mode.

    A block that gradient checkpointing recomputes is mixed as it was in the forward pass, whatever
    the hook was armed for since.

    It is put in place once, before the model is compiled, and stays; arming it changes only
    attributes, which torch.compile watches. Copies, pickled ones too, are not armed and never will
    be: no mixer knows them.

    Attributes:
        name: of the layer.
        passes: the model's forward passes.
        blend: how to mix; None while it is not armed.
        has_mixed: whether it has mixed since it was armed.
        has_run: whether the layer has run in this forward pass.
        has_repeated: whether it has run more than once in it.
        compiled: whether it has run in compiled code of a forward pass since it was armed.
    """

    def __init__(self, name: str, passes: ForwardPasses | None = None) -> None:
        self.name = name
        self.passes = ForwardPasses() if passes is None else passes
        self.blend: Plan | None = None
        self.has_mixed = self.has_run = self.has_repeated = self.compiled = False
        self._block_runs: WeakKeyDictionary[object, _BlockRuns] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[object, ...]:
        return LayerHook, (self.name,)

    def arm(self, blend: Plan) -> None:
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
        """Returns how to mix this run, for whatever reason the layer runs; None: not at all."""
        blocks = checkpointed_blocks()
        again = blocks.recomputation
        runs = None if again is None else self._block_runs.get(again.block)
        if again is not None and runs is not None:
            blend = runs.repeat(again.backward)
        elif self.blend is None or not module.training or (again and not self.compiled):
            blend = None  # the last: a block whose forward pass was not mixed
        elif self.passes.depth == 0 and (again or in_backward()):
            blend = self._next_recomputed()
        else:
            blend = self._next_in_pass()
        for block in blocks.entered:
            self._block_runs.setdefault(block, _BlockRuns()).blends.append(blend)
        return blend

    def _next_in_pass(self) -> Plan | None:
        """Returns how to mix the layer's next run in a forward pass."""
        if self.has_run and not self.passes.depth:
            raise RuntimeError(
                f"ManifoldMixup must be attached to the model that is run, but layer {self.name!r} "
                "runs again outside of a call of that model. Call mixer.attach(model) with the "
                "module that you call on images, or mixer.disarm() if this run is not to be mixed."
            )
        self.has_repeated = self.has_run
        if self.has_run:
            return None
        self.has_run = self.has_mixed = True
        return self.blend

    def _next_recomputed(self) -> Plan | None:
        """Returns how to mix a run in a backward pass of which nothing is known but its hook."""
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
                "mixer.disarm() before running other batches in training mode."
            )
        return blend.mix_images(output)


class ForwardPasses:
    """Tells a model's hooks where its forward passes begin and end.

    Attributes:
        hooks: of the model's layers.
        depth: calls of the model under way: more than one if it calls itself.
    """

    def __init__(self) -> None:
        self.hooks: list[LayerHook] = []
        self.depth = 0

    def __reduce__(self) -> tuple[object, ...]:
        return ForwardPasses, ()

    def watch(self, model: nn.Module) -> list[RemovableHandle]:
        """Registers the hooks that tell; returns their handles."""
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
        else:  # counted anew: an interrupted pass has no end
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
    if not isinstance(inner, nn.Module):  # a function, say: any callable serves as a model
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


def check_and_disarm(hooks: list[LayerHook]) -> None:
    """Disarms hooks; raises if one has not mixed the batch whose targets were mixed."""
    idle = [hook.name for hook in hooks if hook.blend is not None and not hook.has_mixed]
    for hook in hooks:
        hook.blend = None
    if idle:
        raise RuntimeError(
            f"ManifoldMixup mixed the targets of the last batch, but layer {idle[0]!r} has not "
            "run in training mode since. Was the model compiled and run before "
            "mixer.attach(model), left in eval mode, or not run at all? If on purpose, call "
            "mixer.disarm() after such a batch."
        )
