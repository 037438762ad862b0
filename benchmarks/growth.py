"""Growth: how time and memory rise with the inputs, levels, locations and partitions.

Problems are s = U on the grid, with the paper's other settings; one thread unless it says two.
Writes figures/growth.png.
"""

from __future__ import annotations

import ctypes
import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import torch

from comixup import Problem, solve
from common import FIGURES, console, options, progress, seconds, seeded, table, unit_maps

mpl.use("Agg")
from matplotlib import pyplot as plt

INPUTS = [2, 5, 10, 20, 50, 100, 200]
LEVELS = [1, 2, 3, 4, 5]
SHAPES = {
    "2-d, square": [(side, side) for side in (2, 3, 4, 5, 6, 8, 10, 12, 16)],
    "1-d": [(n,) for n in (4, 8, 16, 32, 64, 128, 256)],
    "3-d, cube": [(side,) * 3 for side in (2, 3, 4, 5, 6)],
}
PARTITIONS = [1, 2, 4, 8, 16]
MEMORY = [(20, 4), (20, 32), (20, 64), (20, 128), (40, 64), (80, 64), (200, 4), (1000, 4)]
"""(m, side) of the problems whose memory is measured."""

Curve = dict[str, list[tuple[float, float]]]


def make(m: int, grid: Sequence[int], seed: int) -> Problem:
    maps = unit_maps(m, grid, seed).float()
    return Problem.from_saliency(maps, grid=grid, generator=seeded(seed))


def milliseconds(problems: Sequence, repeats: int, **settings: int) -> float:
    """Returns the median time over problems (each a problem or a list of partitions)."""
    settings = {"num_threads": 1, **settings}

    def time_of(problem: Problem | list[Problem]) -> float:
        return seconds(lambda: solve(problem, generator=seeded(0), **settings), repeats)

    return statistics.median(time_of(problem) for problem in problems) * 1e3


def curves(seeds: int, repeats: int) -> dict[str, Curve]:
    found: dict[str, Curve] = {"inputs": {}, "levels": {}, "locations": {}, "partitions": {}}
    for levels in (1, 2):
        found["inputs"][f"L = {levels}"] = [
            (m, milliseconds([make(m, (4, 4), s) for s in range(seeds)], repeats, levels=levels))
            for m in progress(INPUTS, f"inputs, L = {levels}")
        ]
    for m in (20, 100):
        problems = [make(m, (4, 4), s) for s in range(seeds)]
        found["levels"][f"m = {m}"] = [
            (levels, milliseconds(problems, repeats, levels=levels))
            for levels in progress(LEVELS, f"levels, m = {m}")
        ]
    for name, grids in SHAPES.items():
        found["locations"][name] = [
            (
                torch.Size(grid).numel(),
                milliseconds([make(20, grid, s) for s in range(min(seeds, 3))], min(repeats, 2)),
            )
            for grid in progress(grids, f"locations, {name}")
        ]
    for threads in (1, 2):
        name = f"{threads} thread{'s' * (threads > 1)}"
        found["partitions"][name] = []
        for count in progress(PARTITIONS, f"partitions, {name}"):
            batches = [[make(20, (4, 4), 100 * s + p) for p in range(count)] for s in range(seeds)]
            took = milliseconds(batches, repeats, num_threads=threads)
            found["partitions"][name].append((count, took))
    return found


def draw(found: dict[str, Curve]) -> None:
    panels = {
        "inputs": ("Inputs (4 x 4 grid)", "number of inputs and outputs, m = m'"),
        "levels": ("Levels (4 x 4 grid)", "levels L: masks are multiples of 1/L"),
        "locations": ("Locations (m = 20, L = 2)", "number of locations, n"),
        "partitions": ("Partitions of 20 in one call", "number of partitions"),
    }
    figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    for axis, (key, (title, label)) in zip(axes.flat, panels.items(), strict=True):
        for (name, points), marker in zip(found[key].items(), "os^", strict=False):
            axis.plot(*zip(*points, strict=True), marker=marker, markersize=4, label=name)
        axis.set_title(title)
        axis.set_xlabel(label)
        axis.set_ylabel("time of one solve, ms")
        axis.set_yscale("log")
        ticks = sorted({x for points in found[key].values() for x, _ in points})
        if key != "levels":
            axis.set_xscale("log")
        if key == "locations":
            ticks = [4, 8, 16, 32, 64, 128, 256]
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(mpl.ticker.FormatStrFormatter("%g"))
        axis.grid(alpha=0.3)
        axis.legend(frameon=False)
    figure.suptitle("Time of comixup.solve (4 sweeps; medians over random maps)")
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / "growth.png", dpi=90)


# ---- Memory: the kernel's is invisible to Python, so a fresh process looks at its own peak -------


def peak_growth(m: int, side: int) -> float:
    """Returns by how many MB a solve raises the peak memory of a fresh process."""
    command = [sys.executable, __file__, "--memory-inputs", str(m), "--memory-side", str(side)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def report_growth(m: int, side: int) -> None:
    """Prints the growth in MB; run in a process of its own."""
    problem = make(m, (side, side), 0)
    solve(make(2, (2, 2), 0))  # what is loaded on first use does not count
    ctypes.CDLL(None).malloc_trim(0)  # else memory that building the problem freed is used again
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far was that of the imports
    before = peak_kilobytes()
    solve(problem, num_threads=1, sweeps=2)
    print(json.dumps((peak_kilobytes() - before) / 2**10))


def peak_kilobytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def show_memory() -> None:
    rows = [
        [
            f"m = {m}, n = {side * side}",
            f"{m * side * side * 8 / 2**20:.2f}",
            f"{m * m * 8 / 2**20:.2f}",
            f"{peak_growth(m, side):.2f}",
        ]
        for m, side in progress(MEMORY, "memory")
    ]
    table(
        "Memory of one solve, MB (8 bytes a number)",
        ["", "m n numbers", "A: m m numbers", "growth of the peak"],
        rows,
    )
    console.print(
        "The growth counts all that solve allocates: float64 copies of cost and of A for the\n"
        "kernel, the kernel's own arrays, the labels. A is part of the problem itself."
    )


def main() -> None:
    arguments = options(__doc__, seeds=5, repeats=5, memory_inputs=0, memory_side=0)
    if arguments.memory_inputs:
        report_growth(arguments.memory_inputs, arguments.memory_side)
        return
    found = curves(arguments.seeds, arguments.repeats)
    draw(found)
    for key, lines in found.items():
        for name, points in lines.items():
            heads = [f"{x:g}" for x, _ in points]
            table(f"{key}, {name}: ms", [key, *heads], [["", *(f"{y:.3g}" for _, y in points)]])
    if platform.libc_ver()[0] == "glibc":
        show_memory()
    console.print(f"Wrote {FIGURES / 'growth.png'}")


if __name__ == "__main__":
    main()
