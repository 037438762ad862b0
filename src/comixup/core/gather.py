"""Gathers each output's pixels from the inputs that its labels select."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from comixup import _native
from comixup.core.grid import cell_of_pixel, upsampled
from comixup.core.tensors import thread_count, to_device

RUN_ELEMENTS = 2**21
"""Elements that torch operations mix at a time: enough to keep a device busy."""

_MEANS_IN_KERNEL = (torch.float32, torch.float64, torch.bfloat16)
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def gather_cells(images: Tensor, sources: Tensor) -> Tensor:
    """Returns the mean over l of images[sources[j, l, cell of the pixel]], (m', C, *size).

    No (m', m, C, *size) tensor is built; beyond `RUN_ELEMENTS`, memory stays within 1.3 times the
    result's. In host memory the kernel copies runs of pixels; `gather_pixels` serves other devices,
    and images that require gradients. Both return the same values.

    Args:
        images: (m, C, *size), of any dtype; floating where there is more than one level.
        sources: (m', L, *grid) integers, on any device.
    """
    in_kernel = (
        images.device.type == "cpu"
        and (sources.shape[1] == 1 or images.dtype in _MEANS_IN_KERNEL)
        and not (images.requires_grad and torch.is_grad_enabled())
        and not torch.compiler.is_compiling()
    )
    sources = to_device(sources, images.device, torch.int64)
    return (_gather_blocks if in_kernel else gather_pixels)(images, sources)


def gather_pixels(images: Tensor, sources: Tensor) -> Tensor:
    """Same as `gather_cells`, in torch operations, for any device.

    Pixels are copied in runs: those of a row that lie in one cell, or as many of them as divide all
    cells, where cells differ in width. One index per run is small compared with its pixels.
    """
    size, format_ = images.shape[2:], _memory_format(images)
    last = format_ is not torch.contiguous_format
    length = run_length(size[-1], sources.shape[-1])
    layout = (*size[:-1], size[-1] // length)
    shape = layout if last else (images.shape[1], *layout)  # of an image, in runs
    count = math.prod(shape)
    runs = _flat(images.contiguous(memory_format=format_), last).view(len(images) * count, -1)
    place = torch.arange(count, device=images.device).view(-1, math.prod(layout))
    cells = torch.arange(math.prod(sources.shape[2:]), device=images.device)
    cell = upsampled(cells.view(sources.shape[2:]), layout).flatten()  # of a run

    def mean_over_levels(some: Tensor, out: Tensor | None = None) -> Tensor:
        first_runs = some.flatten(2).movedim(1, 0) * count  # of the images that cells come from
        # One level at a time, so that only one level's indices and terms are in memory.
        indices = ((own.index_select(1, cell).unsqueeze(1) + place).flatten() for own in first_runs)
        mean = torch.index_select(runs, 0, next(indices), out=out)
        if some.shape[1] > 1:
            # As in the kernel: half precision is widened, and a mean of equal pixels is that pixel.
            mean = mean.to(torch.promote_types(images.dtype, torch.float32))
            for k, index in enumerate(indices, start=2):
                difference = runs.index_select(0, index).to(mean.dtype).sub_(mean)
                # Halves are exact: a fused multiply-add rounds like the kernel's two steps.
                mean.add_(difference if k == 2 else difference.mul_(2 / k), alpha=0.5)
                del difference  # free before the next level's
        return mean if mean.dtype == images.dtype else mean.to(images.dtype)

    outputs = max(1, RUN_ELEMENTS // images[0].numel())
    if len(sources) <= outputs or (images.requires_grad and torch.is_grad_enabled()):
        mixed = mean_over_levels(sources)
    else:
        mixed = runs.new_empty(len(sources) * count, runs.shape[1])
        for some, out in zip(
            torch.split(sources, outputs), torch.split(mixed, outputs * count), strict=True
        ):
            mean = mean_over_levels(some, out)
            if mean is not out:
                out.copy_(mean)
    if last:
        return mixed.view(len(sources), *size, -1).movedim(-1, 1)
    return mixed.view(len(sources), *images.shape[1:])


def run_length(size: int, cells: int) -> int:
    """Returns the largest run length that divides every cell's pixels in a row.

    >>> run_length(32, 4), run_length(30, 4), run_length(17, 4)
    (8, 1, 1)
    """
    return math.gcd(size, *(-(-cell * size // cells) for cell in range(cells)))


def in_format_of(images: Tensor, mixed: Tensor) -> Tensor:
    """Returns mixed images in the memory format of the inputs."""
    return mixed.contiguous(memory_format=_memory_format(images))


def _memory_format(images: Tensor) -> torch.memory_format:
    """Returns channels_last if images are in it and not also contiguous."""
    last = _CHANNELS_LAST.get(images.ndim)
    if last is None or images.is_contiguous() or not images.is_contiguous(memory_format=last):
        return torch.contiguous_format
    return last


def _gather_blocks(images: Tensor, sources: Tensor) -> Tensor:
    """Same as `gather_cells`, by the compiled kernel."""
    size, format_ = tuple(images.shape[2:]), _memory_format(images)
    last = format_ is not torch.contiguous_format
    images = images.detach().resolve_conj().resolve_neg()  # the kernel reads raw memory
    images = images.contiguous(memory_format=format_)
    out = torch.empty(
        (len(sources), *images.shape[1:]),
        dtype=images.dtype,
        device=images.device,
        memory_format=format_,
    )
    row_cell, column_begin = _layout(images.shape[1], size, tuple(sources.shape[2:]), last)
    _native.mix_blocks(
        _flat(images, last),
        sources.flatten(2).contiguous(),
        row_cell,
        column_begin,
        thread_count(None),
        _flat(out, last),
    )
    return out


def _flat(images: Tensor, channels_last: bool) -> Tensor:
    """Returns a view (m, elements) of images in memory order."""
    return (images.movedim(1, -1) if channels_last else images).view(len(images), -1)


@functools.lru_cache(maxsize=64)
def _layout(
    channels: int, size: tuple[int, ...], grid: tuple[int, ...], channels_last: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the first cell of each row of an image, and where cells begin along a row."""
    first = np.zeros(1, dtype=np.int64)
    for pixels, cells in zip(size[:-1], grid[:-1], strict=True):
        cell = cell_of_pixel(pixels, cells).numpy()
        first = (first[:, None] * cells + cell).ravel()
    columns = np.searchsorted(cell_of_pixel(size[-1], grid[-1]).numpy(), np.arange(grid[-1] + 1))
    if channels_last:
        return first * grid[-1], columns * channels
    return np.tile(first * grid[-1], channels), columns
