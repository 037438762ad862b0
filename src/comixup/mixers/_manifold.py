"""Manifold mixup: weighted means of images or of hidden features."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from comixup._passes import unwrapped
from comixup.core.mix import Plan
from comixup.mixers._hooks import (
    ForwardPasses,
    LayerHook,
    calls_under_way,
    check_and_cancel,
    layer_hooks,
    remove_copied_hooks,
)
from comixup.mixers._input import Blend, PartnerMixer
from comixup.mixers._mixer import Mixed

INPUT = "input"
"""The layer name that stands for the images themselves."""


@dataclass(eq=False, repr=False, kw_only=True)
class ManifoldMixup(PartnerMixer):
    """Manifold mixup (Verma et al., ICML 2019): input mixup at a random layer for each batch.

    The model's `forward` is unchanged: `attach` registers a hook on each of the layers, before or
    after the model is compiled or wrapped (DistributedDataParallel, Fabric, torch.compile). The
    call mixes the targets and hands its plan to the hook of the drawn layer. In training mode, that
    hook mixes the layer's first output in each forward pass, and where gradient checkpointing
    recomputes it, until the next call or `cancel()`. Copies of the model or mixer do not mix until
    attached.

    Args:
        layers: names of submodules whose output may be mixed, as in `model.named_modules()`;
            "input" stands for the images. The paper uses the images and the first two stages.
        alpha: parameter of the ratios' Beta, or Dirichlet, distribution.
        num_inputs: number of images per output: itself and random others of the batch.
        per_sample: draw ratios for each image rather than for the batch.
        num_classes, p, clean_weight, clean_reduction, generator, validate: see `Mixer`.

    >>> model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3600, 10))
    >>> mixup = ManifoldMixup(num_classes=10, layers=["input", "0"]).attach(model)
    >>> images, targets = mixup(torch.rand(8, 3, 32, 32), torch.arange(8))
    >>> model(images).shape, targets.shape
    (torch.Size([8, 10]), torch.Size([8, 10]))
    """

    mixes_inside = True

    layers: Sequence[str] = (INPUT, "layer1", "layer2")
    alpha: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.layers
        if isinstance(names, str) or not names or not all(isinstance(n, str) for n in names):
            raise ValueError(f"`layers` must be a list of names, at least one, got {names!r}.")
        vars(self)["layers"] = tuple(names)
        self._forget_model()

    def _forget_model(self) -> None:
        self._model: nn.Module | None = None
        self._passes = ForwardPasses()
        self._hooks: dict[str, LayerHook] = {}
        self._handles: list[RemovableHandle] = []

    def __getstate__(self) -> dict[str, object]:
        """Returns the state of a copy, which is attached to no model."""
        of_model = ("_model", "_passes", "_hooks", "_handles")
        return {name: value for name, value in self.__dict__.items() if name not in of_model}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._forget_model()

    def __call__(
        self, images: Tensor, targets: Tensor, saliency: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the images, mixed if the drawn layer is "input", and their soft targets."""
        try:
            return super().__call__(images, targets, saliency)
        except BaseException:
            self.cancel()  # there are no mixed targets
            raise

    def attach(self, model: nn.Module) -> "ManifoldMixup":
        """Registers a hook on each layer of a model, removing those on another; returns itself."""
        inner = unwrapped(model)
        if inner is self._model and self._in_place(inner):
            return self
        modules = dict(inner.named_modules(remove_duplicate=False))
        for name in self.layers:
            if name != INPUT and name not in modules:
                close = difflib.get_close_matches(name, modules, n=3) or list(modules)[1:6]
                raise ValueError(
                    f"`layers` must name submodules of the model, got {name!r}. Did you mean "
                    f"{' or '.join(map(repr, close))}?"
                )
        self.detach()
        remove_copied_hooks(inner)
        self._model = inner
        for name in dict.fromkeys(self.layers):
            if name != INPUT:
                self._hooks[name] = LayerHook(name, self._passes)
                self._handles.append(modules[name].register_forward_hook(self._hooks[name]))
        self._passes.hooks = list(self._hooks.values())
        if self._hooks:
            self._handles += self._passes.watch(inner)  # after the layers': one may be the model
        return self

    def _in_place(self, model: nn.Module) -> bool:
        """Whether every layer still has its hook."""
        try:
            return all(
                hook in model.get_submodule(name)._forward_hooks.values()
                for name, hook in self._hooks.items()
            )
        except AttributeError:
            return False

    def detach(self) -> None:
        """Removes the hooks."""
        for handle in self._handles:
            handle.remove()
        self.cancel()
        self._forget_model()

    def cancel(self) -> None:
        """Stops mixing inside the model until the next call."""
        for hook in self._hooks.values():
            hook.blend = None

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns layer, partners and ratios for a batch, and sets the plan of the layer's hook."""
        m = len(images)
        chosen = int(torch.randint(len(self.layers), (), generator=self.generator))
        layer = self.layers[chosen]
        blend = Blend(self.draw_partners(m), self.draw_ratios(m))
        self._check_and_cancel()
        if layer == INPUT:
            return Mixed(blend)
        if self._model is None:
            raise RuntimeError(
                "ManifoldMixup must know the model whose layers it mixes. Call mixer.attach(model) "
                "once, or use comixup.training_step."
            )
        self._passes.depth = calls_under_way(self._model)
        self._hooks[layer].set_plan(blend.to(images.device))
        return Mixed(blend, layer=layer)

    def identity_plan(self, images: Tensor) -> Plan:
        """Returns the identity plan, and clears all hooks."""
        self._check_and_cancel()
        return super().identity_plan(images)

    def _check_and_cancel(self) -> None:
        """Raises if the last batch was not mixed inside the model."""
        others = [] if self._model is None else layer_hooks(self._model)  # of other mixers
        check_and_cancel([*self._hooks.values(), *others])
