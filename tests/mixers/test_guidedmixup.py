"""GuidedMixup: shares by smoothed saliency, partners by greedy distance."""

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch.testing import assert_close

from batches import batch
from cases import each_case
from comixup import spectral_residual
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


def test_the_greedy_cycle_is_close_to_the_best_assignment():
    ratios = []
    for m in (8, 20, 100):
        images = torch.rand(m, 3, 32, 32, generator=generator(m))
        maps = spectral_residual(images).flatten(1).double()
        distance = torch.cdist(maps, maps).numpy()
        partners = next_in(farthest_cycle(distance))
        rows, columns = linear_sum_assignment(distance, maximize=True)
        best = distance[rows, columns].sum()
        ratios.append(distance[np.arange(m), partners].sum() / best)
    assert max(ratios) <= 1 + 1e-9
    assert min(ratios) > 0.95
    random = distance[np.arange(100), np.roll(np.arange(100), 1)].sum() / best
    assert ratios[-1] > random


def test_where_nothing_matters_in_both_they_are_halves():
    images, targets, _ = batch(2, (40, 40))
    saliency = torch.zeros(2, 40, 40)
    saliency[0, 0, 0], saliency[1, 39, 39] = 1, 1
    mixer = GuidedMixup(7)
    mixer(images, targets, saliency)
    share = mixer.last.plan.ratios[0, 0]
    assert share[0, 0] == 1  # the image's own, not the partner's
    assert share[39, 39] == 0
    assert share[20, 20] == 0.5


def test_unusable_maps_count_as_uniform():
    images, targets, saliency = batch(4, (16, 16))
    flat, broken = saliency.clone(), saliency.clone()
    flat[1], broken[1] = 1, float("nan")
    answers = []
    for maps in (flat, broken):
        mixer = GuidedMixup(7)
        mixer.uniform_expected = True
        answers.append(mixer(images, targets, maps))
        assert mixer.last.uniform_maps == 1
    assert_close(answers[0], answers[1])
    assert bool(answers[1][0].isfinite().all())


def test_it_draws_nothing_but_whether_it_mixes():
    given = batch(6)
    draw = generator(0)
    before = draw.get_state()
    GuidedMixup(7, generator=draw)(*given)
    assert torch.equal(draw.get_state(), before)
    assert GuidedMixup(7).clean_weight == 1  # with gradient maps it trains on the clean loss
