"""R-Mix: the salient cells of one image over the others' low ones, a blend elsewhere."""

import numpy as np
import torch
from torch.testing import assert_close

from batches import batch
from cases import each_case
from comixup.mixers import RMix
from problems import generator
from redraws import beta, permutation


def recomputed(images, saliency, seed, *, grids, alpha=2.0, per_sample=False):
    """Mixed images and the image's share of each pixel; sides are multiples of the grids'."""
    m, size = len(images), images.shape[2:]
    draw = generator(seed)
    grid = grids[int(torch.randint(len(grids), (), generator=draw))] if len(grids) > 1 else grids[0]
    partners = permutation(m, draw)
    lam = np.broadcast_to(beta(alpha, m if per_sample else 1, draw), (m,))
    chosen = torch.randint(10, (m,), generator=draw).numpy()
    tops = []
    for i in range(m):
        cells = saliency[i].astype(np.float64)
        for axis, side in enumerate(size):
            parts = np.split(cells, min(grid, side), axis)
            cells = np.stack([part.mean(axis) for part in parts], axis)
        level = np.quantile(cells / cells.sum(), 0.11 * chosen[i])
        top = cells / cells.sum() > level
        for axis, side in enumerate(size):
            top = top.repeat(side // top.shape[axis], axis)
        tops.append(top)
    shares = np.empty((m, *size))
    for j, i in enumerate(partners):
        shares[j] = np.where(tops[j] == tops[i], lam[j], tops[j])
    mixed = shares[:, None] * images + (1 - shares[:, None]) * images[partners]
    return mixed, shares, partners


@each_case("per_sample", [False, True])
@each_case("grids", [(4,), (2, 4, 8, 16)], ids=str)
@each_case("size", [(32,), (16, 16), (8, 16), (4, 4, 8)], ids=str)
def test_is_what_numpy_computes_from_the_description(per_sample, grids, size):
    m = 6
    for seed in range(6):
        images = torch.rand(m, 2, *size, generator=generator(seed), dtype=torch.float64)
        saliency = torch.rand(m, *size, generator=generator(seed + 9), dtype=torch.float64)
        mixer = RMix(m, grid=grids, per_sample=per_sample, generator=generator(seed))
        mixed, soft = mixer(images, torch.arange(m), saliency)
        expected, shares, partners = recomputed(
            images.numpy(), saliency.numpy(), seed, grids=grids, per_sample=per_sample
        )
        assert_close(mixed, torch.from_numpy(expected), rtol=1e-5, atol=1e-6)
        for j, i in enumerate(partners):
            own = 1.0 if i == j else shares[j].mean()
            assert_close(float(soft[j, j]), own, rtol=1e-5, atol=1e-6)


def test_lambda_is_the_images_own_share_where_neither_stands_out():
    images, targets, _ = batch(6)
    mixer = RMix(7, alpha=2.0, generator=generator(0))
    mixer.uniform_expected = True
    mixer(images, targets, torch.ones(6, 8, 8))  # no cell is above a percentile of equal ones
    ratios = mixer.last.plan.ratios
    assert_close(ratios.amin((2, 3)), ratios.amax((2, 3)))
    draw = generator(0)
    torch.randint(5, (), generator=draw)
    torch.randperm(6, generator=draw)
    assert_close(float(ratios[0, 0].mean()), float(beta(2.0, 1, draw)[0]), rtol=1e-5, atol=1e-6)
    assert mixer.last.uniform_maps == 6
