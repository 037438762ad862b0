"""Puzzle Mix's two steps: the mask of least energy, and the transport of salient blocks.

`docs/puzzlemix.md` derives the formulas.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from comixup import _native
from comixup.core.grid import edges
from comixup.core.maps import MAX_LOCATIONS, pool
from comixup.core.tensors import thread_count, to_device

BETA_SCALE = 16
"""A pair's weight is beta / g / 16 on a g x g grid, in the official implementation."""

_LEAST_RATIO = 1e-8


def border_differences(
    images: Tensor, partners: Tensor, sides: tuple[int, ...], patch: int, std: Tensor | None
) -> Tensor:
    """Returns color differences across cell borders, (3, m, edges) float64 on the CPU.

    For neighboring cells k and k', in the order of `edges(sides)`: the mean absolute difference
    between x at k and x at k', between x at k and its partner x' at k', and between x' at k and x
    at k'. Colors are means over patches along either side of the border.

    Args:
        images: (m, C, *size).
        partners: (m,) indices of the images' partners, on the images' device.
        sides: cells along each side.
        patch: a patch's side in pixels; at most a cell's.
        std: (C,) by which the channels were divided; None takes each channel's range in this batch
            as the range of its colors.
    """
    size = images.shape[2:]
    patches = [max(1, p // c // patch) for p, c in zip(size, sides, strict=True)]
    fine = tuple(c * k for c, k in zip(sides, patches, strict=True))
    pixels = images.detach().float()
    if std is None:
        low, high = pixels.transpose(0, 1).flatten(1).aminmax(dim=1)
        scale = 1 / (high - low).clamp(min=torch.finfo(torch.float32).tiny)
    else:
        scale = to_device(std, pixels.device)
    means = pool(pixels.flatten(0, 1), fine).view(*images.shape[:2], *fine)
    means = means * scale.view(-1, *[1] * len(size))
    found = [torch.zeros(3, len(images), 0, device=images.device)]
    for axis, (cells, k) in enumerate(zip(sides, patches, strict=True)):
        border = torch.arange(1, cells, device=images.device) * k
        near, far = (means.index_select(axis + 2, at) for at in (border - 1, border))
        pairs = (near, far), (near, far[partners]), (near[partners], far)
        apart = torch.stack([(a - b).abs().mean(1) for a, b in pairs]).flatten(0, 1)
        if cells > 1:
            along = tuple(c - 1 if d == axis else c for d, c in enumerate(sides))
            found.append(pool(apart, along).reshape(3, len(images), -1))
    # Non-finite differences, from broken images, must not decide where a border lies.
    return torch.cat(found, 2).nan_to_num(0.0, 0.0, 0.0).clamp(max=1.0).cpu().double()


def mask_energy(
    cells: Tensor,
    partners: Tensor,
    differences: Tensor,
    ratio: float,
    *,
    levels: int,
    beta: float,
    gamma: float,
    eta: float,
) -> tuple[Tensor, Tensor]:
    """Returns the energy of masks: `unary` (m, L + 1, n) and `weights` (m, edges), in float64.

    The energy of z = labels / L is the sum of unary[label at k, k] over cells k and of
    weights (z - z')^2 over neighboring cells. Up to a constant, that is

        - sum_k (z s + (1 - z) s')                      the saliency that the output shows
        - (eta / n) sum_k log Binomial(L, ratio)(L z)   the prior
        + b sum_pairs (z - z')^2                        smoothness
        + b gamma sum_pairs d(source at k, source at k')

    where s' is the partner's saliency, b = beta / (16 g), g = sqrt(n) for images, and d the
    differences above. The last term has four values, one for each pair of sources. Interpolated
    for masks between 0 and 1, it is

        (z + z') / 2 d11 + (1 - (z + z') / 2) d22 + (z - z') / 2 (d12 - d21)
          + (z - z')^2 (d12 + d21 - d11 - d22) / 2:

    terms of z and of z', which join the unaries, and one more weight of (z - z')^2.

    Args:
        cells: (m, *grid) saliency s of each cell; each map sums to one.
        partners: (m,) indices of the images' partners.
        differences: what `border_differences` returned.
        ratio: lambda, the share of the output that an image itself should keep.
        levels: L.
        beta: weight of smoothness.
        gamma: weight of the differences, relative to smoothness.
        eta: weight of the prior.
    """
    m, sides = len(cells), tuple(cells.shape[1:])
    n = math.prod(sides)
    b = beta / (BETA_SCALE * n ** (1 / len(sides)))
    d11, d12, d21 = b * gamma * differences
    d22 = d11[partners]
    # Negative only for gamma above 1: a visible border is not rewarded.
    weights = (b + (d12 + d21 - d11 - d22) / 2).clamp(min=0)

    own = -cells.double().reshape(m, n)  # the cost of z = 1
    other = own[partners]  # the cost of z = 0
    first, second = torch.from_numpy(edges(sides)).unbind(1)
    own = own.index_add(1, first, (d11 + d12) / 2).index_add(1, second, (d11 + d21) / 2)
    other = other.index_add(1, first, (d21 + d22) / 2).index_add(1, second, (d12 + d22) / 2)

    label = torch.arange(levels + 1, dtype=torch.float64)
    keep = min(max(ratio, _LEAST_RATIO), 1 - _LEAST_RATIO)
    ways = torch.tensor([math.comb(levels, k) for k in range(levels + 1)], dtype=torch.float64)
    prior = -(ways.log() + label * math.log(keep) + (levels - label) * math.log(1 - keep))
    z = (label / levels).view(1, -1, 1)
    unary = z * own.unsqueeze(1) + (1 - z) * other.unsqueeze(1)
    return unary + (eta / n) * prior.view(1, -1, 1), weights


def best_masks(
    unary: Tensor, weights: Tensor, sides: tuple[int, ...], num_threads: int | None = None
) -> Tensor:
    """Returns the labels of least energy, (m, *sides) integers in 0..L: exact minima.

    >>> unary = torch.tensor([[[0.0, 0.3], [0.1, 0.1], [0.5, 0.0]]], dtype=torch.float64)
    >>> best_masks(unary, torch.tensor([[0.5]], dtype=torch.float64), (2,)).tolist()
    [[1, 1]]
    """
    labels = np.empty((len(unary), math.prod(sides)), dtype=np.int32)
    _native.puzzle_masks(
        unary.contiguous().numpy(),
        weights.contiguous().numpy(),
        sides,
        thread_count(num_threads),
        labels,
    )
    return torch.from_numpy(labels).long().reshape(-1, *sides)


def transport(
    saliency: Tensor, granted: Tensor, eps: float, num_threads: int | None = None
) -> Tensor:
    """Returns which block each location receives, (m, *blocks) indices in row-major order.

    Moving block j to location i costs eps |i - j|^2 / (g - 1)^2 - s_j [location i is granted], with
    g the longest side. In each of g rounds every block chooses its cheapest location, the cheapest
    block that chose a location wins it, and each loser's cost of that location rises by 1.
    Locations that nobody won keep their block.

    Args:
        saliency: (m, *blocks); each map sums to one.
        granted: (m, *blocks) boolean: where the image can be seen.
        eps: weight of the distance.
        num_threads: threads that share the batch; None means torch's number.

    >>> transport(torch.tensor([[0.1, 0.7, 0.2]]), torch.tensor([[True, False, False]]), 0.8)
    tensor([[1, 0, 2]])
    """
    blocks = tuple(saliency.shape[1:])
    block_at = np.empty((len(saliency), math.prod(blocks)), dtype=np.int32)
    _native.puzzle_transport(
        saliency.float().flatten(1).contiguous().numpy(),
        granted.to(torch.uint8).flatten(1).contiguous().numpy(),
        blocks,
        eps,
        thread_count(num_threads),
        block_at,
    )
    return torch.from_numpy(block_at).long().reshape(-1, *blocks)


def block_sides(
    size: tuple[int, ...], sides: tuple[int, ...], pixels: int | None
) -> tuple[int, ...] | None:
    """Returns the transport's blocks along each side; None where cells differ in size.

    A block's side is the least divisor of its cell's that has `pixels` or more; None: a cell is
    a block.

    >>> block_sides((32, 32), (2, 4), 4), block_sides((14, 14), (2, 2), 4)
    ((8, 8), (2, 2))
    >>> block_sides((17, 32), (4, 4), None) is None
    True
    """
    if any(p % c for p, c in zip(size, sides, strict=True)):
        return None
    blocks = []
    for p, c in zip(size, sides, strict=True):
        cell = p // c
        least = cell if pixels is None else min(pixels, cell)
        blocks.append(p // next(k for k in range(least, cell + 1) if cell % k == 0))
    if math.prod(blocks) > MAX_LOCATIONS:
        raise ValueError(
            f"`t_size` must give at most {MAX_LOCATIONS} blocks per image, got {pixels!r}, which "
            f"gives {tuple(blocks)} for images of size {size}. Use larger blocks."
        )
    return tuple(blocks)


def move_blocks(images: Tensor, block_at: Tensor) -> Tensor:
    """Returns images (m, C, *size) with their blocks moved: `block_at` (m, *blocks) as above."""
    size, blocks = images.shape[2:], block_at.shape[1:]
    # The first pixel of the block that each location receives, plus each pixel's offset from the
    # first of its block, both in row-major order.
    first = torch.zeros_like(block_at)
    way = torch.zeros((), dtype=torch.int64, device=block_at.device)
    for axis, (p, c) in enumerate(zip(size, blocks, strict=True)):
        stride, inner = math.prod(size[axis + 1 :]), math.prod(blocks[axis + 1 :])
        first = first + block_at // inner % c * (p // c * stride)
        way = way.unsqueeze(-1) + torch.arange(p, device=way.device) % (p // c) * stride
    first, way = (to_device(part, images.device) for part in (first, way))
    for axis, (p, c) in enumerate(zip(size, blocks, strict=True), start=1):
        first = first.repeat_interleave(p // c, axis)
    pixel = (first + way).flatten(1).unsqueeze(1).expand(-1, images.shape[1], -1)
    return images.flatten(2).gather(2, pixel).view(images.shape)
