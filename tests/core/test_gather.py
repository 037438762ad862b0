"""Pixels gathered cell by cell: exact, for every dtype, layout and size, and in little memory."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from batches import telling
from cases import each_case
from comixup import Labelling
from comixup.core.gather import gather_cells, gather_pixels
from comixup.core.grid import cell_of_pixel
from problems import generator

SIZES = {
    "line": ((11,), (4,)),
    "square": ((8, 8), (4, 4)),
    "not a multiple": ((17, 9), (4, 4)),
    "one pixel": ((1, 1), (1, 1)),
    "tiny": ((3, 5), (3, 4)),
    "one cell": ((6, 5), (1, 1)),
    "volume": ((5, 4, 7), (2, 4, 3)),
}
OVER_SIZES = pytest.mark.parametrize(("size", "grid"), SIZES.values(), ids=SIZES.keys())


def sources_for(m, outputs, levels, grid, seed=0):
    return torch.randint(m, (outputs, levels, *grid), generator=generator(seed))


def slow(images, sources):
    """The definition, pixel by pixel, in double precision."""
    size, grid = images.shape[2:], sources.shape[2:]
    cells = [cell_of_pixel(p, c).tolist() for p, c in zip(size, grid, strict=True)]
    out = torch.zeros(len(sources), *images.shape[1:], dtype=torch.float64)
    for j in range(len(sources)):
        for place in itertools.product(*map(range, size)):
            cell = tuple(cells[axis][p] for axis, p in enumerate(place))
            who = sources[(j, slice(None), *cell)].tolist()
            here = [images[(i, slice(None), *place)].double() for i in who]
            out[(j, slice(None), *place)] = sum(here) / len(here)
    return out


LAYOUTS = {
    "contiguous": lambda x: x.contiguous(),
    "channels last": lambda x: x.to(memory_format=last_format(x)),
    "a slice": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
    "every other": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
    "channels sliced": lambda x: torch.cat([x, x], 1)[:, : x.shape[1]],
    "expanded": lambda x: x[:1].expand(x.shape),
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "spatial axes swapped": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
}


def last_format(images):
    return {3: torch.contiguous_format, 4: torch.channels_last, 5: torch.channels_last_3d}[
        images.ndim
    ]


DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@OVER_SIZES
@each_case("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_the_kernel_and_torch_agree_bit_for_bit(size, grid, layout):
    for dtype, levels in itertools.product(DTYPES, (1, 2, 3)):
        images = torch.rand(4, 3, *size, generator=generator(levels), dtype=torch.float64) - 0.5
        images = layout(images.to(dtype))
        sources = sources_for(4, 5, levels, grid, seed=levels)
        answer, other = gather_cells(images, sources), gather_pixels(images, sources)
        assert answer.dtype == dtype
        assert answer.shape == (5, 3, *size)
        assert_close(answer, other, rtol=0, atol=0)


@each_case(
    "dtype",
    [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64],
    ids=str,
)
@each_case("layout", ["contiguous", "channels last"])
def test_one_level_copies_any_dtype(dtype, layout):
    images = LAYOUTS[layout]((telling(4, 3, (5, 6)) % 120).to(dtype))
    sources = sources_for(4, 4, 1, (2, 3))
    assert_close(gather_cells(images, sources), gather_pixels(images, sources), rtol=0, atol=0)


@settings(max_examples=12)
@given(
    st.integers(1, 4),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5)), min_size=1, max_size=3),
    st.booleans(),
)
def test_any_shape(m, outputs, levels, channels, sides, last):
    size, grid = [s for s, _ in sides], [min(s, c) for s, c in sides]
    images = telling(m, channels, size, torch.float64)
    images = images.to(memory_format=last_format(images)) if last else images
    sources = sources_for(m, outputs, levels, grid, seed=levels)
    assert_close(gather_cells(images, sources), slow(images, sources))


@each_case("levels", [1, 2, 3])
def test_gradients_flow_to_the_inputs_of_each_cell(levels):
    images = torch.rand(3, 2, 5, 7, dtype=torch.float64, requires_grad=True)
    z = Labelling(sources_for(3, 4, levels, (2, 3)), 3)
    assert torch.autograd.gradcheck(z.mix_images, (images,))
    (gradient,) = torch.autograd.grad(z.mix_images(images).sum(), images)
    assert_close(gradient.sum(), torch.tensor(4 * 2 * 5 * 7.0).double())


@each_case("threads", [1, 2])
def test_the_number_of_threads_changes_nothing(threads):
    images, sources = torch.rand(9, 3, 33, 31), sources_for(9, 9, 2, (4, 4))
    expected = gather_pixels(images, sources)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert_close(gather_cells(images, sources), expected, rtol=0, atol=0)
    finally:
        torch.set_num_threads(before)


@each_case("levels", [1, 2, 3])
@each_case(("way", "most"), [(gather_cells, 1.05), (gather_pixels, 2.5)], ids=["kernel", "torch"])
def test_memory_alive_at_once_is_a_few_batches(way, most, levels):
    images, sources = torch.rand(40, 3, 32, 32), sources_for(40, 40, levels, (4, 4))
    whole = images.untyped_storage().nbytes()
    peak = peak_of_memory(lambda: way(images, sources))
    assert whole <= peak <= most * whole


def peak_of_memory(action):
    """The most bytes that torch's allocator holds at a time during an action, beyond before."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        action()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    assert events
    alive = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    return peak


@pytest.mark.parametrize("grad", [False, True])
def test_runs_of_outputs_make_the_same_images(monkeypatch, grad):
    images = torch.rand(6, 3, 8, 8, generator=generator(1)).requires_grad_(grad)
    sources = sources_for(6, 7, 2, (4, 4))
    whole = gather_pixels(images, sources)
    monkeypatch.setattr("comixup.core.gather.RUN_ELEMENTS", 2 * images[0].numel())
    assert_close(gather_pixels(images, sources), whole, rtol=0, atol=0)


# ---- What the kernel rejects ---------------------------------------------------------------------


def test_sources_changed_after_they_were_checked_are_rejected():
    z = Labelling(sources_for(3, 4, 2, (2, 3)), 3)
    z.sources[0, 0, 0, 0] = 10**9
    with pytest.raises(ValueError, match="sources must be inputs"):
        z.mix_images(torch.rand(3, 2, 5, 7))
