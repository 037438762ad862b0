"""Manifold mixup: weighted means of images, or of what a layer makes of them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from comixup._mix import Plan
from comixup._saliency import Backward, CleanPass, LossFn
from comixup._wrappers import unwrapped
from comixup.mixers._input import Blend
from comixup.mixers._mixer import CleanReduction, Mixed
from comixup.mixers._partners import PartnerMixer

INPUT = "input"
"""The name of the layer before the first: the images themselves."""


class _Hook:
    """Blends a layer's output while it is armed, in training mode.

    It is put in place once, before the model is compiled, and stays; arming it changes only
    attributes, which torch.compile watches.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.blend: Blend | None = None
        self.has_run = False

    def __call__(self, module: nn.Module, inputs: object, output: object) -> object:
        if self.blend is None or not module.training:
            return None
        if not isinstance(output, Tensor):
            raise TypeError(
                f"`layers` must return one tensor, but layer {self.name!r} returned "
                f"{type(output).__name__}. Choose another layer."
            )
        if len(output) != self.blend.num_inputs:
            raise ValueError(
                f"`model` must be run on the batch that was mixed: layer {self.name!r} saw "
                f"{len(output)} inputs, the targets are for {self.blend.num_inputs}. Call "
                "mixer.disarm() before running other batches in training mode."
            )
        self.has_run = True
        return self.blend.mix_images(output)


class ManifoldMixup(PartnerMixer):
    """Manifold mixup (Verma et al., ICML 2019): input mixup at a layer chosen anew for each batch.

    The model keeps its `forward`: `attach` puts a hook on each of the layers, before the model is
    compiled or wrapped (or after: DistributedDataParallel, Fabric and torch.compile are looked
    through). The call then mixes the targets and arms the hook of the layer chosen, which mixes in
    training mode until the next call or `disarm()`.

    Args:
        num_classes: columns of the mixed targets; None if targets come with theirs.
        layers: names of submodules whose output may be mixed, as in `model.named_modules()`;
            "input" stands for the images. The paper takes the images and the first two stages.
        p: probability that a batch is mixed at all.
        clean_weight: weight of the loss of the clean batch, which is then trained on too.
        clean_reduction: put clean and mixed loss together by their "sum" or weighted "mean".
        alpha: parameter of the ratios' Beta, or Dirichlet, distribution.
        num_inputs: images in each output: itself and others of the batch, at random.
        per_sample: draw ratios for each image rather than for the batch.
        generator: where all draws come from, on the CPU; None means torch's global one.
        validate: check class indices even where the host has to wait for a device.

    >>> model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3600, 10))
    >>> mixup = ManifoldMixup(num_classes=10, layers=["input", "0"]).attach(model)
    >>> images, targets = mixup(torch.rand(8, 3, 32, 32), torch.arange(8))
    >>> model(images).shape, targets.shape
    (torch.Size([8, 10]), torch.Size([8, 10]))
    """

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        layers: Sequence[str] = (INPUT, "layer1", "layer2"),
        p: float = 1.0,
        clean_weight: float = 0.0,
        clean_reduction: CleanReduction = "sum",
        alpha: float = 2.0,
        num_inputs: int = 2,
        per_sample: bool = False,
        generator: torch.Generator | None = None,
        validate: bool = False,
    ) -> None:
        super().__init__(
            num_classes,
            p=p,
            clean_weight=clean_weight,
            clean_reduction=clean_reduction,
            alpha=alpha,
            num_inputs=num_inputs,
            per_sample=per_sample,
            generator=generator,
            validate=validate,
        )
        if isinstance(layers, str) or not layers:
            raise ValueError(f"`layers` must be a list of names, at least one, got {layers!r}.")
        self.layers = tuple(layers)
        self._hooks: dict[str, _Hook] = {}
        self._handles: list[RemovableHandle] = []
        self._model: nn.Module | None = None

    def attach(self, model: nn.Module) -> ManifoldMixup:
        """Puts a hook on each layer of a model, taking away those of another; returns itself."""
        inner = unwrapped(model)
        if inner is self._model:
            return self
        modules = dict(inner.named_modules())
        for name in self.layers:
            if name != INPUT and name not in modules:
                close = difflib.get_close_matches(name, modules, n=3) or list(modules)[1:6]
                raise ValueError(
                    f"`layers` must name submodules of the model, got {name!r}. Did you mean "
                    f"{' or '.join(map(repr, close))}?"
                )
        self.detach()
        self._model = inner
        for name in self.layers:
            if name != INPUT:
                self._hooks[name] = _Hook(name)
                self._handles.append(modules[name].register_forward_hook(self._hooks[name]))
        return self

    def detach(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._hooks.clear()
        self._model = None

    def disarm(self) -> None:
        """Stops mixing inside the model until the next call."""
        for hook in self._hooks.values():
            hook.blend = None

    def clean_pass(
        self,
        model: nn.Module,
        images: Tensor,
        targets: Tensor,
        *,
        loss_fn: LossFn | None = None,
        backward: Backward | None = None,
    ) -> CleanPass | None:
        """Returns loss and outputs of the clean batch, with nothing mixed inside the model.

        None if it takes no pass; see `Mixer.clean_pass`.
        """
        if self.clean_weight > 0:
            self._check_and_disarm()
        return super().clean_pass(model, images, targets, loss_fn=loss_fn, backward=backward)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns the layer, partners and ratios for a batch, and arms that layer's hook."""
        m = len(images)
        chosen = int(torch.randint(len(self.layers), (), generator=self.generator))
        layer = self.layers[chosen]
        blend = Blend(self.draw_partners(m), self.draw_ratios(m))
        if layer == INPUT:
            self._check_and_disarm()
            return Mixed(blend)
        if self._model is None:
            raise RuntimeError(
                "ManifoldMixup must know the model whose layers it mixes. Call mixer.attach(model) "
                "once, or use comixup.training_step."
            )
        self._check_and_disarm()
        hook = self._hooks[layer]
        hook.blend, hook.has_run = blend.to(images.device), False
        return Mixed(blend, layer=layer)

    def leave(self, images: Tensor) -> Plan:
        """Returns the plan that leaves a batch as it is, with every hook at rest."""
        self._check_and_disarm()
        return super().leave(images)

    def _check_and_disarm(self) -> None:
        """Makes sure that the last batch, whose targets were mixed, was mixed in the model too."""
        idle = [h.name for h in self._hooks.values() if h.blend is not None and not h.has_run]
        self.disarm()
        if idle:
            raise RuntimeError(
                f"ManifoldMixup mixed the targets of the last batch, but layer {idle[0]!r} has not "
                "run in training mode since. Was the model compiled and run before "
                "mixer.attach(model), left in eval mode, or not run at all? If on purpose, call "
                "mixer.disarm() after such a batch."
            )
