"""GuidedMixup: shares by smoothed saliency, partners by greedy distance."""

import numpy as np
import torch
from torch.testing import assert_close

from batches import batch
from cases import each_case
from comixup.mixers import GuidedMixup
from comixup.mixers._guidedmixup import farthest_cycle, next_in
from problems import generator


def smoothed(saliency):
    """A map blurred by a window of 7 pixels, sigma 3, in each direction, that sums to one."""
    bell = np.exp(-0.5 * (np.arange(-3, 4) / 3) ** 2)
    bell /= bell.sum()
    smooth = saliency.astype(np.float64)
    for axis in range(smooth.ndim):
        wide = np.pad(smooth, [(3, 3) if k == axis else (0, 0) for k in range(smooth.ndim)], "edge")
        side = smooth.shape[axis]
        smooth = sum(weight * wide.take(range(k, k + side), axis) for k, weight in enumerate(bell))
    return smooth / smooth.sum()


def cycle(distance):
    """The farthest pair, then the farthest that is left, by the definition."""
    m = len(distance)
    if m == 1:
        return [0]
    pairs = [(distance[i][j], -i, -j) for i in range(m) for j in range(m) if i != j]
    _, i, j = max(pairs)
    order = [-i, -j]
    while len(order) < m:
        left = [k for k in range(m) if k not in order]
        order.append(max(left, key=lambda k: (distance[order[-1]][k], -k)))
    return order


@each_case("size", [(24,), (7, 9), (16, 16), (5, 6, 7)], ids=str)
@each_case("m", [1, 2, 5, 12])
def test_is_what_numpy_computes_from_the_description(size, m):
    images = torch.rand(m, 2, *size, generator=generator(0), dtype=torch.float64)
    saliency = torch.rand(m, *size, generator=generator(1)) ** 4
    mixer = GuidedMixup(m)
    mixed, soft = mixer(images, torch.arange(m), saliency)
    maps = np.stack([smoothed(one) for one in saliency.numpy()])
    flat = maps.reshape(m, -1)
    order = cycle(np.linalg.norm(flat[:, None] - flat[None], axis=2))
    for place, i in enumerate(order):
        j = order[(place + 1) % m]
        share = maps[i] / (maps[i] + maps[j])
        expected = share * images[i].numpy() + (1 - share) * images[j].numpy()
        assert_close(mixed[i], torch.from_numpy(expected), rtol=1e-4, atol=1e-5)
        own = 1.0 if i == j else share.mean()
        assert_close(float(soft[i, i]), own, rtol=1e-4, atol=1e-5)


def test_partners_are_one_cycle_in_which_nobody_is_its_own():
    for m in (2, 3, 20, 57):
        distance = np.random.default_rng(m).random((m, m))
        distance += distance.T
        order = farthest_cycle(distance)
        assert sorted(order) == list(range(m))
        assert order.tolist() == cycle(distance)
        partners = next_in(order)
        seen, now = [], 0
        for _ in range(m):
            seen.append(now)
            now = partners[now]
        assert sorted(seen) == list(range(m))
    assert farthest_cycle(np.zeros((3, 3))).tolist() == [0, 1, 2]  # of equally far, the first
    assert farthest_cycle(np.zeros((1, 1))).tolist() == [0]


def test_it_draws_nothing_but_whether_it_mixes():
    given = batch(6)
    draw = generator(0)
    before = draw.get_state()
    GuidedMixup(7, generator=draw)(*given)
    assert torch.equal(draw.get_state(), before)
    assert GuidedMixup(7).clean_weight == 1  # with gradient maps it trains on the clean loss
