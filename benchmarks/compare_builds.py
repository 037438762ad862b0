"""Compares compiled kernels: times of the solver and of Puzzle Mix's masks, and their results.

    python benchmarks/compare_builds.py --rounds 25 build/one build/another

Each folder holds a compiled `_native` (`cmake -S . -B FOLDER` with the options to compare, or a
copy of an earlier one); their functions must take the same arguments. Calls alternate within a
round. Times are CPU times of one thread, the best of three; printed are medians over the rounds, of
the first build in ms and of the others relative to it. Where results differ, so does what they are
judged by: the least objective value of a problem, the energy of a batch's masks. Of that a second
table has the mean difference to the first build with its standard error.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import numpy as np

from comixup.core.grid import edges
from common import console, machine, mean_and_error, table

SOLVER = (((4, 4), 20, 5), ((4, 4), 100, 1), ((8, 8), 20, 1), ((16, 16), 6, 1))
"""Grid, inputs, problems."""

MASKS = (2, 4, 8, 16, 20)
SAMPLES = 100
SWEEPS = 4
LEVELS = 2
REPEATS = 3


def load(folder: str) -> ModuleType:
    """Returns the kernel compiled in a folder."""
    files = [f for f in Path(folder).glob("_native*") if f.suffix in (".so", ".pyd")]
    if len(files) != 1:
        raise SystemExit(f"{folder} must hold one compiled _native, got {len(files)}.")
    spec = importlib.util.spec_from_file_location("comixup._native", files[0])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Case(NamedTuple):
    """A call of a kernel, and the value of what it returns: less is better."""

    call: Callable[[ModuleType], list[np.ndarray]]
    value: Callable[[list[np.ndarray]], float]


def solver_case(grid: tuple[int, ...], m: int, problems: int, seed: int) -> Case:
    """Returns a call of `solve` with the paper's weights on uniform maps."""
    rng, n = np.random.default_rng(seed), int(np.prod(grid))
    saliency = rng.random((problems, m, n)) ** 3
    prior = np.maximum(rng.dirichlet(np.full(m, 2.0), problems), 1e-8)
    costs = -saliency / saliency.sum(2, keepdims=True) - 0.05 / n * np.log(prior)[..., None]
    weights = (0.32 / n, 1 / n, 0.05 / n, "soft", 2 * 0.83 * n, "squared")
    starts = rng.integers(m, size=(problems, 1, m, n)).astype(np.int32)

    def call(kernel: ModuleType) -> list[np.ndarray]:
        sources = np.empty((problems * m, LEVELS, *grid), dtype=np.int64)
        values = np.empty((problems, SWEEPS))
        kernel.solve(
            list(costs), [np.eye(m)] * problems, [weights] * problems, list(starts), list(grid),
            SWEEPS, LEVELS, True, 1, sources, values,
        )  # fmt: skip
        return [sources, values]

    return Case(call, lambda found: float(found[1].min(1).mean()))


def masks_case(side: int, seed: int) -> Case:
    """Returns a call of `puzzle_masks` on energies of the published scale."""
    rng, n = np.random.default_rng(seed), side * side
    saliency = rng.random((2, SAMPLES, 1, n)) ** 2
    own, other = -saliency / saliency.sum(3, keepdims=True)
    z = np.arange(LEVELS + 1).reshape(1, -1, 1) / LEVELS
    keep = np.log(rng.uniform(0.01, 0.99))
    prior = -0.2 / n * (np.log([1, 2, 1]).reshape(1, -1, 1) + LEVELS * z * keep)
    unary = z * own + (1 - z) * other + prior
    weights = rng.uniform(0.5, 1.0, (SAMPLES, len(edges((side, side))))) * 1.2 / 16 / side

    def call(kernel: ModuleType) -> list[np.ndarray]:
        labels = np.empty((SAMPLES, n), dtype=np.int32)
        kernel.puzzle_masks(unary, weights, [side, side], 1, labels)
        return [labels]

    def energy(found: list[np.ndarray]) -> float:
        labels = found[0].astype(np.int64)
        first, second = edges((side, side)).T
        apart = (labels[:, first] - labels[:, second]) / LEVELS
        own_cost = np.take_along_axis(unary, labels[:, None], 1).sum()
        return float(own_cost + (weights * apart**2).sum())

    return Case(call, energy)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", help="of compiled kernels; the first is the base")
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    console.print(machine())
    kernels = [load(folder) for folder in arguments.folders]
    cases: dict[str, Callable[[int], Case]] = {}
    for grid, m, problems in SOLVER:
        name = f"solve {grid}, m = {m}, {problems} problem(s)"
        cases[name] = lambda seed, case=(grid, m, problems): solver_case(*case, seed)
    for side in MASKS:
        cases[f"masks {side} x {side}"] = lambda seed, side=side: masks_case(side, seed)
    rows, values, differences = [], [], 0
    for name, make in cases.items():
        times: list[list[float]] = [[] for _ in kernels]
        worse: list[list[float]] = [[] for _ in kernels]
        for seed in range(arguments.rounds):
            call, value = make(seed)
            expected = call(kernels[0])
            order = range(len(kernels)) if seed % 2 else reversed(range(len(kernels)))
            for k in order:
                best = float("inf")
                for _ in range(REPEATS):
                    begin = time.thread_time()
                    found = call(kernels[k])
                    best = min(best, time.thread_time() - begin)
                times[k].append(best)
                worse[k].append(value(found) - value(expected))
                differences += not all(map(np.array_equal, found, expected))
        ratios = [[t / b for t, b in zip(row, times[0], strict=True)] for row in times[1:]]
        rows.append(
            [name, f"{statistics.median(times[0]) * 1e3:.3f}"]
            + [f"{statistics.median(ratio):.2f}" for ratio in ratios]
        )
        values.append([name, *("{:+.1e} ± {:.1e}".format(*mean_and_error(w)) for w in worse[1:])])
    table("Kernels", ["", "first, ms", *arguments.folders[1:]], rows)
    table("Value, less the first kernel's", ["", *arguments.folders[1:]], values)
    console.print(f"calls with other results than the first build's: {differences}")


if __name__ == "__main__":
    main()
