"""Virtual adversarial training (VAT)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from comixup._checks import check_choice, check_count, check_positive
from comixup._passes import (
    allowing_gradients,
    check_can_record,
    gradient_by,
    layers_of_wrapping,
    unwrapped,
    without_sync,
)
from comixup.core.tensors import check_images, check_no_transform, check_precision, to_device

Norm: TypeAlias = Literal["l2", "linf"]


def vat_loss(
    model: nn.Module,
    images: Tensor,
    *,
    epsilon: float,
    xi: float = 1.0,
    updates: int = 1,
    norm: Norm = "linf",
    scale: float | Sequence[float] = 1.0,
    logits: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Returns the mean of KL(p(y|x) || p(y|x + r)) over a batch: Miyato et al. 2018.

    Here r is the noise in a ball that changes the model's prediction most, estimated by power
    iteration. Add the result, times a coefficient, to the training loss. Its gradient flows through
    p(y|x + r) only: not through the clean prediction p(y|x), nor through r.

    Running statistics are not updated. In training mode dropout draws again in each pass, as in the
    original. Pixels are not clipped to the range of colors. Pixels that the prediction does not
    depend on keep their random noise.

    **The radius** is in the units of `images` times `scale`. The Co-Mixup paper tunes it in {1, 2}
    for the l-infinity ball without a unit. Levels of 0..255 are the likely reading (inferred): on
    normalized CIFAR-100 images a radius of 1 would be 68 levels, noise in which little can be
    recognized, whereas its errors without updates are those of plain training. Pass `scale` = 1/255
    for images in [0, 1], and for images normalized with standard deviations (68.2, 65.4, 70.4), in
    levels, `scale` = (1 / 68.2, 1 / 65.4, 1 / 70.4).

    Args:
        model: any module that returns logits (m, classes), in its current mode.
        images: (m, C, *size), floating point. Not changed.
        epsilon: radius of the ball, in units of `scale`.
        xi: distance of the power iteration's probe, as a fraction of `epsilon`.
        updates: number of power iterations, each a forward and backward pass. 0 keeps the random
            start on the ball's surface: a random corner, or direction, of length epsilon.
        norm: "linf" bounds every pixel's noise, "l2" the norm of the image's. With several scales,
            the noise is divided by them first.
        scale: size of one unit of `epsilon` in `images`: one number, or one for each channel.
        logits: logits of the unperturbed `images`, if available; saves a pass.
        generator: random generator for the start; None means torch's global one.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    >>> loss = vat_loss(model, torch.rand(5, 1, 8, 8), epsilon=2, scale=1 / 255)
    >>> loss.backward()
    >>> bool(loss > 0)
    True
    """
    check_images(images)
    if not images.is_floating_point():
        raise TypeError(
            f"`images` must be floating point to be moved a little, got {images.dtype}. Scale "
            "them, for instance by torchvision's v2.ToDtype(torch.float32, scale=True)."
        )
    check_precision("images", images)
    check_choice("norm", norm, get_args(Norm))
    check_count("updates", updates, low=0)
    check_can_record("vat_loss")
    check_no_transform("vat_loss")
    check_positive("epsilon", epsilon, "Leave the loss out instead.")
    check_positive("xi", xi, "Without a probe there is no direction to find; 1 is a good value.")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"`generator` must be a torch.Generator, got {generator!r}. Use "
            "torch.Generator().manual_seed(seed)."
        )
    radius = epsilon * _scale_of(scale, images)
    images = images.detach()
    with _buffers_set_aside(model):
        if logits is None:
            with torch.no_grad():
                logits = model(images.clone())  # models may modify their inputs
        log_p = _log_probabilities(logits, (len(images), None)).detach()
        device = images.device if generator is None else generator.device
        noise = torch.randn(images.shape, generator=generator, device=device, dtype=radius.dtype)
        direction = to_device(noise, images.device)
        direction = _onto_sphere(direction, norm, otherwise=torch.ones_like(images))
        for _ in range(updates):
            direction = _update(model, images, log_p, direction, radius * xi, norm)
        log_q = _log_probabilities(model(_moved(images, direction, radius)), log_p.shape)
    return F.kl_div(log_q, log_p.to(log_q.dtype), reduction="batchmean", log_target=True)


def _update(
    model: nn.Module, images: Tensor, log_p: Tensor, direction: Tensor, reach: Tensor, norm: Norm
) -> Tensor:
    """Returns the next direction: the divergence's gradient at the probe."""
    # Paper: Miyato et al. probe at 1e-6, to approximate the divergence's Hessian. So small a change
    # is lost in rounding, all the more in half precision. At the radius itself (xi = 1) the probe
    # has the divergence that the loss measures.
    probe = _moved(images, direction, reach).requires_grad_()
    with torch.enable_grad(), without_sync(model), allowing_gradients(model):
        outputs = model(probe.clone())
        log_q = _log_probabilities(outputs, log_p.shape)
        if not outputs.requires_grad:
            raise ValueError(
                "`model` must pass a gradient on to its images, but its output does not depend on "
                "them. Is there a detach(), a no_grad() or an arg max on the way?"
            )
        # The divergence's gradient by the logits is q - p. Only its direction matters, so it is
        # rescaled to avoid underflow of half precision in the backward pass.
        slope = log_q.detach().exp() - log_p.exp()
        slope = slope / slope.abs().amax().clamp_min(torch.finfo(slope.dtype).tiny)
        gradient = gradient_by(outputs, probe, slope.to(outputs.dtype))
        if gradient is None:
            gradient = torch.zeros_like(probe)
    # The direction is in units of the scale, to which the reach is proportional.
    return _onto_sphere(gradient * (reach / reach.amax()), norm, otherwise=direction)


def _onto_sphere(gradient: Tensor, norm: Norm, otherwise: Tensor) -> Tensor:
    """Returns the point of the unit sphere furthest along each image's gradient.

    Without a gradient the previous point is kept.
    """
    if norm == "linf":
        return torch.where(gradient == 0, otherwise.to(gradient.dtype), gradient.sign())
    flat = gradient.flatten(1)
    flat = flat / flat.abs().amax(1, keepdim=True)  # squares of tiny numbers would underflow
    unit = flat / torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    none = (gradient == 0).flatten(1).all(1).view(-1, *[1] * (gradient.ndim - 1))
    return torch.where(none, otherwise.to(gradient.dtype), unit.view_as(gradient))


def _moved(images: Tensor, direction: Tensor, radius: Tensor) -> Tensor:
    """Returns images with noise of a radius, in the images' precision."""
    return (images + radius * direction).to(images.dtype)


def _log_probabilities(outputs: object, shape: Sequence[int | None]) -> Tensor:
    """Returns log-softmax of logits, in float32 at least; a None in the shape may be anything."""
    if not isinstance(outputs, Tensor):
        raise TypeError(
            f"`model` must return a tensor of logits, got {type(outputs).__name__}. Wrap it in a "
            "module that returns its logits alone."
        )
    num_images, classes = shape
    if outputs.ndim != 2 or outputs.shape != (num_images, classes or outputs.shape[-1]):
        raise ValueError(
            f"`logits` must have shape ({num_images}, {classes or 'classes'}), a row for each "
            f"image and the same classes in every pass, got {tuple(outputs.shape)}. Give what "
            "model(images) returned."
        )
    dtype = torch.float64 if outputs.dtype == torch.float64 else torch.float32
    return F.log_softmax(outputs, dim=1, dtype=dtype)


@contextlib.contextmanager
def _buffers_set_aside(model: nn.Module) -> Iterator[None]:
    """Runs a model on copies of its buffers, so that running statistics do not change.

    Restoring the old values would not work: batch norm saves its buffers for the backward pass, and
    autograd raises if they were modified since, for this pass or the caller's clean one.
    DistributedDataParallel does not broadcast buffers here, but at the next pass over a batch.
    """
    inner = unwrapped(model)
    homes = [
        (module._buffers, name, buffer)
        for module in inner.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    if not any(module.training for module in inner.modules()):
        homes = []
    if any(is_lazy(buffer) for _, _, buffer in homes):
        raise ValueError(
            "`model` must have been run once, got one with lazy modules that are not initialized. "
            "Call model(images) first."
        )
    copies = {id(buffer): buffer.clone() for _, _, buffer in homes}
    handing_out: list[Any] = [
        module
        for module in layers_of_wrapping(model)
        if getattr(module, "broadcast_buffers", False)
    ]
    try:
        for module in handing_out:
            module.broadcast_buffers = False
        for home, name, buffer in homes:
            home[name] = copies[id(buffer)]
        yield
    finally:
        for home, name, buffer in homes:
            home[name] = buffer
        for module in handing_out:
            module.broadcast_buffers = True


def _scale_of(scale: float | Sequence[float], images: Tensor) -> Tensor:
    """Returns the scale as a tensor that broadcasts over images."""
    channels = images.shape[1]
    each = list(scale) if isinstance(scale, Sequence) else [scale]
    if len(each) not in (1, channels) or isinstance(scale, str):
        raise ValueError(
            f"`scale` must be one number or one for each of the {channels} channels, got {scale!r}."
        )
    for one in each:
        check_positive("scale", one, "1 means the units of the images.")
    dtype = torch.float64 if images.dtype == torch.float64 else torch.float32
    values = torch.tensor([float(one) for one in each], dtype=dtype)
    return to_device(values, images.device).view(-1, *[1] * (images.ndim - 2))
