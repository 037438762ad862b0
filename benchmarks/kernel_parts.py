"""What parts of the kernel bring to a whole batch: calls with and without each of them, in turn.

    python benchmarks/kernel_parts.py --rounds 25 build/another

Folders hold kernels compiled otherwise (see `compare_builds.py`), for instance without the exact
step on grids four wide: in native/solver/minimize.hpp, `four_wide_` left empty. "maps by torch" and
"memory by torch" run the code that other devices run. Each round has maps of its own and calls all
variants in turn, seven times; the least CPU time of one thread counts, relative to that of the
kernel of this version in the same round. Printed are the medians of these ratios with their
quartiles; "the same again" is the noise.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from unittest import mock

import torch
from torch import Tensor

import comixup.core.maps
import comixup.core.puzzle
import comixup.core.solve
from comixup import CoMixup, OnePass, Origin, PuzzleMix, SaliencyMemory
from comixup.core.memory import looked_up
from comixup.core.saliency import channel_norm
from comixup.core.tensors import on_host
from comixup.mixers import Mixer
from common import (
    console,
    has_images,
    image_saliency,
    machine,
    noise_saliency,
    seeded,
    smooth_saliency,
    table,
)
from compare_builds import load

REPEATS = 7
Call = Callable[[], object]
Way = Callable[[], contextlib.AbstractContextManager]
SAME = "the same again"


def peaked_saliency(m: int, seed: int) -> Tensor:
    """Returns (m, 32, 32) smooth maps to the fourth power: few cells hold most of the sum."""
    return smooth_saliency(m, seed) ** 4


def uniform_saliency(m: int, seed: int) -> Tensor:
    """Returns (m, 32, 32) maps whose 4 x 4 cells are uniform random numbers."""
    return noise_saliency(m, seed)


MAPS = {"uniform": uniform_saliency, "peaked": peaked_saliency}
if has_images():
    MAPS["images"] = image_saliency


def enlarged(maps: Tensor, side: int) -> Tensor:
    """Returns maps of 32 x 32 as maps of side x side."""
    if side == maps.shape[-1]:
        return maps
    return torch.nn.functional.interpolate(maps[:, None], size=(side, side), mode="bilinear")[:, 0]


# ---- Variants -----------------------------------------------------------------------------------


def summarize_by_torch(maps: Tensor, sides: tuple[int, ...]) -> object:
    """Does what `summarize_maps` does on other devices."""
    flat = maps.flatten(1)
    low, top = flat.amin(1, keepdim=True), flat.amax(1, keepdim=True)
    pooled = comixup.core.maps.pool(maps, sides).flatten(1)
    return on_host(torch.cat([low, top, pooled, comixup.core.maps.salient_locations(maps)], 1))


def read_by_torch(memory: SaliencyMemory, origin: Origin, size: object = None) -> Tensor:
    """Does what `SaliencyMemory.read` does on other devices."""
    rows, numbers = memory._locate(origin, size)
    return looked_up(memory._maps.index_select(0, rows), numbers)


def write_by_torch(memory: SaliencyMemory, origin: Origin, gradient: Tensor) -> None:
    """Does what `SaliencyMemory.write_gradient` does on other devices."""
    memory.write(origin, channel_norm(gradient))


@contextlib.contextmanager
def memory_by_torch() -> Iterator[None]:
    with (
        mock.patch.object(SaliencyMemory, "read", read_by_torch),
        mock.patch.object(SaliencyMemory, "write_gradient", write_by_torch),
    ):
        yield


@contextlib.contextmanager
def solved_by(kernel: ModuleType) -> Iterator[None]:
    """Lets another kernel solve problems and find masks."""
    with (
        mock.patch.object(comixup.core.solve, "_native", kernel),
        mock.patch.object(comixup.core.puzzle, "_native", kernel),
    ):
        yield


def variants(folders: list[str]) -> dict[str, Way]:
    """Returns what to measure beside the kernel of this version."""
    found: dict[str, Way] = {SAME: contextlib.nullcontext}
    for folder in folders:
        found[folder] = functools.partial(solved_by, load(folder))
    found["maps by torch"] = lambda: mock.patch.object(
        comixup.core.maps, "summarize_maps", summarize_by_torch
    )
    found["memory by torch"] = memory_by_torch
    return found


# ---- Calls --------------------------------------------------------------------------------------


def mixing(make: Callable[..., Mixer], kind: str, m: int, side: int, seed: int) -> Call:
    """Returns a call of a mixer."""
    images, targets = torch.rand(m, 3, side, side, generator=seeded(seed)), torch.arange(m)
    saliency = enlarged(MAPS[kind](m, seed), side)

    def call() -> object:
        return make(m, generator=seeded(seed))(images, targets, saliency)

    return call


def one_pass(kind: str, m: int, side: int, seed: int) -> Call:
    """Returns a clean and a mixed batch of one-pass Co-Mixup, without forward and backward."""
    images, targets = torch.rand(m, 3, side, side, generator=seeded(seed)), torch.arange(m)
    gradient = enlarged(MAPS[kind](m, seed), side).unsqueeze(1).expand(-1, 3, -1, -1).contiguous()
    memory = SaliencyMemory(m)
    origin = Origin(torch.arange(m), memory.cell_numbers((side, side)).expand(m, side, side))
    memory.write_gradient(origin, gradient)
    memory.end_epoch()

    def call() -> object:
        mixup = OnePass(CoMixup(m, generator=seeded(seed)), memory)
        mixup.step = 0
        mixup(images, targets, origin)
        memory.write_gradient(origin, gradient)
        mixup.step = 1
        return mixup(images, targets, origin)

    return call


CASES: dict[str, tuple[Callable[[str, int, int, int], Call], int, int, str]] = {
    "CoMixup, 100 x 32 x 32": (functools.partial(mixing, CoMixup), 100, 32, "maps by torch"),
    "CoMixup, 32 x 224 x 224": (functools.partial(mixing, CoMixup), 32, 224, "maps by torch"),
    "OnePass, clean + mixed, 100 x 32 x 32": (one_pass, 100, 32, "memory by torch"),
    "OnePass, clean + mixed, 32 x 224 x 224": (one_pass, 32, 224, "memory by torch"),
} | {
    f"PuzzleMix, {grid} x {grid}, 100 x 32 x 32": (
        functools.partial(mixing, functools.partial(PuzzleMix, grid=grid)),
        100,
        32,
        "maps by torch",
    )
    for grid in (8, 16)
}
"""A batch, its size, and which of torch's code it can run."""


def least_ms(call: Call, ways: dict[str, Way], backwards: bool) -> dict[str, float]:
    """Returns the least CPU time of a few calls in each way, in ms; the ways alternate."""
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(REPEATS):
        for name in reversed(ways) if backwards else ways:
            with ways[name]():
                begin = time.thread_time()
                call()
                least[name] = min(least[name], (time.thread_time() - begin) * 1e3)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", help="of compiled kernels")
    parser.add_argument("--rounds", type=int, default=25)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console.print(machine())
    others = variants(arguments.folders)
    rows = []
    for name, (make, m, side, by_torch) in CASES.items():
        for kind in MAPS:
            told = (SAME, by_torch, *arguments.folders)
            ways = {"": contextlib.nullcontext} | {w: others[w] for w in others if w in told}
            times = []
            for seed in range(arguments.rounds):
                call = make(kind, m, side, seed)
                call()
                times.append(least_ms(call, ways, backwards=seed % 2 > 0))
            base = statistics.median(row[""] for row in times)
            for variant in list(ways)[1:]:
                low, middle, high = statistics.quantiles(
                    [row[variant] / row[""] for row in times], n=4
                )
                ratio = [f"{middle:.2f}", f"{low:.2f} to {high:.2f}"]
                rows.append([f"{name}, {kind}", f"{base:.2f}", variant, *ratio])
    table("CPU time relative to the kernel's", ["", "ms", "variant", "ratio", "quartiles"], rows)


if __name__ == "__main__":
    main()
