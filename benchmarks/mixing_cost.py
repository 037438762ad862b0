"""Cost of mixing, against torchvision's CutMix and MixUp.

Of a labelling that is there; and of each method's whole call, with its draws and its solver, by
maps that are there, in CPU time of one thread.

Each repetition runs all methods one after the other; times are medians of wall-clock time with two
threads. "torch" is the path that other devices take; its limits are for batches of photographs, as
what is small is mixed at once. Peak memory counts what is allocated while
mixing, the answer included, in units of the batch.
"""

from __future__ import annotations

import inspect
import os
import statistics
import time
from collections.abc import Callable

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler talks on standard output
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torchvision.transforms import v2

from comixup import CoMixup, Mixer, mix, mixers
from comixup._methods import METHODS
from comixup.core.gather import gather_pixels
from common import options, seeded, smooth_saliency, table, target

SIZES = [(100, 3, 32, 32), (64, 3, 224, 224)]
WANTED_TIME, WANTED_MEMORY = 1.5, 3
WANTED_ELSEWHERE = 1.3
"""Of CutMix's time, and of a batch: photographs on other devices."""


def peak_memory(call: Callable[[], object]) -> int:
    """Returns the most bytes that were allocated at once during a call."""
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        call()
    now = most = 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most


def medians(
    calls: dict[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Returns the median ms of each call, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats + 1):
        for name, call in calls.items():
            begin = clock()
            call()
            times[name].append((clock() - begin) * 1e3)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def calls_for(shape: tuple[int, ...]) -> dict[str, Callable[[], object]]:
    images = torch.rand(shape, generator=seeded(0))
    targets = torch.randint(100, shape[:1], generator=seeded(1))
    mixer = CoMixup(100, generator=seeded(2))
    mixer(images, targets, smooth_saliency(len(images), 0))
    plan = mixer.last.plan
    last = images.to(memory_format=torch.channels_last)
    cutmix, mixup = v2.CutMix(num_classes=100), v2.MixUp(num_classes=100)

    def ours(batch: Tensor = images) -> object:
        return mix(batch, targets, plan, num_classes=100)

    return {
        "ours": ours,
        "ours, channels last": lambda: ours(last),
        "torch": lambda: gather_pixels(images, plan.sources),
        "torchvision CutMix": lambda: cutmix(images, targets),
        "torchvision MixUp": lambda: mixup(images, targets),
    }


def calls_of_methods(shape: tuple[int, ...]) -> dict[str, Callable[[], object]]:
    """Returns the call of each method that mixes images, by its title."""
    images = torch.rand(shape, generator=seeded(0))
    targets = torch.randint(100, shape[:1], generator=seeded(1))
    maps = smooth_saliency(len(images), 0, shape[-1])
    cutmix = v2.CutMix(num_classes=100)
    calls: dict[str, Callable[[], object]] = {"torchvision CutMix": lambda: cutmix(images, targets)}

    def add(title: str, mixer: Mixer) -> None:
        own = maps if mixer.needs_saliency else None
        calls[title] = lambda: mixer(images, targets, own)

    for listed in METHODS.values():
        kind = getattr(mixers, listed.mixer)
        if kind.mixes_inside or kind.mixes_nothing:
            continue
        add(listed.title, kind(100, generator=seeded(2)))
        if "per_sample" in inspect.signature(kind).parameters:
            add(f"{listed.title}, per sample", kind(100, per_sample=True, generator=seeded(2)))
    return calls


def print_whole_calls(repeats: int) -> None:
    """Prints the CPU time of each method's call, in one thread: other programs change it little."""
    torch.set_num_threads(1)
    for shape in SIZES:
        calls = calls_of_methods(shape)
        for _ in range(2):  # RecursiveMix leaves the first batch whole
            for call in calls.values():
                call()
        times = medians(calls, repeats, time.process_time)
        rival = times["torchvision CutMix"]
        rows = [[name, f"{ms:.2f}", f"{ms / rival:.2f}x"] for name, ms in times.items()]
        table(f"Whole calls, {shape}", ["", "CPU ms", "of CutMix"], rows)


def main() -> None:
    arguments = options(__doc__, repeats=60)
    torch.set_num_threads(2)
    rows, slowest, largest = [], 0.0, 0.0
    for shape in SIZES:
        torch.manual_seed(0)
        calls = calls_for(shape)
        times = medians(calls, arguments.repeats)
        rival = times["torchvision CutMix"]
        batch = 4 * torch.Size(shape).numel()
        for name, ms in times.items():
            memory = peak_memory(calls[name]) / batch
            rows.append([f"{shape} {name}", f"{ms:.2f}", f"{ms / rival:.2f}x", f"{memory:.2f}"])
            if name in ("ours", "torch"):
                largest = max(largest, memory)
            if name == "torch":
                photographs = memory
        slowest = max(slowest, times["ours"] / rival)
    table("Mixing", ["", "ms", "of CutMix", "peak, batches"], rows)
    target(
        f"mixing at most {WANTED_TIME}x torchvision's CutMix (got {slowest:.2f}x)",
        slowest <= WANTED_TIME,
    )
    elsewhere = times["torch"] / rival
    target(
        f"the path of other devices at most {WANTED_ELSEWHERE}x CutMix (got {elsewhere:.2f}x) and "
        f"{WANTED_ELSEWHERE} batches of memory (got {photographs:.2f})",
        elsewhere <= WANTED_ELSEWHERE and photographs <= WANTED_ELSEWHERE,
    )
    target(
        f"peak memory at most {WANTED_MEMORY} batches (got {largest:.2f})",
        0 < largest <= WANTED_MEMORY,
    )
    print_whole_calls(arguments.repeats)


if __name__ == "__main__":
    main()
