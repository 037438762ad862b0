"""Puzzle Mix's energy, its exact minimum, and the transport of blocks."""

import itertools

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow
from torch.testing import assert_close

from cases import each_case
from comixup.core.grid import edges
from comixup.core.puzzle import (
    best_masks,
    block_sides,
    border_differences,
    mask_energy,
    move_blocks,
    transport,
)
from problems import generator, maps

GRIDS = [(1,), (5,), (1, 1), (2, 2), (3, 2), (2, 4), (2, 2, 2)]


def random_energy(grid, levels, seed, *, convex=True, integers=False):
    rng = np.random.default_rng(seed)
    n = int(np.prod(grid))
    slopes, offset = rng.normal(size=(1, levels, n)), rng.normal(size=(1, 1, n))
    weights = rng.random((1, len(edges(grid)))) * levels**2 * 3.0 ** rng.normal()
    if integers:
        slopes, offset = np.round(100 * slopes), np.round(100 * offset)
        weights = np.round(100 * weights / levels**2) * levels**2
    if convex:
        slopes = np.sort(slopes, axis=1)
    unary = np.concatenate([np.zeros((1, 1, n)), slopes.cumsum(1)], 1) + offset
    return torch.from_numpy(unary), torch.from_numpy(weights)


def energy(unary, weights, labels, grid):
    """The energy of one sample's labels, straight from its definition."""
    levels, flat = unary.shape[0] - 1, np.asarray(labels).ravel()
    total = sum(float(unary[label, k]) for k, label in enumerate(flat))
    for weight, (a, b) in zip(weights, edges(grid), strict=True):
        total += float(weight) * ((int(flat[a]) - int(flat[b])) / levels) ** 2
    return total


def least_energy(unary, weights, grid):
    """The least energy of one sample, by looking at every labelling."""
    levels, n = unary.shape[0] - 1, unary.shape[1]
    labels = np.array(list(itertools.product(range(levels + 1), repeat=n)))
    total = unary.numpy()[labels, np.arange(n)].sum(1)
    for weight, (a, b) in zip(weights.numpy(), edges(grid), strict=True):
        total += weight * ((labels[:, a] - labels[:, b]) / levels) ** 2
    return float(total.min())


# ---- The minimum ---------------------------------------------------------------------------------


@each_case("levels", [1, 2, 3])
@each_case("grid", GRIDS, ids=str)
def test_the_masks_are_minima(grid, levels):
    n = int(np.prod(grid))
    if (levels + 1) ** n > 7000:
        levels = 1  # all there is time for
    for seed in range(4):
        unary, weights = random_energy(grid, levels, seed)
        labels = best_masks(unary, weights, grid)
        assert labels.shape == (1, *grid)
        best = least_energy(unary[0], weights[0], grid)
        found = energy(unary[0], weights[0], labels[0], grid)
        assert found == pytest.approx(best, abs=1e-9), seed


@each_case("factor", [2.0**-1000, 2.0**-960, 2.0**-100, 2.0**200])
@each_case("grid", [(4, 4), (8, 8), (12, 12), (17, 17)], ids=str)
def test_the_scale_of_an_energy_does_not_matter(grid, factor):
    for seed in range(4):
        unary, weights = random_energy(grid, 3, seed)
        expected = best_masks(unary, weights, grid)
        assert_close(best_masks(factor * unary, factor * weights, grid), expected)


def minimum_by_flow(unary, weights, grid):
    """The least energy by scipy's maximum flow, for integers: a chain of arcs for each cell.

    Cutting arc l of a cell's chain gives it label l; arcs between two chains add up to the squared
    difference of their labels.
    """
    levels, n = unary.shape[0] - 1, unary.shape[1]
    source, sink, forever = n * levels, n * levels + 1, 10**8
    lift = 10**5  # makes all arcs of a chain positive, and is cut once in each

    def node(k, l):  # noqa: E741
        return source if l == 0 else sink if l == levels + 1 else k * levels + l - 1

    arcs = []
    for k in range(n):
        for l in range(levels + 1):  # noqa: E741
            arcs.append((node(k, l), node(k, l + 1), int(unary[l, k]) + lift))
            if 0 < l <= levels - 1:
                arcs.append((node(k, l + 1), node(k, l), forever))
    for weight, (a, b) in zip(weights, edges(grid), strict=True):
        v = int(weight) // levels**2
        for here, there in ((a, b), (b, a)):
            for l, other in itertools.product(range(1, levels + 1), repeat=2):  # noqa: E741
                if l >= other:
                    arcs.append((node(here, l), node(there, other), v * (1 if l == other else 2)))
    rows, columns, capacity = np.array(arcs).T
    graph = coo_array((capacity, (rows, columns)), shape=(sink + 1,) * 2).tocsr().astype(np.int32)
    return maximum_flow(graph, source, sink).flow_value - n * lift


# Locations that fill one, two or four words of 64 bits, rows longer than a word, and larger grids.
WORDS = [(64,), (65,), (2, 128), (3, 80), (4, 4, 4), (6, 6, 7), (17, 16)]


@each_case("grid", WORDS, ids=str)
@each_case("levels", [2, 5])
def test_masks_of_any_size_are_minima(grid, levels):
    for seed in range(3):
        unary, weights = random_energy(grid, levels, seed, integers=True)
        labels = best_masks(unary, weights, grid)
        found = energy(unary[0], weights[0], labels[0], grid)
        assert found == minimum_by_flow(unary[0].numpy(), weights[0].numpy(), grid), seed


@each_case("grid", [(8, 8), (12, 12), (17, 17)], ids=str)
def test_cuts_that_follow_one_another_lead_to_a_minimum(grid):
    # Locations pull hard to either end and pairs are strong: bounds settle nothing, and labels have
    # to go up several times, together.
    levels, n = 6, int(np.prod(grid))
    rng = np.random.default_rng(3)
    cuts = 0
    for _ in range(3):
        slope = np.rint(rng.normal(size=n) * 300)
        label = np.arange(levels + 1)[:, None]
        unary = torch.from_numpy(slope * label + 3.0 * label**2 - 30.0 * label)[None]
        weights = torch.from_numpy(rng.integers(40, 90, size=(1, len(edges(grid)))) * 36.0)
        labels = best_masks(unary, weights, grid)
        cuts += len(labels.unique()) > 2
        found = energy(unary[0], weights[0], labels[0], grid)
        assert found == minimum_by_flow(unary[0].numpy(), weights[0].numpy(), grid)
    assert cuts > 0


def test_masks_of_huge_costs_are_minima():
    unary = torch.full((1, 3, 64), 1e100, dtype=torch.float64)
    unary[:, 1] = -1e100
    labels = best_masks(unary, torch.full((1, 112), 1e100, dtype=torch.float64), (8, 8))
    assert_close(labels, torch.ones(1, 8, 8, dtype=torch.int64))


@each_case("grid", [(1,), (2, 2), (8, 8), (17, 17)], ids=str)
@each_case("levels", [2, 3, 5])
def test_costs_that_are_not_convex_are_rejected(grid, levels):
    unary, weights = random_energy(grid, levels, 5)
    best_masks(unary, weights, grid)
    unary[0, 1, -1] += 1e-6 + (unary[0, 0, -1] + unary[0, 2, -1]) / 2 - unary[0, 1, -1]
    with pytest.raises(ValueError, match="unary must be convex in the label"):
        best_masks(unary, weights, grid)
    unary[0, 1, -1] -= 1e-6  # on the line between its neighbours, up to rounding
    best_masks(unary, weights, grid)


def test_the_energies_of_puzzle_mix_are_convex_at_any_scale():
    for seed, levels in itertools.product(range(6), (1, 2, 7, 16)):
        cells = maps(6, (4, 4), seed=seed)
        partners = torch.randperm(6, generator=generator(seed))
        differences = torch.rand(3, 6, 24, generator=generator(seed), dtype=torch.float64)
        for beta, gamma, eta in ((1.2, 0.5, 0.2), (0, 0, 0), (1e20, 1.0, 0), (1.2, 1e20, 1e-20)):
            for ratio in (0.0, 1e-6, 0.3, 1.0):
                unary, weights = mask_energy(
                    cells, partners, differences, ratio,
                    levels=levels, beta=beta, gamma=gamma, eta=eta,
                )  # fmt: skip
                best_masks(unary, weights, (4, 4))


def test_the_flow_of_the_test_is_right():
    unary, weights = random_energy((2, 3), 2, 1, convex=False, integers=True)
    best = least_energy(unary[0], weights[0], (2, 3))
    assert minimum_by_flow(unary[0].numpy(), weights[0].numpy(), (2, 3)) == best


def test_batches_and_threads_change_nothing():
    samples = [random_energy((16, 16), 2, seed) for seed in range(40)]
    unary, weights = (torch.cat(parts) for parts in zip(*samples, strict=True))
    once = best_masks(unary, weights, (16, 16), num_threads=1)
    assert_close(best_masks(unary, weights, (16, 16), num_threads=3), once)
    alone = torch.cat([best_masks(u, w, (16, 16)) for u, w in samples])
    assert_close(once, alone)


# ---- The energy ----------------------------------------------------------------------------------


def batch(m, size, seed=0, channels=3):
    return torch.rand(m, channels, *size, generator=generator(seed), dtype=torch.float32)


def border(x, y, k, other, cell, patch):
    """Mean absolute colour difference between x in cell k and y in its neighbour, in plain loops.

    Images of 8 x 8 pixels; `k` and `other` are the cells' (row, column).
    """
    down = other[0] > k[0]
    total, count = 0.0, 0
    for first in range(0, cell, patch):
        if down:
            rows, columns = (k[0] + 1) * cell, k[1] * cell + first
            near = x[:, rows - patch : rows, columns : columns + patch]
            far = y[:, rows : rows + patch, columns : columns + patch]
        else:
            rows, columns = k[0] * cell + first, (k[1] + 1) * cell
            near = x[:, rows : rows + patch, columns - patch : columns]
            far = y[:, rows : rows + patch, columns : columns + patch]
        for channel in range(x.shape[0]):
            total += abs(float(near[channel].mean()) - float(far[channel].mean()))
            count += 1
    return total / count


@each_case(("grid", "patch"), [(2, 4), (2, 2), (4, 2), (4, 1), (8, 4)])
def test_differences_are_those_across_the_borders(grid, patch):
    images, partners = batch(2, (8, 8)), torch.tensor([1, 0])
    found = border_differences(images, partners, (grid, grid), patch, torch.ones(1))
    cell = 8 // grid
    patch = min(patch, cell)
    for e, (a, b) in enumerate(edges((grid, grid))):
        k, other = divmod(int(a), grid), divmod(int(b), grid)
        x, y = images[0], images[1]
        expected = [border(*pair, k, other, cell, patch) for pair in ((x, x), (x, y), (y, x))]
        np.testing.assert_allclose(found[:, 0, e].numpy(), expected, rtol=1e-5, atol=1e-6)


def test_colours_are_compared_on_their_own_scale():
    images, partners = batch(4, (8, 8)), torch.tensor([1, 2, 3, 0])
    std = torch.tensor([0.2, 0.3, 0.5])
    normalized = (images - 0.4) / std.view(3, 1, 1)
    plain = border_differences(images, partners, (4, 4), 2, torch.ones(1))
    assert_close(border_differences(normalized, partners, (4, 4), 2, std), plain)
    ranged = border_differences(images, partners, (4, 4), 2, None)
    assert_close(border_differences(normalized, partners, (4, 4), 2, None), ranged)
    low, high = images.transpose(0, 1).flatten(1).aminmax(dim=1)
    assert_close(ranged, border_differences(images, partners, (4, 4), 2, 1 / (high - low)))


def definition(z, cells, other_cells, d, ratio, *, levels, beta, gamma, eta):
    """The energy of one mask before anything is folded; d[a][b] as in the module's docstring."""
    rows, columns = z.shape
    b = beta / rows / 16
    total = 0.0
    for k in np.ndindex(rows, columns):
        total -= z[k] * cells[k] + (1 - z[k]) * other_cells[k]
        count = round(levels * z[k])
        ways = len(list(itertools.combinations(range(levels), count)))
        total -= eta / rows**2 * np.log(ways * ratio**count * (1 - ratio) ** (levels - count))
    for e, (p, q) in enumerate(edges((rows, columns))):
        here, there = z.flat[p], z.flat[q]
        total += b * (here - there) ** 2
        if {here, there} <= {0.0, 1.0}:  # the pair of sources that meet
            data = d[0 if here else 1][0 if there else 1][e]
        else:
            mean, apart = (here + there) / 2, here - there
            (d11, d12), (d21, d22) = ([side[e] for side in row] for row in d)
            data = mean * d11 + (1 - mean) * d22 + apart * (d12 - d21) / 2
            data += apart**2 * (d12 + d21 - d11 - d22) / 2
        total += b * gamma * data
    return total


@each_case("levels", [1, 2, 3])
def test_the_folded_energy_is_the_definition_up_to_a_constant(levels):
    images, partners = batch(3, (8, 8), 3), torch.tensor([2, 0, 1])
    cells = maps(3, (4, 4), 4)
    differences = border_differences(images, partners, (4, 4), 2, torch.ones(1))
    settings = {"levels": levels, "beta": 1.2, "gamma": 0.7, "eta": 0.2}
    unary, weights = mask_energy(cells, partners, differences, 0.3, **settings)
    assert float(weights.min()) >= 0
    rng = np.random.default_rng(0)
    for j in range(3):
        d11, d12, d21 = differences[:, j].numpy()
        d22 = differences[0, partners[j]].numpy()
        apart = []
        for _ in range(12):
            labels = rng.integers(levels + 1, size=(4, 4))
            expected = definition(
                labels / levels,
                cells[j].numpy(),
                cells[partners[j]].numpy(),
                [[d11, d12], [d21, d22]],
                0.3,
                **settings,
            )
            apart.append(energy(unary[j], weights[j], labels, (4, 4)) - expected)
        np.testing.assert_allclose(apart, apart[0], rtol=0, atol=1e-12)


def test_weights_are_never_negative():
    images, partners = batch(2, (4, 4)), torch.tensor([0, 1])
    checker = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(2, 2)
    images[0], images[1] = checker, 1 - checker  # either image differs from itself, not the other
    differences = border_differences(images, partners.flip(0), (4, 4), 1, torch.ones(1))
    settings = {"levels": 2, "beta": 1.6, "eta": 0.2}
    cells = maps(2, (4, 4), 0)
    _, weights = mask_energy(cells, partners.flip(0), differences, 0.5, gamma=1.0, **settings)
    assert_close(weights, torch.zeros_like(weights), rtol=0, atol=1e-12)
    _, weights = mask_energy(cells, partners.flip(0), differences, 0.5, gamma=4.0, **settings)
    assert float(weights.min()) == 0


# ---- Transport -----------------------------------------------------------------------------------


def transport_by_matrix(saliency, granted, eps):
    """The rounds as they are told: whole matrices, one image."""
    blocks = saliency.shape
    place = np.array(list(np.ndindex(*blocks)))
    n, g = len(place), max(blocks)
    apart = ((place[:, None] - place[None]) ** 2).sum(-1)
    cost = eps * apart / max(1, g - 1) ** 2 - saliency.ravel()[:, None] * granted.ravel()[None]
    for _ in range(g):
        choice = cost.argmin(1)
        winner = {}
        for j in range(n):
            best = winner.get(choice[j])
            if best is None or cost[j, choice[j]] < cost[best, choice[j]]:
                winner[choice[j]] = j
        for j in range(n):
            if winner[choice[j]] != j:
                cost[j, choice[j]] += 1
    return [winner.get(i, i) for i in range(n)]


@each_case("eps", [0.0, 0.05, 0.8])
@each_case("blocks", [(1, 1), (2, 2), (4, 4), (8, 8), (3, 6), (9,), (2, 3, 4)], ids=str)
def test_transport_is_as_told(blocks, eps):
    n = int(np.prod(blocks))
    moved = 0
    for seed in range(5):
        saliency = maps(3, blocks, seed, power=6).float()
        granted = torch.rand(3, *blocks, generator=generator(seed)) < (0.2, 0.5, 0.9)[seed % 3]
        found = transport(saliency, granted, eps).flatten(1)
        for j in range(3):
            expected = transport_by_matrix(saliency[j].double().numpy(), granted[j].numpy(), eps)
            assert found[j].tolist() == expected
        moved += int((found != torch.arange(n)).sum())
    assert n == 1 or moved > 0


@each_case("blocks", [(4,), (2, 3), (2, 1, 3)], ids=str)
def test_blocks_move_as_wholes(blocks):
    n, side = int(np.prod(blocks)), 2
    size = [side * c for c in blocks]
    images = torch.rand(2, 3, *size, generator=generator(0))
    block_at = torch.randint(n, (2, *blocks), generator=generator(1))
    moved = move_blocks(images, block_at)

    def block(image, place):
        return image[(slice(None), *(slice(side * c, side * c + side) for c in place))]

    for j in range(2):
        for place in np.ndindex(*blocks):
            origin = np.unravel_index(int(block_at[j][place]), blocks)
            assert_close(block(moved[j], place), block(images[j], origin))


def test_blocks_divide_cells():
    assert block_sides((32, 32), (4, 4), None) == (4, 4)
    assert block_sides((32, 32), (4, 4), 4) == (8, 8)
    assert block_sides((32, 32), (16, 16), 4) == (16, 16)
    with pytest.raises(ValueError, match=r"`t_size` must give at most 1048576 blocks per image"):
        block_sides((2048, 2048), (4, 4), 1)
    assert block_sides((224, 224), (16, 16), 4) == (32, 32)
    assert block_sides((30, 32), (4, 4), 4) is None
