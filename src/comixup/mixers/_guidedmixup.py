"""GuidedMixup: pixels blended by saliency, in pairs with different salient regions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from comixup.core.maps import Maps
from comixup.core.saliency import blurred, resized
from comixup.core.tensors import to_device
from comixup.mixers._input import Blend
from comixup.mixers._mixer import Mixed
from comixup.mixers._salient import SHOWN, SaliencyMixer

WINDOW, SIGMA = 7, 3.0
"""Pixels per side, and standard deviation, of the Gaussian that smooths maps."""
_TINY = 1e-30


@dataclass(eq=False, repr=False, kw_only=True)
class GuidedMixup(SaliencyMixer):
    """GuidedMixup (Kang and Kim, AAAI 2023): saliency-weighted blends of dissimilar pairs.

    Maps are smoothed and normalized to sum 1. Partners have distant maps: starting from the
    farthest pair, each image is assigned the farthest image that is not assigned yet
    (`farthest_cycle`). A pixel is blended with weight s_a / (s_a + s_b) for the image; targets use
    the mean over pixels. Mixing is deterministic; only `p` is random.

    The paper uses p=0.5 with `comixup.spectral_residual`, without a clean pass, and p=0.8 with
    gradients and the clean loss.

    Args:
        clean_weight: see `Mixer`.
        keep_gradients: see `comixup.saliency`.
        saliency_scale: compute saliency on images of this relative size (`scale` of
            `comixup.saliency`); below 1 only with keep_gradients=False.
        num_classes, p, clean_reduction, generator, validate: see `Mixer`.

    >>> mixup = GuidedMixup(num_classes=10)
    >>> images, targets = torch.rand(8, 3, 32, 32), torch.arange(8)
    >>> mixed, soft = mixup(images, targets, saliency=torch.rand(8, 32, 32))
    >>> mixed.shape, soft.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns partners and the shares of each pixel for a batch, on the maps' device."""
        maps = self.pooled(saliency, images, SHOWN)
        with torch.autocast(images.device.type, enabled=False):  # half precision is too coarse
            smooth = smooth_maps(maps, tuple(images.shape[2:]))
            distance = distances(smooth).cpu().numpy()
        partners = torch.from_numpy(next_in(farthest_cycle(distance)))
        other = smooth[to_device(partners, smooth.device)]
        total = smooth + other
        share = torch.where(total > 0, smooth / total, 0.5)  # 0 / 0 where neither is salient
        return Mixed(
            Blend(partners.unsqueeze(1), torch.stack([share, 1 - share], 1)),
            uniform_maps=int(np.count_nonzero(maps.uniform)),
            cells=torch.from_numpy(maps.cells),
        )


def smooth_maps(maps: Maps, size: tuple[int, ...]) -> Tensor:
    """Returns smoothed maps, (m, *size) float32, each summing to one."""
    ones = (-1, *[1] * len(size))
    uniform = to_device(torch.from_numpy(maps.uniform), maps.saliency.device)
    saliency = maps.saliency.where(~uniform.view(ones), 1.0)
    # Scaled by the maximum first: a map's sum may overflow or underflow in single precision.
    saliency = (saliency / saliency.flatten(1).amax(1).view(ones)).float().unsqueeze(1)
    if tuple(saliency.shape[2:]) != size:
        saliency = resized(saliency, size)
    reach = torch.arange(WINDOW, device=saliency.device) - WINDOW // 2
    bell = (-0.5 * (reach / SIGMA).square()).exp()
    smooth = blurred(saliency, bell / bell.sum(), "replicate").squeeze(1)
    return smooth / smooth.flatten(1).sum(1).clamp(min=_TINY).view(ones)


def distances(maps: Tensor) -> Tensor:
    """Returns the Euclidean distance of each pair of maps, (m, m), by one matrix product."""
    flat = maps.flatten(1)
    flat = flat - flat.mean(0)  # avoid cancellation
    product = flat @ flat.T
    square = product.diagonal()
    return (square.unsqueeze(0) + square.unsqueeze(1) - 2 * product).clamp(min=0).sqrt()


def farthest_cycle(distance: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    """Returns a greedy tour of all images: each step goes to the farthest image not yet visited.

    Ties go to the first. Each image is followed by its partner, the last by the first.

    >>> farthest_cycle(np.array([[0.0, 1, 3], [1, 0, 2], [3, 2, 0]])).tolist()
    [0, 2, 1]
    """
    left = np.array(distance, dtype=np.float64)
    np.fill_diagonal(left, -1)
    # Above the diagonal only: matrix products may round (i, j) and (j, i) differently.
    pairs = np.where(np.tri(len(left), dtype=bool), -1, left)
    now, following = divmod(int(pairs.argmax()), len(left))
    order = [now]
    while len(order) < len(left):
        left[:, now] = -1
        now, following = following, int(left[following].argmax())
        order.append(now)
    return np.array(order)


def next_in(order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the partner of each image: the next of a cycle.

    >>> next_in(np.array([0, 2, 1])).tolist()
    [2, 0, 1]
    """
    partners = np.empty_like(order)
    partners[order] = np.roll(order, -1)
    return partners
