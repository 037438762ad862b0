"""FMix: masks of low-frequency noise, cut so that a share lambda of the pixels is the image's."""

import numpy as np
import torch
from torch.testing import assert_close

from batches import batch, telling
from cases import each_case
from comixup.mixers import FMix
from problems import generator
from redraws import beta, permutation, uniform

SIZES = [(24,), (7, 9), (16, 16), (12, 5), (5, 6, 7), (1, 1)]


def recomputed(m, size, seed, *, alpha=1.0, decay=3.0, per_sample=False):
    """Partners, pixels of the image itself, and the pictures that are cut, in double precision."""
    draw = generator(seed)
    partners = permutation(m, draw)
    rows, pixels = m if per_sample else 1, int(np.prod(size))
    shares = beta(alpha, rows, draw) * pixels
    up = uniform(rows, generator=draw) < 0.5
    counts = np.where(up, np.ceil(shares), np.floor(shares))
    spectrum_size = (*size[:-1], size[-1] // 2 + 1)
    noise = torch.randn(rows, *spectrum_size, 2, generator=draw).double().numpy()
    amplitude = np.empty(spectrum_size)
    for index in np.ndindex(*spectrum_size):
        square = 0.0
        for k, side in zip(index, size, strict=True):
            square += (min(k, side - k) / side) ** 2
        amplitude[index] = max(np.sqrt(square), 1 / max(size)) ** -decay
    spectrum = (noise[..., 0] + 1j * noise[..., 1]) * amplitude
    pictures = np.fft.irfftn(spectrum, size, axes=range(1, 1 + len(size)))
    return partners, counts, pictures


@each_case("per_sample", [False, True])
@each_case("size", SIZES, ids=str)
@each_case("decay", [3.0, 1.5])
def test_is_what_numpy_computes_from_the_description(per_sample, size, decay):
    m = 5
    for seed in range(5):
        images = telling(m, 2, size, torch.float64)
        mixer = FMix(m, decay=decay, per_sample=per_sample, generator=generator(seed))
        mixed, soft = mixer(images, torch.arange(m))
        partners, counts, pictures = recomputed(m, size, seed, decay=decay, per_sample=per_sample)
        pixels = int(np.prod(size))
        for j, i in enumerate(partners):
            row = j if per_sample else 0
            own = (mixed[j] == images[j]).all(0).numpy()
            if i != j:
                assert own.sum() == counts[row]
                highest = np.sort(pictures[row].ravel())[::-1]
                # Single precision may order pixels otherwise whose values are all but equal.
                near = 1e-4 * np.abs(pictures[row]).max()
                if 0 < own.sum() < pixels:
                    level = highest[int(counts[row]) - 1]
                    assert (pictures[row][own] >= level - near).all()
                    assert (pictures[row][~own] <= level + near).all()
                assert_close(mixed[j][:, ~own], images[i][:, ~own], rtol=0, atol=0)
                assert_close(float(soft[j, j]), counts[row] / pixels, rtol=1e-6, atol=1e-7)


def test_lambda_is_the_images_own_share_rounded_down_or_up_by_a_coin():
    images, targets, _ = batch(2000, (3, 3), channels=1)
    mixer = FMix(7, alpha=1e8, per_sample=True, generator=generator(0))  # lambda is one half
    mixer(images, targets)
    own = mixer.last.plan.ratios[:, 0].flatten(1).sum(1)
    assert set(own.tolist()) == {4.0, 5.0}  # of nine pixels
    assert abs(float(own.mean()) - 4.5) < 0.05
