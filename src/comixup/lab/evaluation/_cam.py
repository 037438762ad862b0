"""Class activation maps: where in an image a classifier sees a class.

CAM (Zhou et al., 2016) for networks that average their last feature maps over the image and then
have one linear layer; Grad-CAM (Selvaraju et al., 2017) for other convolutional networks. Grad-CAM
is written out here since it is a few lines: the package of that name needs OpenCV and scikit-learn,
and has no way to find the layer by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from comixup._checks import check_choice

CamMethod: TypeAlias = Literal["cam", "grad-cam"]

METHODS = ("cam", "grad-cam")
PROBED = 2
"""Images that are shown to a model to find out how it is built."""

_POOLING = "pool"
"""Part of the names of modules that make maps smaller and nothing else, in all libraries."""

_Hook: TypeAlias = Callable[[nn.Module, tuple[Any, ...], Any], Tensor | None]


class ActivationMaps:
    """Where images show a class: class activation maps of one model, batch after batch.

    Args:
        model: a classifier in evaluation mode.
        images: (n, C, H, W), normalized as the model expects them, of which two are shown to the
            model to find the layer.
        layer: name of the module whose output are the maps, as in `model.named_modules()`; None
            to find it.
        method: "cam" or "grad-cam".

    Attributes:
        model: the classifier.
        method: "cam" or "grad-cam".
        layer: name of the module whose output are the maps.

    The mean of a class activation map, plus the class's bias, is the class's logit:

    >>> from comixup.lab.models import build
    >>> model, images = build("small", 10).eval(), torch.rand(2, 3, 32, 32)
    >>> maps, logits = ActivationMaps(model, images)(images, torch.tensor([3, 7]))
    >>> maps.shape
    torch.Size([2, 4, 4])
    >>> of_classes = maps.mean((1, 2)) + model.fc.bias[[3, 7]]
    >>> torch.testing.assert_close(of_classes, logits[[0, 1], [3, 7]])
    """

    def __init__(
        self,
        model: nn.Module,
        images: Tensor,
        *,
        layer: str | None = None,
        method: CamMethod = "cam",
    ) -> None:
        check_choice("method", method, METHODS)
        self.model, self.method = model, method
        self._check_evaluating()
        if images.ndim != 4 or not len(images):
            raise ValueError(
                f"`images` must have shape (n, channels, height, width) with an image at least, "
                f"got {tuple(images.shape)}."
            )
        if layer is not None and layer not in dict(model.named_modules()):
            names = [name for name, _ in model.named_modules() if name]
            raise ValueError(
                f"`layer` must be the name of a module of the model, got {layer!r}. Its last "
                f"modules are {names[-8:]}."
            )
        find = _find_averaged_maps if method == "cam" else _find_last_maps
        self.layer, self._head = find(model, images[:PROBED], layer)

    def __call__(self, images: Tensor, classes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns maps, (n, h, w), as large as the model's last ones, and logits of the same pass.

        Args:
            images: (n, C, H, W).
            classes: (n,) class indices; None for the class that the model predicts.
        """
        self._check_evaluating()
        run = self._cam if self.method == "cam" else self._grad_cam
        return run(images, classes)

    def _check_evaluating(self) -> None:
        if self.model.training:
            raise ValueError(
                "`model` must be in evaluation mode, or the other images of the batch change the "
                "maps, got one in training mode. Call model.eval() first."
            )

    def _logits(self, images: Tensor, hook: _Hook) -> Tensor:
        """Returns the logits; the hook is called with what the layer makes."""
        handle = self.model.get_submodule(self.layer).register_forward_hook(hook)
        try:
            logits: Tensor = self.model(images)
        finally:
            handle.remove()
        return logits

    @torch.no_grad()
    def _cam(self, images: Tensor, classes: Tensor | None) -> tuple[Tensor, Tensor]:
        kept: list[Tensor] = []
        logits = self._logits(images, lambda *call: kept.append(call[2]))
        maps, chosen = kept[-1], _chosen(classes, logits)
        if self._head is None:  # the maps are of the classes already
            return maps[torch.arange(len(maps), device=maps.device), chosen], logits
        weights = self._head.get_parameter("weight").flatten(1)[chosen].to(maps.dtype)
        return torch.einsum("nc,nchw->nhw", weights, maps), logits

    @torch.enable_grad()
    def _grad_cam(self, images: Tensor, classes: Tensor | None) -> tuple[Tensor, Tensor]:
        leaves: list[Tensor] = []

        def cut(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
            # What was computed before the maps is not needed to differentiate by them.
            leaves.append(output.detach().requires_grad_())
            return leaves[-1].clone()  # which the model may overwrite, other than a leaf

        logits = self._logits(images, cut)
        # A module that is used several times makes the maps at its last use.
        maps, chosen = leaves[-1], _chosen(classes, logits)
        (gradient,) = torch.autograd.grad(logits.gather(1, chosen[:, None]).sum(), maps)
        weights = gradient.mean((2, 3))
        return torch.einsum("nc,nchw->nhw", weights, maps.detach()).relu(), logits.detach()


# ---- Finding the layer --------------------------------------------------------------------------


@dataclass(frozen=True)
class _Call:
    """A use of a module: its name, what it is, the first thing that went in, and what came out."""

    name: str
    module: nn.Module
    input: Tensor
    output: Tensor

    @property
    def has_maps(self) -> bool:
        """Whether feature maps of more than one pixel came out."""
        return self.output.ndim == 4 and self.output.shape[2:].numel() > 1


def _find_averaged_maps(
    model: nn.Module, probe: Tensor, layer: str | None
) -> tuple[str, nn.Module | None]:
    """Returns the layer whose maps, averaged, go into the last linear layer, and that layer.

    It may be a convolution of one pixel; none if the averages are the logits themselves. The
    averages are compared as numbers, since models average by modules, functions and methods.
    """
    calls, logits = _watched(model, probe)
    averages: list[tuple[Tensor, nn.Module | None]] = [(logits, None)]
    for call in calls:
        head, one_pixel = call.module, call.input.shape[2:].numel() == 1
        is_linear = isinstance(head, nn.Linear | nn.Conv2d) and one_pixel
        if is_linear and call.input.ndim in (2, 4) and _same(call.output.flatten(1), logits):
            averages.append((call.input.flatten(1), head))
    for call in reversed(calls):
        if not call.has_maps or layer not in (None, call.name):
            continue
        means = call.output.mean((2, 3))
        for average, linear in averages:
            if _same(means, average):
                return call.name, linear
    found = f"{type(model).__name__} with images of {probe.shape[2]} x {probe.shape[3]} pixels"
    if layer is not None:
        raise ValueError(
            f"`layer` must name a module of the model whose maps, of more than one pixel, are "
            f"averaged over the image and then go into one linear layer that makes the logits; "
            f"{layer!r} of {found} is not. Choose another one, or method='grad-cam'."
        )
    raise ValueError(
        "`model` must average its last feature maps, of more than one pixel, over the image and "
        f"then have one linear layer for class activation maps, got {found}. Choose "
        "method='grad-cam', or larger images if the last maps have one pixel."
    )


def _find_last_maps(model: nn.Module, probe: Tensor, layer: str | None) -> tuple[str, None]:
    """Returns the last module of the model that makes feature maps, but for poolings."""
    calls, _ = _watched(model, probe)
    found = type(model).__name__
    if layer is not None:
        if not any(call.name == layer and call.has_maps for call in calls):
            raise ValueError(
                "`layer` must name a module of the model that makes feature maps (n, channels, "
                f"height, width) of more than one pixel, got {layer!r} of {found}, which does not."
            )
        return layer, None
    convolutions = [
        number
        for number, call in enumerate(calls)
        if isinstance(call.module, nn.Conv2d) and call.has_maps
    ]
    last = calls[convolutions[-1]] if convolutions else None
    # Transformers cut the image into patches by a convolution; what they then have are no maps.
    if last is None or (last.module.stride == last.module.kernel_size != (1, 1)):
        raise ValueError(
            "`model` must end in convolutions whose maps have more than one pixel for Grad-CAM to "
            f"find its layer, got {found}. Name a layer that makes maps (n, channels, height, "
            "width) by `layer`."
        )
    # A sequence that ends in a pooling returns what the pooling does, the very same tensor.
    pooled = {id(call.output) for call in calls if _POOLING in type(call.module).__name__.lower()}
    candidates = [
        call.name
        for call in calls[convolutions[-1] :]
        if call.has_maps and id(call.output) not in pooled
    ]
    return candidates[-1], None


@torch.no_grad()
def _watched(model: nn.Module, images: Tensor) -> tuple[list[_Call], Tensor]:
    """Returns the uses of all modules in the order in which they ended, and the logits."""
    calls: list[_Call] = []
    handles = []
    for name, module in model.named_modules():

        def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any, name: str = name) -> None:
            if inputs and isinstance(inputs[0], Tensor) and isinstance(output, Tensor):
                calls.append(_Call(name, module, inputs[0], output))

        handles.append(module.register_forward_hook(keep))
    try:
        logits = model(images)
    finally:
        for handle in handles:
            handle.remove()
    if not isinstance(logits, Tensor) or logits.ndim != 2:
        raise ValueError(
            "`model` must return one tensor of logits, (n, classes), got "
            f"{tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__}."
        )
    return [call for call in calls if call.name], logits


def _same(first: Tensor, second: Tensor) -> bool:
    """Returns whether two matrices are the same but for rounding."""
    if first.shape != second.shape:
        return False
    tolerance = torch.finfo(first.dtype).eps ** 0.5 * second.abs().max()
    return bool((first - second).abs().max() <= tolerance)


def _chosen(classes: Tensor | None, logits: Tensor) -> Tensor:
    """Returns (n,) class indices: those given, or else the predicted ones."""
    if classes is None:
        return logits.argmax(1)
    n, count = logits.shape
    classes = classes.to(logits.device)
    if classes.shape != (n,) or classes.dtype.is_floating_point:
        raise ValueError(
            f"`classes` must have a whole number for each of the {n} images, got shape "
            f"{tuple(classes.shape)} of {classes.dtype}."
        )
    if n and not 0 <= int(classes.min()) <= int(classes.max()) < count:
        raise ValueError(
            f"`classes` must be from 0 to {count - 1}, the model's classes, got "
            f"{int(classes.min())} to {int(classes.max())}. Is it a model for other data?"
        )
    return classes
