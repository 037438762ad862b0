"""The kernel built by another compiler gives the same arrays, bit by bit, as the installed one.

clang has no AVX2 path, so that here the portable vectors are run, which other processors take.
"""

import importlib.util
import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from comixup import _native
from comixup.core.grid import edges

ROOT = Path(__file__).parents[1]
CLANG = shutil.which("clang++")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CLANG is None, reason="clang++ is not installed"),
]
SEEDS = range(4)
GRIDS = [(7,), (4, 4), (3, 5), (8, 8), (2, 3, 2)]


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """The kernel as clang builds it."""
    import cmake  # noqa: PLC0415 - tools of the build
    import nanobind  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("clang")
    binary = Path(cmake.CMAKE_BIN_DIR) / "cmake"
    settings = [
        f"-DCMAKE_CXX_COMPILER={CLANG}",
        "-DCMAKE_BUILD_TYPE=Release",
        f"-Dnanobind_DIR={nanobind.cmake_dir()}",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    for words in (["-S", ROOT, "-B", folder, *settings], ["--build", folder, "--parallel", "2"]):
        subprocess.run([binary, *words], check=True, capture_output=True, timeout=1800)
    (file,) = folder.glob("_native*.so")
    assert b"clang" in file.read_bytes()  # which its compiler writes into it
    spec = importlib.util.spec_from_file_location("comixup._native", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_equal(call, kernels):
    one, two = (call(kernel) for kernel in kernels)
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)


def solver_call(grid, seed, levels, clip, smoothness, threads, m=9, problems=2, sweeps=4):
    rng, n = np.random.default_rng(seed), int(np.prod(grid))
    saliency = rng.random((problems, m, n)) ** 3
    costs = -saliency / saliency.sum(2, keepdims=True)
    apart = np.abs(rng.random((m, 1)) - rng.random((1, m)))
    compatibility = np.eye(m) + 0.05 * (apart + apart.T)
    weights = (0.32 / n, 1 / n, 0.05 / n, clip, 2 * 0.83 * n, smoothness)
    starts = rng.integers(m, size=(problems, 1, m, n)).astype(np.int32)

    def call(kernel):
        sources = np.empty((problems * m, levels, *grid), dtype=np.int64)
        values = np.empty((problems, sweeps))
        kernel.solve(
            list(costs), [compatibility] * problems, [weights] * problems, list(starts),
            list(grid), sweeps, levels, True, threads, sources, values,
        )  # fmt: skip
        return sources, values

    return call


def test_solutions(other):
    cases = itertools.product(
        GRIDS, SEEDS, (1, 2, 3), ("soft", "hard", "none"), ("squared", "inner", "official")
    )
    for count, case in enumerate(cases):
        check_equal(solver_call(*case, threads=1 + count % 2), (_native, other))
    assert count + 1 == 540


def test_masks_of_puzzle_mix(other):
    for side, seed in itertools.product((2, 4, 8, 16), SEEDS):
        rng, n, samples = np.random.default_rng(seed), side * side, 20
        saliency = rng.random((2, samples, 1, n)) ** 2
        own, shown = -saliency / saliency.sum(3, keepdims=True)
        z = np.arange(3).reshape(1, -1, 1) / 2
        unary = z * own + (1 - z) * shown
        weights = rng.random((samples, len(edges((side, side))))) * 0.05 / side

        def call(kernel, side=side, n=n, samples=samples, unary=unary, weights=weights):
            labels = np.empty((samples, n), dtype=np.int32)
            kernel.puzzle_masks(unary, weights, [side, side], 1, labels)
            return (labels,)

        check_equal(call, (_native, other))


def test_pixels_and_maps(other):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        images = rng.random((6, 3 * 8 * 12), dtype=np.float32)
        sources = rng.integers(6, size=(5, 2, 4 * 3))
        rows = np.tile(np.repeat(np.arange(4), 2) * 3, 3)
        maps = rng.random((6, 1, 8, 12), dtype=np.float32)

        def call(kernel, images=images, sources=sources, rows=rows, maps=maps):
            out = np.empty((5, images.shape[1]), dtype=np.float32)
            kernel.mix_blocks(images, sources, rows, np.arange(4) * 4, 1, out)
            numbers = np.empty((6, 2 + 12 + 3))
            kernel.summarize_maps(maps, (1, 4, 3), (1, 8, 8), 1, numbers)
            return out, numbers

        check_equal(call, (_native, other))
