import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

import oracle
from cases import each_case
from comixup import Labelling
from problems import generator


def random_labelling(m, outputs, levels, grid, seed):
    shape = (outputs, levels, *grid)
    return Labelling(torch.randint(m, shape, generator=generator(seed)), num_inputs=m)


labellings = st.builds(
    random_labelling,
    m=st.integers(1, 6),
    outputs=st.integers(1, 5),
    levels=st.integers(1, 4),
    grid=st.sampled_from([(1,), (5,), (2, 3), (4, 4), (2, 2, 3)]),
    seed=st.integers(0, 2**32),
)


@given(labellings)
def test_masks_are_the_mean_of_the_one_hot_sources(z):
    one_hot = torch.nn.functional.one_hot(z.sources, z.num_inputs).float()
    assert_close(z.masks, one_hot.mean(1).movedim(-1, 1))


@given(labellings)
def test_counts_are_the_masks_summed_over_locations(z):
    assert_close(z.source_counts, z.masks.flatten(2).sum(2))
    assert_close(z.source_ratio(), z.masks.flatten(2).mean(2))


@given(labellings, st.integers(0, 9))
def test_source_ratio_weighs_cells_by_the_pixels_they_cover(z, extra):
    size = tuple(side + extra + axis for axis, side in enumerate(z.grid))
    ratio = z.source_ratio(size)
    assert_close(ratio.sum(1), torch.ones(z.num_outputs))
    expected = torch.zeros(z.num_outputs, z.num_inputs)
    for pixel in oracle.locations(size):
        cell = [p * cells // side for p, cells, side in zip(pixel, z.grid, size, strict=True)]
        expected += z.masks[(slice(None), slice(None), *cell)]
    assert_close(ratio, expected / torch.tensor(size).prod(), atol=1e-5, rtol=0)


def test_a_new_labelling_has_no_values_and_moves_between_devices_unchanged():
    z = Labelling(torch.zeros(2, 1, 3, dtype=torch.long), num_inputs=2)
    assert z.objective_values.shape == (0, 0)
    moved = z.to("cpu")
    assert_close(moved.sources, z.sources)
    assert moved.num_inputs == 2


INTEGERS = {"dtype": torch.long}
BAD = [
    (torch.zeros(1, 1, 2), TypeError, r"`sources` must be a tensor of integers.*float32"),
    ([[[0]]], TypeError, "`sources` must be a tensor of integers, got list"),
    (torch.zeros(2, 2, **INTEGERS), ValueError, r"`sources` must have shape .*\(2, 2\)"),
    (torch.zeros((1,) * 6, **INTEGERS), ValueError, "grid of 1 to 3 dimensions"),
    (torch.zeros(1, 0, 2, **INTEGERS), ValueError, "no empty side"),
    (torch.tensor([[[0, 2]]]), ValueError, r"must lie in 0\.\.1 .* got values from 0 to 2"),
    (torch.tensor([[[-1, 0]]]), ValueError, "got values from -1 to 0"),
]


@each_case(("sources", "error", "message"), BAD, ids=lambda case: case[2])
def test_sources_that_mean_nothing_are_rejected(sources, error, message):
    with pytest.raises(error, match=message):
        Labelling(sources, num_inputs=2)
