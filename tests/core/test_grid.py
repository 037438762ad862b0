import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import oracle
from comixup.core.grid import cell_of_pixel, cell_weights, edges

GRIDS = [(1,), (7,), (1, 1), (1, 5), (4, 4), (3, 6), (2, 3, 4), (1, 2, 2), (4, 4, 4)]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_edges_are_all_pairs_one_step_apart(grid):
    found = sorted(tuple(sorted(pair)) for pair in edges(grid).tolist())
    assert found == sorted(oracle.neighbours(grid))


def test_seventeen_rows_on_four_cells_are_five_and_three_fours():
    assert torch.bincount(cell_of_pixel(17, 4)).tolist() == [5, 4, 4, 4]


@given(cells=st.integers(1, 8), extra=st.integers(0, 40))
def test_cells_cover_contiguous_pixels_of_nearly_equal_number(cells, extra):
    size = cells + extra
    cell = cell_of_pixel(size, cells)
    assert (cell.diff() >= 0).all()
    count = torch.bincount(cell, minlength=cells)
    assert count.shape == (cells,)
    assert int(count.sum()) == size
    assert {size // cells} <= set(count.tolist()) <= {size // cells, -(-size // cells)}


@pytest.mark.parametrize(
    ("size", "grid"), [((17,), (4,)), ((5, 9), (2, 4)), ((3, 4, 5), (3, 1, 2))]
)
def test_cell_weights_are_shares_of_pixels(size, grid):
    cells = [cell_of_pixel(side, count).tolist() for side, count in zip(size, grid, strict=True)]
    expected = torch.zeros(grid)
    for pixel in oracle.locations(size):
        expected[tuple(cells[axis][place] for axis, place in enumerate(pixel))] += 1
    assert_close(cell_weights(size, grid), expected / math.prod(size))
