"""Where an image stands out from itself: saliency that needs no model."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from comixup.core.tensors import check_images

SPECTRAL_SIDE = 64
"""Longest side in pixels at which spectra are compared: finer texture is not what stands out."""

BLUR = 2.5
"""Standard deviation, in pixels at that side, of the blur over the residual's square."""

QUIETEST = 1e-3
"""Amplitudes below this part of the largest count as this: the logarithm of frequencies that an
image does not have would drown all others."""

_TINY = 1e-30


def spectral_residual(images: Tensor) -> Tensor:
    """Returns how much each pixel stands out from the image's own texture, (m, *size) float32.

    Needs no model, so it can run in a data loader's collate function. The spectral residual of
    Hou and Zhang (CVPR 2007): what a smooth log spectrum does not explain, turned back to pixels.

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
        grey = _resize(grey, small)
    axes = tuple(range(2, grey.ndim))
    spectrum = torch.fft.fftn(grey, dim=axes)
    amplitude = spectrum.abs()
    loudest = amplitude.amax(axes, keepdim=True).clamp(min=_TINY)
    log_amplitude = amplitude.maximum(QUIETEST * loudest).log()
    kernel = torch.full((3,), 1 / 3, device=images.device)
    residual = (log_amplitude - _blur(log_amplitude, kernel, "circular")).exp()
    phase = spectrum / amplitude.clamp(min=_TINY)
    standing_out = torch.fft.ifftn(residual * phase, dim=axes).abs().square()
    reach = torch.arange(-5, 6, device=images.device)
    bell = (-0.5 * (reach / BLUR).square()).exp()
    smooth = _blur(standing_out, bell / bell.sum(), "replicate")
    return (smooth if small == size else _resize(smooth, size)).squeeze(1)


def _resize(values: Tensor, size: tuple[int, ...]) -> Tensor:
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(size)]
    return F.interpolate(values, size, mode=mode, antialias=mode == "bilinear")


def _blur(values: Tensor, kernel: Tensor, edge: str) -> Tensor:
    """Returns (m, 1, *size) values averaged along every spatial axis."""
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
