"""The kernel on arbitrary arguments: a result within its range, or an exception; never a crash.

Each case starts from valid arguments and corrupts some. `make sanitize` runs the same cases under
the address and undefined-behaviour sanitizers.
"""

import copy
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from comixup import CoMixup, PuzzleMix, _native
from comixup.core.grid import edges

NAN, INF = math.nan, math.inf
FLOATS = [NAN, INF, -INF, 1e300, -1e300, 1e-300, 5e-324, -0.0, -1.0, 1e30, 1e33, 1e-45, 3e38, 1e100]
INTEGERS = [-1, 0, 1, 2, 7, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
COUNTS = [-1, 0, 1, 2, 17, 1025, -(2**31), 2**31, 2**63, 10**30]
SIDES = [-1, 0, 1, 2, 3, 1025, 2**16, 2**20 + 1, 2**31 - 1, 2**31, 2**63]
GRIDS = [(1,), (5,), (2, 3), (4, 4), (4, 5), (8, 8), (2, 3, 2), (3, 3, 3)]
EXPECTED = (ValueError, TypeError, OverflowError, MemoryError)


# ---- Valid arguments -----------------------------------------------------------------------------


def energies(rng, shape):
    """Numbers of one size, from the smallest that there is to beyond what is accepted."""
    size = 10.0 ** rng.integers(-324, 102) if rng.random() < 0.3 else 10.0 ** rng.integers(-3, 3)
    return rng.random(shape) * size


def solve_arguments(rng):
    grid, levels, sweeps = GRIDS[rng.integers(len(GRIDS))], rng.integers(1, 4), rng.integers(1, 5)
    n, problems = math.prod(grid), rng.integers(1, 3)
    inputs, outputs = rng.integers(1, 6, problems), rng.integers(1, 5, problems)
    starts = rng.integers(1, 3)
    return {
        "costs": [energies(rng, (m, n)) for m in inputs],
        "compatibilities": [energies(rng, (m, m)) for m in inputs],
        "weights": [
            (
                *energies(rng, 3).tolist(),
                str(rng.choice(["soft", "hard", "none"])),
                float(energies(rng, ())),
                str(rng.choice(["squared", "inner", "official"])),
            )
            for _ in inputs
        ],
        "starts": [
            rng.integers(m, size=(starts, m_out, n), dtype=np.int32)
            for m, m_out in zip(inputs, outputs, strict=True)
        ],
        "grid": list(grid),
        "sweeps": int(sweeps),
        "levels": int(levels),
        "resolve": bool(rng.integers(2)),
        "threads": int(rng.integers(1, 4)),
        "sources": np.zeros((outputs.sum(), levels, *grid), dtype=np.int64),
        "objective_values": np.zeros((problems, sweeps)),
    }


def minimize_arguments(rng):
    grid, labels = GRIDS[rng.integers(len(GRIDS))], rng.integers(1, 20)
    n = math.prod(grid)
    pairwise = energies(rng, (labels, labels))
    return {
        "unary": energies(rng, (labels, n)),
        "pairwise": pairwise + pairwise.T,
        "grid": list(grid),
        "start": rng.integers(labels, size=n, dtype=np.int32),
        "labels": np.zeros(n, dtype=np.int32),
    }


def narasimhan_bilmes_arguments(rng):
    grid, m, outputs = GRIDS[rng.integers(len(GRIDS))], rng.integers(1, 6), rng.integers(1, 5)
    n = math.prod(grid)
    return {
        "cost": energies(rng, (m, n)),
        "compatibility": energies(rng, (m, m)),
        "beta": float(energies(rng, ())),
        "gamma": float(energies(rng, ())),
        "total_clip": float(rng.choice([-INF, 0.0, 3.0])),
        "start": rng.integers(m, size=(outputs, n), dtype=np.int32),
        "grid": list(grid),
        "iterations": int(rng.integers(1, 5)),
        "seed": int(rng.integers(2**62)),
        "labels": np.zeros((outputs, n), dtype=np.int32),
    }


def puzzle_masks_arguments(rng):
    grid = [*GRIDS, (16, 16), (17, 17)][rng.integers(len(GRIDS) + 2)]
    m, levels, n = rng.integers(1, 3), rng.integers(1, 4), math.prod(grid)
    slopes = energies(rng, (m, levels, n)) * rng.choice([-1, 1], (m, levels, n))
    if n > 64 or rng.random() < 0.8:
        slopes = np.sort(slopes, axis=1)  # convex
    return {
        "unary": np.concatenate([np.zeros((m, 1, n)), slopes.cumsum(1)], 1),
        "weights": energies(rng, (m, len(edges(grid)))),
        "grid": list(grid),
        "threads": int(rng.integers(1, 4)),
        "labels": np.zeros((m, n), dtype=np.int32),
    }


def puzzle_transport_arguments(rng):
    grid, m = GRIDS[rng.integers(len(GRIDS))], rng.integers(1, 4)
    n = math.prod(grid)
    return {
        "saliency": (energies(rng, (m, n)) % 1e38).astype(np.float32),
        "granted": rng.integers(2, size=(m, n), dtype=np.uint8),
        "grid": list(grid),
        "eps": float(energies(rng, ())),
        "threads": int(rng.integers(1, 4)),
        "block_at": np.zeros((m, n), dtype=np.int32),
    }


def summarize_maps_arguments(rng):
    grid, block, m = rng.integers(1, 4, 3), rng.integers(1, 5, 3), rng.integers(1, 4)
    size = grid * block
    return {
        "maps": (energies(rng, (m, *size)) % 1e38).astype(np.float32),
        "grid": grid.tolist(),
        "window": [int(rng.integers(1, side + 1)) for side in size],
        "threads": int(rng.integers(1, 4)),
        "out": np.zeros((m, 2 + grid.prod() + 3)),
    }


def mix_blocks_arguments(rng):
    m, outputs, levels = rng.integers(1, 5), rng.integers(1, 5), rng.integers(1, 4)
    rows, columns, block = rng.integers(1, 4), rng.integers(1, 4), rng.integers(1, 40)
    dtype = rng.choice([np.float32, np.float64])
    elements = rows * columns * block
    return {
        "images": rng.random((m, elements)).astype(dtype),
        "sources": rng.integers(m, size=(outputs, levels, rows * columns)),
        "row_cell": np.arange(rows) * columns,
        "column_begin": np.arange(columns + 1) * block,
        "threads": int(rng.integers(1, 4)),
        "out": np.zeros((outputs, elements), dtype=dtype),
    }


def read_maps_arguments(rng):
    examples, cells, m, pixels = rng.integers(1, [6, 9, 5, 40])
    return {
        "maps": rng.integers(256, size=(examples, cells), dtype=np.uint8),
        "rows": rng.integers(examples, size=m),
        "numbers": rng.integers(cells + 1, size=(m, pixels), dtype=np.uint8),
        "out": np.zeros((m, pixels), dtype=np.float32),
    }


def write_maps_arguments(rng):
    arguments = read_maps_arguments(rng)
    m, pixels = arguments.pop("out").shape
    return arguments | {
        "gradients": rng.normal(size=(m, rng.integers(1, 4), pixels)).astype(np.float32),
        "channels_last": False,
        "momentum": float(rng.random()),
        "threads": int(rng.integers(1, 4)),
        "next": np.zeros_like(arguments["maps"]),
    }


def within(values, low, high):
    return bool(((values >= low) & (values < high)).all())


def mixed_pixel_by_pixel(given):
    """What `mix_blocks` is to write: the running mean of each pixel's inputs, level by level."""
    images, begins = np.asarray(given["images"]), np.asarray(given["column_begin"], dtype=np.int64)
    sources = np.asarray(given["sources"], dtype=np.int64)
    row_cell = np.asarray(given["row_cell"], dtype=np.int64)
    out = np.array(given["out"])
    if out.size == 0:
        return out
    pixel = np.arange(images.shape[1])
    row, x = np.divmod(pixel, begins[-1])
    cell = row_cell[row] + np.searchsorted(begins, x, side="right") - 1
    for mixed, levels in zip(out, sources, strict=True):
        mixed[:] = images[levels[0, cell], pixel]
        for number, level in enumerate(levels[1:], 2):
            share = images.dtype.type(1 / number)
            mean = mixed + (images[level[cell], pixel] - mixed) * share
            pure = (levels[:, cell] == levels[0, cell]).all(0)  # copied, NaN and infinity too
            mixed[:] = np.where(pure, mixed, mean)
    return out


def keeps_top_of_maps(given, written):
    """Whether rows that were written hold a map, whose top is 255, or nothing; others are kept."""
    before, after = np.asarray(given["next"]), np.asarray(written["next"])
    rows = np.unique(np.asarray(given["rows"], dtype=np.int64))
    others = np.setdiff1d(np.arange(len(after)), rows)
    fresh = after[rows].max(1)
    same = (after[rows] == before[rows]).all(1)
    return (after[others] == before[others]).all() and ((fresh == 255) | same).all()


KERNELS = {
    "solve": (
        solve_arguments,
        lambda given, a: (
            within(a["sources"], 0, sum(map(len, a["costs"])))
            and np.isfinite(a["objective_values"]).all()
        ),
    ),
    "minimize": (minimize_arguments, lambda given, a: within(a["labels"], 0, len(a["unary"]))),
    "narasimhan_bilmes": (
        narasimhan_bilmes_arguments,
        lambda given, a: within(a["labels"], 0, len(a["cost"])),
    ),
    "puzzle_masks": (
        puzzle_masks_arguments,
        lambda given, a: within(a["labels"], 0, a["unary"].shape[1]),
    ),
    "puzzle_transport": (
        puzzle_transport_arguments,
        lambda given, a: within(a["block_at"], 0, a["saliency"].shape[1]),
    ),
    "summarize_maps": (
        summarize_maps_arguments,
        lambda given, a: within(a["out"][:, -3:], 0, np.array(a["maps"].shape[1:])),
    ),
    "mix_blocks": (
        mix_blocks_arguments,
        lambda given, a: np.array_equal(a["out"], mixed_pixel_by_pixel(given), equal_nan=True),
    ),
    "read_maps": (read_maps_arguments, lambda given, a: within(a["out"], 0, 256)),
    "write_maps": (write_maps_arguments, keeps_top_of_maps),
}
WRITTEN = {
    "solve": ("sources", "objective_values"),
    "minimize": ("labels",),
    "narasimhan_bilmes": ("labels",),
    "puzzle_masks": ("labels",),
    "puzzle_transport": ("block_at",),
    "write_maps": ("next",),
} | dict.fromkeys(("summarize_maps", "mix_blocks", "read_maps"), ("out",))
"""The arguments that a call writes to."""


# ---- Corruption ----------------------------------------------------------------------------------


def corrupted(rng, value):
    """Returns something like `value` that may not be valid any more."""
    one_of = lambda values: values[rng.integers(len(values))]  # noqa: E731
    if isinstance(value, np.ndarray):
        return corrupted_array(rng, value)
    if isinstance(value, (list, tuple)):
        if len(value) == 0 or rng.random() < 0.2:
            return one_of([value[1:], value + value])
        changed, at = list(value), rng.integers(len(value))
        of_grid = all(isinstance(v, int) for v in value)
        changed[at] = one_of(SIDES) if of_grid else corrupted(rng, value[at])
        return type(value)(changed)
    for kind, values in ((bool, [True, False]), (int, COUNTS), (float, FLOATS)):
        if isinstance(value, kind):
            return one_of(values)
    return "no such word"


def corrupted_array(rng, array):
    kind = rng.integers(6)
    if kind == 0 and array.ndim > 0:  # another shape
        axis = rng.integers(array.ndim)
        shapes = [
            lambda: np.moveaxis(np.moveaxis(array, axis, 0)[1:], 0, axis),
            lambda: np.concatenate([array, array], axis),
            lambda: array[..., None],
            array.ravel,
            lambda: array.T,
            lambda: array[:0],
        ]
        return shapes[rng.integers(len(shapes))]()
    if kind == 1:  # another type
        return array.astype(rng.choice([np.float32, np.float64, np.int32, np.int64, np.uint8]))
    array = array.copy()
    if array.size == 0:
        return array
    flat = array.reshape(-1)
    places = rng.integers(flat.size, size=rng.integers(1, 4))
    if array.dtype.kind == "f" and kind == 2:  # any bits
        bits = rng.integers(2**63, size=len(places), dtype=np.int64) * rng.choice([-1, 1])
        values = bits.view(np.float64)
    elif array.dtype.kind == "f":
        values = rng.choice(FLOATS, len(places))
    else:
        values = np.array([INTEGERS[i] for i in rng.integers(len(INTEGERS), size=len(places))])
    with np.errstate(all="ignore"):
        flat[places] = values.astype(array.dtype)
    return array


def fuzz(name, cases, seed):
    """Returns how many calls came to a result, and how many were rejected."""
    make, is_valid = KERNELS[name]
    rng = np.random.default_rng(seed)
    done = rejected = 0
    for case in range(cases):
        arguments = make(rng)
        with np.errstate(all="ignore"):
            for _ in range(rng.integers(0, 3)):
                key = list(arguments)[rng.integers(len(arguments))]
                arguments[key] = corrupted(rng, arguments[key])
            if rng.random() < 0.05:  # one array in place of another
                key, other = rng.choice(list(arguments), 2)
                arguments[key] = arguments[other]
        if isinstance(arguments.get("iterations"), int):
            arguments["iterations"] = min(arguments["iterations"], 1000)
        given = {key: copy.deepcopy(value) for key, value in arguments.items()}
        try:
            getattr(_native, name)(**arguments)
        except EXPECTED:
            rejected += 1
        else:
            done += 1
            with np.errstate(all="ignore"):
                assert is_valid(given, arguments), (case, given, arguments)
    return done, rejected


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_rejects_what_it_cannot_compute(name):
    done, rejected = fuzz(name, 500, seed=0)
    assert min(done, rejected) > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_rejects_what_it_cannot_compute_in_many_cases(name):
    done, rejected = fuzz(name, 60_000, seed=1)
    assert min(done, rejected) > 1000


# ---- The same numbers in other memory ------------------------------------------------------------


def layouts(array):
    """The array's numbers in memory of other kinds, some of which a view describes."""
    back = (slice(None, None, -1),) * array.ndim
    wide = np.zeros([2 * side for side in array.shape], array.dtype)
    spread = wide[(slice(None, None, 2),) * array.ndim]
    spread[...] = array
    fixed = array.copy()
    fixed.setflags(write=False)
    yield "negative strides", array[back].copy()[back]
    yield "every other element", spread
    yield "Fortran order", np.asfortranarray(array)
    yield "read-only", fixed
    yield "another byte order", array.astype(array.dtype.newbyteorder())
    yield "tensor", torch.from_numpy(array.copy())
    if array.size:
        first = array.ravel()[:1].reshape([1] * array.ndim)
        yield "zero strides", np.broadcast_to(first, array.shape)
    for axis in range(array.ndim):
        yield "empty", array.take([], axis)


def called(name, arguments, key, value):
    """What a call with another value of one argument writes; None if it is rejected."""
    fresh = {k: v.copy() if k in WRITTEN[name] else v for k, v in arguments.items()} | {key: value}
    try:
        getattr(_native, name)(**fresh)
    except EXPECTED:
        return None
    return [np.asarray(fresh[k]) for k in WRITTEN[name]]


@pytest.mark.parametrize("name", KERNELS)
def test_strides_and_flags_change_nothing_or_are_rejected(name):
    rng, compared, rejected = np.random.default_rng(5), 0, 0
    for _ in range(4):
        arguments = KERNELS[name][0](rng)
        for key, value in arguments.items():
            listed = isinstance(value, list) and isinstance(value[0], np.ndarray)
            array = value[0] if listed else value
            if not isinstance(array, np.ndarray):
                continue
            for kind, other in layouts(array):
                results = called(name, arguments, key, [other, *value[1:]] if listed else other)
                if results is None:
                    rejected += 1
                    continue
                if key in WRITTEN[name] and kind != "tensor":  # it must be the memory given
                    assert other.flags.c_contiguous, (kind, key)
                    assert other.flags.writeable, (kind, key)
                copied = np.asarray(other).copy(order="C")
                plain = called(name, arguments, key, [copied, *value[1:]] if listed else copied)
                for mine, theirs in zip(results, plain, strict=True):
                    np.testing.assert_array_equal(mine, theirs, err_msg=f"{kind} {key}")
                compared += 1
    assert min(compared, rejected) > 10


# ---- Through the public interface ----------------------------------------------------------------


def spoiled(rng, tensor):
    """Returns a tensor some of whose values are not what they should be."""
    tensor = tensor.double()
    flat = tensor.view(-1)
    for _ in range(rng.integers(3)):
        flat[int(rng.integers(len(flat)))] = FLOATS[rng.integers(len(FLOATS))]
    return tensor


def fuzz_mixers(cases, seed):
    """Returns how many batches were mixed, and how many rejected."""
    rng, random = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    mixed = rejected = 0
    for case in range(cases):
        m, size = int(rng.integers(1, 8)), tuple(rng.integers(1, 20, 2).tolist())
        dtype = [torch.float32, torch.float64, torch.bfloat16, torch.float16][case % 4]
        images = spoiled(rng, torch.rand(m, 3, *size, generator=random)).to(dtype)
        scale = 10.0 ** rng.integers(-320, 300) if rng.random() < 0.3 else 1.0
        saliency = spoiled(rng, scale * torch.rand(m, *size, generator=random)).to(dtype)
        weights = {
            name: float(rng.choice([0, 1e-300, 1e-30, 0.1, 1e30]))
            for name in ("beta", "gamma", "eta")
            if rng.random() < 0.3
        }
        if case % 3 == 0:
            weights["compatibility"] = spoiled(rng, torch.eye(m))
        try:
            mixer = (PuzzleMix if case % 3 == 1 else CoMixup)(3, generator=random, **weights)
            answer, targets = mixer(images, torch.arange(m) % 3, saliency)
        except ValueError:
            rejected += 1
        else:
            mixed += 1
            assert answer.shape == images.shape
            assert_close(targets.sum(1), torch.ones(m))
    return mixed, rejected


@pytest.mark.filterwarnings("ignore:.*saliency maps are zero:UserWarning")
@pytest.mark.filterwarnings("ignore:.*without transport:UserWarning")
@pytest.mark.filterwarnings("ignore:.*not positive semi-definite:UserWarning")
@pytest.mark.parametrize("cases", [100, pytest.param(5000, marks=pytest.mark.slow)])
def test_mixers_mix_or_reject_whatever_they_are_given(cases):
    mixed, rejected = fuzz_mixers(cases, seed=0)
    assert min(mixed, rejected) > cases / 10
