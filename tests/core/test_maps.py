"""From saliency maps to cells and places."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from comixup.core.maps import (
    grid_sides,
    location_distances,
    pool,
    salient_locations,
    summarize_maps,
)
from problems import generator
from rejections import rejects


def slow_pool(maps, sides):
    """Means over cells of floor to ceil, as adaptive pooling defines them, by loops."""
    out = torch.empty(len(maps), *sides, dtype=maps.dtype)
    for index in torch.cartesian_prod(*[torch.arange(s) for s in sides]).view(-1, len(sides)):
        place = tuple(
            slice(int(i) * n // s, -(-(int(i) + 1) * n // s))
            for i, n, s in zip(index, maps.shape[1:], sides, strict=True)
        )
        out[(slice(None), *index.tolist())] = maps[(slice(None), *place)].flatten(1).mean(1)
    return out


POOLS = [((16,), (4,)), ((17,), (4,)), ((8, 12), (4, 4)), ((17, 9), (4, 4)), ((3, 5), (3, 4))]
POOLS += [((4, 6, 8), (2, 3, 4)), ((5, 7, 6), (4, 4, 4)), ((1, 1), (1, 1))]


@pytest.mark.parametrize(("size", "sides"), POOLS, ids=str)
def test_pool_is_the_mean_over_each_cell(size, sides):
    maps = torch.rand(3, *size, generator=generator(0))
    assert_close(pool(maps, sides), slow_pool(maps, sides))
    flipped = maps.transpose(0, -1).contiguous().transpose(0, -1)
    assert_close(pool(flipped, sides), slow_pool(maps, sides))


@pytest.mark.parametrize(
    ("grid", "size", "sides"),
    [
        (4, (32, 32), (4, 4)),
        (4, (3, 5), (3, 4)),
        (4, (1, 1), (1, 1)),
        ((2, 8), (32, 4), (2, 4)),
        ([3], (9,), (3,)),
        (4, (2, 9, 9), (2, 4, 4)),
    ],
)
def test_a_grid_has_at_most_a_cell_per_pixel(grid, size, sides):
    assert grid_sides(grid, size) == sides


@pytest.mark.parametrize("grid", [0, -1, True, 2.5, (4,), (4, 4, 4), (4, 0), ()], ids=str)
def test_bad_grids_are_rejected(grid):
    with rejects(ValueError, r"`grid` must be a positive integer, or one per spatial side"):
        grid_sides(grid, (8, 8))


def test_a_grid_of_absurd_size_is_rejected():
    with rejects(ValueError, r"`grid` must have at most 1048576 locations, got 5000, .* coarser"):
        grid_sides(5000, (4000, 6000))
    assert grid_sides(5000, (1000, 6)) == (1000, 6)


@pytest.mark.parametrize("size", [(40,), (20, 30), (5, 40), (12, 11, 10), (1, 1), (3, 8)], ids=str)
def test_the_salient_place_is_the_best_window_of_eight_pixels(size):
    maps = torch.rand(4, *size, generator=generator(1), dtype=torch.float64)
    windows = maps
    for axis in range(1, maps.ndim):
        windows = windows.unfold(axis, min(8, size[axis - 1]), 1)
    sums = windows.flatten(len(size) + 1).sum(-1)
    best = torch.stack(torch.unravel_index(sums.flatten(1).argmax(1), sums.shape[1:]), 1)
    assert_close(salient_locations(maps), best)


def test_one_hot_pixel_does_not_decide():
    maps = torch.zeros(1, 32, 32)
    maps[0, 2, 2] = 5.0
    maps[0, 20:28, 16:24] = 1.0
    assert salient_locations(maps).tolist() == [[20, 16]]


def test_distances_are_l1_and_sum_to_the_number_of_inputs():
    places = np.array([[0.0, 0.0], [1.0, 2.0], [4.0, 4.0]])
    apart = np.array([[0.0, 3, 8], [3, 0, 5], [8, 5, 0]])
    np.testing.assert_allclose(location_distances(places), apart * 3 / apart.sum())


@pytest.mark.parametrize("m", [1, 4])
def test_distances_of_one_place_are_zero(m):
    np.testing.assert_array_equal(location_distances(np.full((m, 2), 3.0)), np.zeros((m, m)))


@pytest.mark.parametrize(
    ("size", "sides"),
    [
        ((40,), (4,)),
        ((32, 32), (4, 4)),
        ((12, 20), (4, 2)),
        ((8, 4, 12), (2, 4, 3)),
        ((5, 5), (1, 5)),
    ],
    ids=str,
)
def test_the_kernel_summarizes_maps_as_torch_does(size, sides):
    saliency = torch.rand(7, *size, generator=generator(3)) ** 3
    # Double precision takes the torch path; numbers that both hold exactly.
    saliency = (saliency * 2**12).round() / 2**12
    expected = summarize_maps(saliency.double(), sides)
    np.testing.assert_allclose(summarize_maps(saliency, sides), expected, rtol=1e-6)
    np.testing.assert_array_equal(
        summarize_maps(saliency, sides)[:, -len(size) :], expected[:, -len(size) :]
    )


def test_of_equally_salient_places_the_first_is_taken():
    saliency = torch.zeros(1, 32, 32)
    saliency[0, 12, 20], saliency[0, 24, 4] = 1, 1
    for dtype in (torch.float32, torch.float64):  # by the kernel, and by torch
        assert summarize_maps(saliency.to(dtype), (4, 4))[0, -2:].tolist() == [5, 13]


@pytest.mark.parametrize("value", [float("nan"), float("inf")], ids=str)
def test_the_kernel_tells_maps_that_are_not_numbers(value):
    saliency = torch.rand(3, 8, 8)
    saliency[1, 7, 7] = value
    numbers = summarize_maps(saliency, (4, 4))
    np.testing.assert_array_equal(np.isfinite(numbers[:, 1]), [True, False, True])
    assert np.isfinite(numbers[0]).all()
    assert np.isfinite(numbers[2]).all()
