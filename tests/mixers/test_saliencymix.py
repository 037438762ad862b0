"""SaliencyMix: a box around the partner's most salient pixel, at the same place."""

import numpy as np
import torch
from torch.testing import assert_close

from batches import telling
from cases import each_case
from comixup.mixers import SaliencyMix
from problems import generator
from redraws import beta, permutation, uniform


def recomputed(images, saliency, seed, *, alpha=1.0, per_sample=False):
    """Mixed images, shares of the image and its partners, from the description alone."""
    m, size = len(images), images.shape[2:]
    draw = generator(seed)
    partners = permutation(m, draw)
    ratios = np.broadcast_to(1 - beta(alpha, m if per_sample else 1, draw), (m,))
    anywhere = uniform(m, len(size), generator=draw)
    mixed, shares = images.copy(), np.ones(m)
    for j, i in enumerate(partners):
        peak = np.unravel_index(saliency[i].argmax(), saliency[i].shape)
        box = [slice(None)]
        for axis, side in enumerate(size):
            middle = (peak[axis] + 0.5) / saliency.shape[1 + axis] * side
            if saliency[i].min() == saliency[i].max():
                middle = anywhere[i, axis] * side
            half = int(0.5 * ratios[j] ** (1 / len(size)) * side)
            box.append(slice(max(0, int(middle) - half), min(side, int(middle) + half)))
        mixed[j][tuple(box)] = images[i][tuple(box)]
        shares[j] = 1 - mixed[j, 0][tuple(box[1:])].size / mixed[j, 0].size
    return mixed, shares, partners


@each_case("per_sample", [False, True])
@each_case("size", [(24,), (7, 9), (16, 16), (5, 6, 7)], ids=str)
def test_is_what_numpy_computes_from_the_description(per_sample, size):
    m = 6
    for seed in range(8):
        images = telling(m, 2, size, torch.float64)
        saliency = torch.rand(m, *size, generator=generator(seed))
        saliency[1] = 1  # in which nothing stands out
        mixer = SaliencyMix(m, per_sample=per_sample, generator=generator(seed))
        mixer.uniform_expected = True
        mixed, soft = mixer(images, torch.arange(m), saliency)
        expected, own, partners = recomputed(
            images.numpy(), saliency.numpy(), seed, per_sample=per_sample
        )
        assert_close(mixed, torch.from_numpy(expected), rtol=0, atol=0)
        for j, i in enumerate(partners):
            assert_close(float(soft[j, i]), 1.0 if i == j else 1 - own[j], rtol=1e-6, atol=1e-6)
            assert_close(float(soft[j].sum()), 1.0, rtol=1e-6, atol=1e-6)
