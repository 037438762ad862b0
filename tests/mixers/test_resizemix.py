"""ResizeMix: all of the partner, smaller, in a box of the image."""

import math

import numpy as np
import torch
from torch.testing import assert_close

from batches import batch
from cases import each_case
from comixup.mixers import ResizeMix
from comixup.mixers._cutmix import shrunk_to
from problems import generator
from redraws import permutation, uniform
from rejections import rejects


def shrunk(image, sides):
    """An image (C, *size), each pixel the mean of those that it covers, axis by axis."""
    for axis, side in enumerate(sides, start=1):
        size = image.shape[axis]
        parts = [
            image.take(range(k * size // side, -(-(k + 1) * size // side)), axis).mean(axis)
            for k in range(side)
        ]
        image = np.stack(parts, axis)
    return image


def recomputed(images, seed, *, low=0.1, high=0.8, per_sample=False):
    m, size = len(images), images.shape[2:]
    draw = generator(seed)
    partners = permutation(m, draw)
    rows = m if per_sample else 1
    tau = np.float32(low) + np.float32(high - low) * uniform(rows, 1, 1, generator=draw)[:, 0, 0]
    sides = [[int(t * np.float32(side)) for side in size] for t in tau]
    places = uniform(rows, 1, len(size), generator=draw)[:, 0]
    mixed, shares = images.copy(), np.ones(m)
    for j, i in enumerate(partners):
        row = j if per_sample else 0
        box, start = sides[row], []
        for axis, side in enumerate(size):
            start.append(int(places[row, axis] * (side - box[axis] + 1)))
        if all(box):
            inside = tuple(slice(b, b + s) for b, s in zip(start, box, strict=True))
            mixed[(j, slice(None), *inside)] = shrunk(images[i], box)
        shares[j] = 1 - math.prod(box) / math.prod(size)
    return mixed, shares, partners


@each_case("per_sample", [False, True])
@each_case("size", [(24,), (7, 9), (16, 16), (5, 6, 7), (1, 1)], ids=str)
def test_is_what_numpy_computes_from_the_description(per_sample, size):
    m = 6
    for seed in range(8):
        images = torch.rand(m, 2, *size, generator=generator(seed), dtype=torch.float64)
        mixer = ResizeMix(m, per_sample=per_sample, generator=generator(seed))
        mixed, soft = mixer(images, torch.arange(m))
        expected, own, partners = recomputed(images.numpy(), seed, per_sample=per_sample)
        assert_close(mixed, torch.from_numpy(expected))
        for j, i in enumerate(partners):
            assert_close(float(soft[j, i]), 1.0 if i == j else 1 - own[j], rtol=1e-6, atol=1e-6)


def test_integers_show_the_pixel_in_the_middle():
    masks = torch.arange(6).view(1, 1, 6)
    assert shrunk_to(masks, [2]).tolist() == [[[1, 4]]]
    assert shrunk_to(masks, [6]).tolist() == masks.tolist()
    assert shrunk_to(masks > 2, [3]).tolist() == [[[False, True, True]]]
    images, targets, _ = batch(6)
    mixer = ResizeMix(7, per_sample=True, generator=generator(3))
    mixer(images, targets)
    plan = mixer.last.plan
    labels = torch.arange(6).view(6, 1, 1).expand(6, 8, 8)  # of one class: that of who is seen
    who = torch.cat([torch.arange(6).unsqueeze(1), plan.partners], 1)
    expected = torch.stack([who[j][plan.owner[j]] for j in range(6)])
    assert_close(plan.mix_masks(labels), expected)


@each_case(
    ("scale", "message"),
    [
        (0.5, r"`scale` must be a pair \(min, max\), got 0\.5"),
        ((0.5, 0.2), r"`scale` must have its least number first"),
        ((0.1, 1.5), r"`scale` must be a number from 0 to 1, got 1\.5"),
        ((-0.1, 0.5), r"`scale` must be a number from 0 to 1"),
    ],
)
def test_rejects(scale, message):
    with rejects(ValueError, message):
        ResizeMix(7, scale=scale)
