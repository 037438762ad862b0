"""What a saliency memory keeps of a batch: the means of the cells shown, and how they are read."""

from __future__ import annotations

import torch
from torch import Tensor

TOP = 255
"""The largest cell of a map; 0 in all cells means that nothing has been written."""


def cell_means(numbers: Tensor, values: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """Returns each cell's mean over the pixels that show it, (m, cells), and which are shown.

    Args:
        numbers: (m, *size) the cell that each pixel shows, from 1; 0 for none.
        values: (m, *size), not negative.
        cells: how many there are.
    """
    values = values.detach().flatten(1)
    numbers = numbers.flatten(1).to(values.device).long()
    sums = values.new_zeros(len(values), cells + 1).scatter_add_(1, numbers, values)
    counts = torch.zeros_like(sums).scatter_add_(1, numbers, torch.ones_like(values))
    return (sums / counts.clamp(min=1))[:, 1:], counts[:, 1:] > 0


def mixed_cell_means(
    numbers: Tensor, values: Tensor, sources: Tensor, cells: int
) -> tuple[Tensor, Tensor]:
    """Returns the same for the inputs of mixed images, of which each shows a part.

    Args:
        numbers: (m, *size) the cell that each pixel of the inputs shows, from 1; 0 for none.
        values: (m', *size) of the mixed images, not negative.
        sources: (m', L, *size) the input that fills each level of each pixel.
        cells: how many there are.
    """
    values = values.detach().flatten(1)
    numbers = numbers.flatten(1).to(values.device).long()
    sums = values.new_zeros(len(numbers) * (cells + 1))
    counts = torch.zeros_like(sums)
    pixels = torch.arange(values.shape[1], device=values.device)
    for level in sources.flatten(2).unbind(1):
        index = (level * (cells + 1) + numbers[level, pixels]).flatten()
        sums.scatter_add_(0, index, values.flatten())
        counts.scatter_add_(0, index, torch.ones_like(values).flatten())
    sums, counts = (part.view(len(numbers), -1)[:, 1:] for part in (sums, counts))
    return sums / counts.clamp(min=1), counts > 0


def looked_up(maps: Tensor, numbers: Tensor) -> Tensor:
    """Returns the value of the cell that each pixel shows, (m, *size) float32.

    An example without a map is uniformly salient; pixels that show no cell are not salient.

    Args:
        maps: (m, cells) bytes, all zero where there is none.
        numbers: (m, *size) the cell that each pixel shows, from 1; 0 for none.
    """
    maps = torch.where(maps.amax(1, keepdim=True) > 0, maps, torch.ones_like(maps))
    table = torch.cat([maps.new_zeros(len(maps), 1), maps], 1)
    return table.gather(1, numbers.flatten(1).long()).view(numbers.shape).float()


def joined(means: Tensor, shown: Tensor, before: Tensor, momentum: float) -> tuple[Tensor, Tensor]:
    """Returns maps as bytes, (m, cells), all zero where there is nothing to write, and a mask.

    The mask tells which gradients were usable; an image that shows no cell has nothing to write,
    but nothing is wrong with its gradient.

    Args:
        means: (m, cells) new values of the cells that are shown.
        shown: which those are.
        before: (m, cells) the previous maps, all zero where there is none.
        momentum: weight of the map of before in the cells that are shown.
    """
    means = means.float().where(shown, 0)
    total = means.sum(1, keepdim=True)
    usable = (total > 0) & total.isfinite()
    known = before.amax(1, keepdim=True) > 0
    before = torch.where(known, before, torch.ones_like(before))
    # Both maps are brought to a mean of one over the cells that both have. If that of the map of
    # before was less than a byte's step, it counts as one: new values would be rounded away.
    count = shown.sum(1, keepdim=True)
    new = means * (count / total)
    old = before * (count / torch.maximum((before * shown).sum(1, keepdim=True), count))
    mixed = torch.where(known, torch.lerp(new, old, momentum), new)
    joined = torch.where(shown, mixed, old)
    usable = usable & joined.isfinite().all(1, keepdim=True)
    top = joined.amax(1, keepdim=True)
    scaled = (joined * (TOP / top)).round_()
    empty = count == 0
    return torch.where(usable & ~empty, scaled, 0).to(torch.uint8), (usable | empty).squeeze(1)


def pixel_layout(gradient: Tensor) -> tuple[Tensor, bool] | None:
    """Returns a gradient as (m, C, pixels), or as (m, pixels, C) and True if channels are last.

    None where it is neither, is empty, or is not float32 in host memory: the kernel reads no other.
    """
    plain = gradient.detach()
    if plain.device.type != "cpu" or plain.dtype != torch.float32 or not plain.numel():
        return None
    if plain.is_contiguous():
        return plain.flatten(2), False
    moved = plain.movedim(1, -1)
    return (moved.flatten(1, -2), True) if moved.is_contiguous() else None
