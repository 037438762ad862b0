"""Pixels gathered cell by cell: exact, for every dtype, layout and size, and in little memory."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from batches import telling
from cases import each_case
from comixup import Labelling, _native
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


@OVER_SIZES
@each_case("levels", [1, 2, 3, 4])
@each_case(("m", "outputs"), [(3, 3), (2, 5), (5, 2), (1, 1)])
def test_every_pixel_comes_from_the_inputs_of_its_cell(size, grid, levels, m, outputs):
    images = telling(m, 2, size)
    sources = sources_for(m, outputs, levels, grid)
    expected = slow(images, sources)
    for way in (gather_cells, gather_pixels):
        answer = way(images, sources)
        assert answer.dtype == torch.float32
        if levels < 3:  # means that float32 holds exactly
            assert_close(answer.double(), expected, rtol=0, atol=0)
        else:
            assert_close(answer.double(), expected, rtol=1e-6, atol=0)


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
    return {
        3: torch.contiguous_format,
        4: torch.channels_last,
        5: torch.channels_last_3d,
    }[images.ndim]


DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@OVER_SIZES
@each_case("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_the_kernel_and_torch_agree_bit_for_bit(size, grid, layout):
    for dtype, levels in itertools.product(DTYPES, (1, 2, 4)):
        images = torch.rand(4, 3, *size, generator=generator(levels), dtype=torch.float64) - 0.5
        images = layout(images.to(dtype))
        sources = sources_for(4, 5, levels, grid, seed=levels)
        answer, other = gather_cells(images, sources), gather_pixels(images, sources)
        assert answer.dtype == dtype
        assert answer.shape == (5, 3, *size)
        assert_close(answer, other, rtol=0, atol=0)


@each_case("dtype", DTYPES, ids=str)
def test_thirds_of_three_inputs_agree_bit_for_bit(dtype):
    images = (torch.rand(4, 3, 8, 8, generator=generator(0), dtype=torch.float64) - 0.5).to(dtype)
    order = torch.rand(5, 4, 2, 2, generator=generator(1)).argsort(1)
    sources = order[:, :3]  # no input twice in a cell
    assert_close(gather_cells(images, sources), gather_pixels(images, sources), rtol=0, atol=0)


@each_case("dtype", [torch.float32, torch.float64], ids=str)
def test_a_cell_of_one_input_three_times_is_that_input(dtype):
    images = (torch.rand(4, 3, 8, 8, generator=generator(0), dtype=torch.float64) - 0.5).to(dtype)
    sources = sources_for(4, 5, 1, (2, 2)).repeat(1, 3, 1, 1)
    expected = gather_cells(images, sources[:, :1])
    assert_close(gather_cells(images, sources), expected, rtol=0, atol=0)
    assert_close(gather_pixels(images, sources), expected, rtol=0, atol=0)


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


@each_case("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
def test_sources_of_any_integer_type(dtype):
    images, sources = telling(4, 1, (5, 6)), sources_for(4, 4, 2, (2, 3))
    assert_close(gather_cells(images, sources.to(dtype)), gather_cells(images, sources))


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


@each_case("size", [(6, 6), (4, 6, 6)], ids=str)
@each_case(
    ("dtype", "grad", "levels"),
    [
        (torch.float32, False, 1),
        (torch.float32, False, 2),
        (torch.bfloat16, False, 2),
        (torch.float16, False, 1),
        (torch.float16, False, 2),
        (torch.float32, True, 1),
        (torch.float32, True, 2),
    ],
    ids=str,
)
def test_channels_last_stays_channels_last(dtype, grad, levels, size):
    images = torch.rand(4, 3, *size).to(dtype)
    format_ = last_format(images)
    images = images.to(memory_format=format_).requires_grad_(grad)
    answer = gather_cells(images, sources_for(4, 4, levels, [2] * len(size)))
    assert answer.is_contiguous(memory_format=format_)
    assert not answer.is_contiguous()


@each_case("levels", [1, 2, 3])
def test_gradients_flow_to_the_inputs_of_each_cell(levels):
    images = torch.rand(3, 2, 5, 7, dtype=torch.float64, requires_grad=True)
    z = Labelling(sources_for(3, 4, levels, (2, 3)), 3)
    assert torch.autograd.gradcheck(z.mix_images, (images,))
    (gradient,) = torch.autograd.grad(z.mix_images(images).sum(), images)
    assert_close(gradient.sum(), torch.tensor(4 * 2 * 5 * 7.0).double())


def test_without_gradients_the_answer_needs_none():
    images = torch.rand(3, 2, 5, 7, requires_grad=True)
    with torch.no_grad():
        answer = gather_cells(images, sources_for(3, 4, 2, (2, 3)))
    assert not answer.requires_grad
    assert_close(answer, gather_pixels(images.detach(), sources_for(3, 4, 2, (2, 3))))


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


class Largest(TorchDispatchMode):
    """Records the storage behind every tensor that an operation returns."""

    def __init__(self, given):
        super().__init__()
        self.given = {t.untyped_storage().data_ptr() for t in given}
        self.sizes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                storage = leaf.untyped_storage()
                if storage.data_ptr() not in self.given:
                    self.sizes.append(storage.nbytes())
        return out


@each_case("levels", [1, 2, 3])
@each_case(("way", "most"), [(gather_cells, 1.05), (gather_pixels, 1.0)], ids=["kernel", "torch"])
def test_no_tensor_pairs_inputs_with_outputs(way, most, levels):
    images, sources = torch.rand(40, 3, 32, 32), sources_for(40, 40, levels, (4, 4))
    whole = images.untyped_storage().nbytes()
    with Largest([images, sources]) as seen:
        way(images, sources)
    assert max(seen.sizes) <= most * whole
    assert max(seen.sizes) >= whole  # the recording works


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


def blocks():
    return {
        "images": np.zeros((2, 8)),
        "sources": np.zeros((3, 2, 4), dtype=np.int64),
        "row_cell": np.array([0, 2]),
        "column_begin": np.array([0, 2, 4]),
        "threads": 1,
        "out": np.zeros((3, 8)),
    }


@each_case(
    ("change", "message"),
    [
        ({"sources": np.full((3, 2, 4), 2)}, "sources must be inputs"),
        ({"sources": np.full((3, 2, 4), -1)}, "sources must be inputs"),
        ({"sources": np.full((3, 2, 4), 2**63 - 1)}, "sources must be inputs"),
        ({"sources": np.zeros((2, 2, 4), dtype=np.int64)}, "sources must be"),
        ({"row_cell": np.array([0, 3])}, "row_cell must be cells"),
        ({"row_cell": np.array([0, -1])}, "row_cell must be cells"),
        ({"row_cell": np.array([0, 2**63 - 1])}, "row_cell must be cells"),
        ({"row_cell": np.array([0, 1, 2])}, "rows must make up an image"),
        ({"row_cell": np.zeros(0, dtype=np.int64)}, "rows must make up an image"),
        ({"column_begin": np.array([0, 4, 2])}, "column_begin must rise"),
        ({"column_begin": np.array([-1, 2, 4])}, "column_begin must rise"),
        ({"column_begin": np.array([1, 2, 4])}, "rows must make up an image"),
        # 2^61 eight-byte numbers, and again as many: their bytes add up to 0.
        ({"column_begin": np.array([0, 2**61, 2**62])}, "column_begin must rise"),
        ({"threads": 0}, "threads must be from 1 to 1024"),
        ({"out": np.zeros((3, 9))}, "images"),
        ({"out": np.zeros((3, 8), dtype=np.float32)}, "out must have the images' dtype"),
        ({"images": np.zeros((2, 8), np.float16), "out": np.zeros((3, 8), np.float16)}, "float32"),
    ],
)
def test_the_kernel_rejects_what_does_not_fit(change, message):
    _native.mix_blocks(**blocks())
    with pytest.raises(ValueError, match=message):
        _native.mix_blocks(**blocks() | change)


def test_images_are_not_written_over():
    memory = np.arange(40.0)
    images, out = memory[:16].reshape(2, 8), memory[8:32].reshape(3, 8)
    with pytest.raises(ValueError, match="out must not share memory with the images"):
        _native.mix_blocks(**blocks() | {"images": images, "out": out})
    _native.mix_blocks(**blocks() | {"images": images, "out": memory[16:].reshape(3, 8)})


def test_sources_changed_after_they_were_checked_are_rejected():
    z = Labelling(sources_for(3, 4, 2, (2, 3)), 3)
    z.sources[0, 0, 0, 0] = 10**9
    with pytest.raises(ValueError, match="sources must be inputs"):
        z.mix_images(torch.rand(3, 2, 5, 7))
