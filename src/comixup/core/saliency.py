"""Gradient saliency of the training loss; spectral-residual saliency (no model needed)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comixup._checks import check_boolean, check_number, check_positive, reason_of
from comixup._passes import (
    allowing_gradients,
    gradient_by,
    recordable,
    recording,
    unchanged_buffers,
    without_sync,
)
from comixup.core.tensors import (
    check_images,
    check_model,
    check_no_transform,
    check_precision,
)

LossFn: TypeAlias = Callable[[Any, Tensor], Tensor]
"""Returns the scalar loss of a model's outputs, of any type, and targets."""

Backward: TypeAlias = Callable[[Tensor], object]
"""Runs the backward pass of a loss: a GradScaler's, Fabric's, Accelerate's or Lightning's."""


SPECTRAL_SIDE = 64
"""Larger images are downscaled to this longest side in pixels: finer texture is not salient."""

BLUR = 2.5
"""Standard deviation, in pixels at that size, of the blur of the squared residual."""

QUIETEST = 1e-3
"""Lower bound of amplitudes, relative to the largest: the logarithms of absent frequencies would
dominate."""

_TINY = 1e-30


@dataclass(frozen=True, eq=False)
class CleanPass:
    """The results of one pass over the clean batch."""

    saliency: Tensor | None
    """(m, *size) float32, detached; None unless requested."""
    loss: Tensor
    """The unweighted loss, detached."""
    outputs: Any
    """What the model returned; a tensor is detached."""


def saliency(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    loss_fn: LossFn | None = None,
    keep_gradients: bool = True,
    clean_weight: float = 1.0,
    backward: Backward | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Returns how much each pixel matters to the training loss, (m, *size) float32.

    The l2 norm over channels of the loss's gradient with respect to the images (section 3 of the
    paper). The model stays in its current mode.

    Args:
        model: any module; under DistributedDataParallel gradients are not exchanged here, since
            the mixed batch's backward pass will exchange the sum.
        images: (m, C, *size), floating point. Not changed.
        targets: what `loss_fn` takes: class indices, or (m, classes) class probabilities.
        loss_fn: scalar loss of (outputs, targets), for instance for models that return tuples;
            None means `cross_entropy`. Use `binary_cross_entropy_with_logits` for multi-label
            targets.
        keep_gradients: let the pass add `clean_weight` times the loss's gradient to the weights'
            `.grad`, as the paper does: clean images then train the model too. If False only the
            images' gradient is computed, which is cheaper, and running statistics stay as they
            are.
        clean_weight: weight of the clean loss; 0 is the same as `keep_gradients=False`.
        backward: called in place of `loss.backward()`: pass the one used for the mixed loss, so
            that both gradients have the same scale. Saliency does not depend on that scale. Ignored
            if no gradients are kept.
        scale: factor by which images, and so the maps, are resized for the pass; 0.5 takes a
            quarter of the time. Requires `keep_gradients=False` and a model that accepts images of
            any size.

    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    >>> saliency(model, torch.rand(5, 1, 8, 8), torch.tensor([0, 1, 2, 0, 1])).shape
    torch.Size([5, 8, 8])
    """
    check_model(model, "model, images, targets")
    check_number("clean_weight", clean_weight)
    check_boolean("keep_gradients", keep_gradients)
    check_scale("scale", scale, keep_gradients and clean_weight > 0)
    made = clean_pass(
        model,
        images,
        targets,
        loss_fn=loss_fn,
        keep_gradients=keep_gradients,
        clean_weight=clean_weight,
        backward=backward,
        scale=scale,
    )
    return cast(Tensor, made.saliency)


def clean_pass(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    loss_fn: LossFn | None = None,
    keep_gradients: bool = True,
    clean_weight: float = 1.0,
    backward: Backward | None = None,
    with_saliency: bool = True,
    scale: float = 1.0,
) -> CleanPass:
    """Returns the clean loss and outputs, with saliency if requested; see `saliency`.

    Without saliency it is an ordinary forward and backward pass: only the weights have gradients,
    and `keep_gradients` is ignored. Expects checked arguments.
    """
    check_images(images)
    check_no_transform("Gradient saliency" if with_saliency else "A clean pass")
    if not with_saliency:
        with without_sync(model), recording():
            outputs = model(images.detach().clone())  # models may modify their inputs
            loss = loss_of(outputs, recordable(targets), loss_fn)
            if not loss.requires_grad:
                raise ValueError(
                    "`model` must have weights to train, but the clean loss depends on none that "
                    "requires a gradient. Unfreeze some, or set clean_weight=0."
                )
            _run_backward(loss, clean_weight, backward)
            return CleanPass(None, loss.detach(), _detached(outputs))
    if not images.is_floating_point():
        raise TypeError(
            f"`images` must be floating point to have a gradient, got {images.dtype}. Scale them, "
            "for instance by torchvision's v2.ToDtype(torch.float32, scale=True)."
        )
    check_precision("images", images)
    keep = keep_gradients and clean_weight > 0
    still = contextlib.nullcontext() if keep else unchanged_buffers(model)
    with still, without_sync(model), recording():
        inputs = recordable(shrunk(images.detach(), scale)).requires_grad_()
        try:
            outputs = model(inputs.clone())  # models may modify their inputs
        except (AssertionError, RuntimeError, ValueError) as error:
            if scale == 1:
                raise
            raise _size_error(error, inputs.shape[2:], scale) from error
        loss = loss_of(outputs, recordable(targets), loss_fn)
        gradient: Tensor | None = None
        factor: Tensor | int = len(inputs)
        if loss.requires_grad and keep:
            factor = _run_backward(loss, clean_weight, backward).float()
            gradient = inputs.grad
        elif loss.requires_grad:
            # The mean over a batch is a small number for half precision: take the sum.
            with allowing_gradients(model):
                gradient = gradient_by(loss, inputs, torch.full_like(loss, len(inputs)))
        if gradient is None:
            raise ValueError(
                "`model` must pass a gradient on to its images, but the loss does not depend on "
                "them. Is there a detach(), a no_grad() or an arg max on the way?"
            )
        norm = channel_norm(gradient.float() / factor)
        # Outputs for downscaled images must not count in a training accuracy.
        return CleanPass(norm, loss.detach(), _detached(outputs) if scale == 1 else None)


def _size_error(error: Exception, size: torch.Size, scale: float) -> ValueError:
    """Returns the error for a model that does not accept smaller images."""
    return ValueError(
        "`saliency_scale` (`scale` of comixup.saliency) must be 1 for a model of a fixed input "
        f"size, got {scale!r}: on images of size {tuple(size)} the model raised "
        f"{type(error).__name__}: {reason_of(error)}. Choose OnePass, which makes no pass of its "
        "own, or maps by comixup.spectral_residual; timm's vision transformers take other sizes "
        "with dynamic_img_size=True."
    )


def channel_norm(gradient: Tensor) -> Tensor:
    """Returns the l2 norm over channels, (m, *size) float32: the saliency of a gradient.

    Channel by channel: on a CPU, torch's own norm over the second of four dimensions takes up to 50
    times as long.

    >>> channel_norm(torch.tensor([[[3.0]], [[4.0]]]).view(1, 2, 1)).tolist()
    [[5.0]]
    """
    first, *others = gradient.float().unbind(1)
    squares = first * first
    for channel in others:
        squares = torch.addcmul(squares, channel, channel)
    return squares.sqrt_()


def check_scale(name: str, scale: float, keep_gradients: bool) -> None:
    """Raises unless a scale is in (0, 1], and 1 if gradients are kept."""
    check_number(name, scale, high=1)
    check_positive(name, scale)
    if scale != 1 and keep_gradients:
        raise ValueError(
            f"`{name}` must be 1 where the pass trains the model too, on images as they are, got "
            f"{scale!r}. Set keep_gradients=False."
        )


def shrunk(images: Tensor, scale: float) -> Tensor:
    """Returns images downscaled by area averaging.

    >>> shrunk(torch.arange(4.0).view(1, 1, 4), 0.5).tolist()
    [[[0.5, 2.5]]]
    """
    if scale == 1:
        return images
    size = [max(1, round(side * scale)) for side in images.shape[2:]]
    return F.interpolate(images, size=size, mode="area")


def _detached(outputs: Any) -> Any:
    return outputs.detach() if isinstance(outputs, Tensor) else outputs


def loss_of(outputs: Any, targets: Tensor, loss_fn: LossFn | None) -> Tensor:
    """Returns the scalar loss of a model's outputs; None means `cross_entropy`."""
    if loss_fn is None:
        if not isinstance(outputs, Tensor):
            raise TypeError(
                f"`model` must return a tensor of logits, got {type(outputs).__name__}. Give a "
                "`loss_fn` that takes what the model returns, such as "
                "lambda outputs, targets: F.cross_entropy(outputs.logits, targets)."
            )
        return F.cross_entropy(outputs, targets)
    loss = loss_fn(outputs, targets)
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        got = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise TypeError(f"`loss_fn` must return a scalar tensor, got {got}. Take its mean.")
    return loss


def _run_backward(loss: Tensor, weight: float, backward: Backward | None) -> Tensor:
    """Runs the backward pass of the weighted loss; returns the total factor on the loss."""
    scales: list[Tensor] = []  # by which the caller's backward pass multiplies the loss
    handle = loss.register_hook(scales.append)  # type: ignore[no-untyped-call]
    weighted = loss * weight
    weighted.backward() if backward is None else backward(weighted)  # type: ignore[no-untyped-call]
    handle.remove()
    if not scales:
        raise ValueError(
            "`backward` must run the backward pass of the loss it is given, but no gradient "
            "arrived. A GradScaler's is lambda loss: scaler.scale(loss).backward()."
        )
    return scales[0]


# ---- Without a model ----------------------------------------------------------------------------


def spectral_residual(images: Tensor) -> Tensor:
    """Returns spectral-residual saliency (no model needed), (m, *size) float32.

    It can run in a data loader's collate function. The spectral residual (Hou and Zhang, CVPR 2007)
    is the log spectrum minus its local mean, transformed back to pixels.

    Args:
        images: (m, C, *size) with 1 to 3 spatial dimensions. Not changed.

    >>> image = torch.zeros(1, 1, 32, 32)
    >>> image[0, 0, 8:12, 20:24] = 1
    >>> place = spectral_residual(image)[0].argmax()
    >>> 6 <= int(place) // 32 < 14, 18 <= int(place) % 32 < 26
    (True, True)
    """
    check_images(images)
    with torch.autocast(images.device.type, enabled=False):  # spectra need single precision
        return _spectral_residual(images)


def _spectral_residual(images: Tensor) -> Tensor:
    grey = images.detach().float().mean(1, keepdim=True)
    size = tuple(grey.shape[2:])
    scale = max(1.0, max(size) / SPECTRAL_SIDE)
    small = tuple(max(1, round(side / scale)) for side in size)
    if small != size:
        grey = resized(grey, small)
    axes = tuple(range(2, grey.ndim))
    spectrum = torch.fft.fftn(grey, dim=axes)
    amplitude = spectrum.abs()
    loudest = amplitude.amax(axes, keepdim=True).clamp(min=_TINY)
    log_amplitude = amplitude.maximum(QUIETEST * loudest).log()
    kernel = torch.full((3,), 1 / 3, device=images.device)
    residual = (log_amplitude - blurred(log_amplitude, kernel, "circular")).exp()
    phase = spectrum / amplitude.clamp(min=_TINY)
    standing_out = torch.fft.ifftn(residual * phase, dim=axes).abs().square()
    reach = torch.arange(-5, 6, device=images.device)
    bell = (-0.5 * (reach / BLUR).square()).exp()
    smooth = blurred(standing_out, bell / bell.sum(), "replicate")
    return (smooth if small == size else resized(smooth, size)).squeeze(1)


def resized(values: Tensor, size: tuple[int, ...]) -> Tensor:
    """Returns values (m, C, *pixels) resized by linear interpolation."""
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(size)]
    return F.interpolate(values, size, mode=mode, antialias=mode == "bilinear")


def blurred(values: Tensor, kernel: Tensor, edge: str) -> Tensor:
    """Returns values (m, 1, *size) box-blurred along every spatial axis."""
    for axis in range(2, values.ndim):
        moved = values.movedim(axis, -1)
        rows = moved.reshape(-1, 1, moved.shape[-1])
        reach = len(kernel) // 2
        side = rows.shape[-1]
        if edge == "circular":
            index = torch.arange(-reach, side + reach, device=values.device) % side
        else:
            index = torch.arange(-reach, side + reach, device=values.device).clamp(0, side - 1)
        rows = F.conv1d(rows[..., index], kernel.view(1, 1, -1))
        values = rows.view(moved.shape).movedim(-1, axis)
    return values
