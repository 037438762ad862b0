"""Cost of a training step with each method, in units of a plain step.

A ResNet-18 with a CIFAR stem, batches of 100 of 32 x 32 (random pixels: the cost does not depend on
them), stochastic gradient descent. Rounds run every method once, in turn; ratios are taken within a
round against its plain step, and their median and quartiles given. Steps are timed by the CPU time
of all threads, since other work on the machine would count against the longer ones. Below, what
Co-Mixup does beside the network, alone (wall clock).
"""

from __future__ import annotations

import functools
import os
import statistics
import time

import torch

from comixup import (
    CoMixup,
    CutMix,
    InputMixup,
    ManifoldMixup,
    Mixer,
    PuzzleMix,
    mix,
    solve,
    training_step,
)
from comixup.core.maps import pool_maps
from comixup.core.problem import build_problems
from comixup.mixers._comixup import partitions
from common import console, options, progress, seeded, smooth_saliency, table, target
from mixing_cost import medians
from networks import cifar_resnet18

BATCH = (100, 3, 32, 32)
WANTED = {"Co-Mixup": 2.05, "Co-Mixup, input gradients": 1.75}
WANTED_MS = 4


def mixers() -> dict[str, Mixer | None]:
    make = {"num_classes": 100, "generator": seeded(0)}
    return {
        "plain": None,
        "input": InputMixup(**make),
        "manifold": ManifoldMixup(**make),
        "CutMix": CutMix(**make),
        "Puzzle Mix": PuzzleMix(**make, clean_weight=1.0),
        "Co-Mixup": CoMixup(**make),
        "Co-Mixup, input gradients": CoMixup(**make, keep_gradients=False),
    }


def step_times(rounds: int) -> dict[str, list[float]]:
    """Returns the CPU seconds of a step with each method, round by round."""
    torch.manual_seed(0)
    model = cifar_resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images, targets = torch.randn(BATCH), torch.randint(100, BATCH[:1])
    methods = mixers()
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in progress(range(rounds + 1), "steps"):
        for name, mixer in methods.items():
            begin = time.process_time()
            optimizer.zero_grad()
            training_step(model, mixer, images, targets).loss.backward()
            optimizer.step()
            times[name].append(time.process_time() - begin)
            if isinstance(mixer, ManifoldMixup):
                mixer.cancel()
    return {name: values[1:] for name, values in times.items()}


def outside_the_network(repeats: int) -> float:
    """Prints what pooling, problems, solving and mixing take; returns their sum in ms."""
    images, targets = torch.rand(BATCH), torch.randint(100, BATCH[:1])
    maps = smooth_saliency(len(images), 0)
    mixer = CoMixup(100, generator=seeded(0))
    mixer(images, targets, maps)
    plan = mixer.last.plan
    pooled = pool_maps(maps, (4, 4))
    build = functools.partial(
        build_problems,
        pooled,
        partitions(len(images), mixer.partition_size, len(images)),
        weights=mixer,
        omega=mixer.omega,
        alpha=mixer.alpha,
        compatibility=None,
        generator=seeded(0),
    )
    problems = build()
    times = medians(
        {
            "pooling": lambda: pool_maps(maps, (4, 4)),
            "problems": build,
            "solving": lambda: solve(problems, resolve=True, generator=seeded(0)),
            "mixing": lambda: mix(images, targets, plan, num_classes=100),
            "all in one call": lambda: mixer(images, targets, maps),
        },
        repeats,
    )
    table(
        "Co-Mixup outside the network, batch of 100",
        ["", "ms"],
        [[name, f"{ms:.2f}"] for name, ms in times.items()],
    )
    return times["all in one call"]


def main() -> None:
    arguments = options(__doc__, rounds=9, repeats=100)
    torch.set_num_threads(os.cpu_count() or 1)
    whole = outside_the_network(arguments.repeats)
    times = step_times(arguments.rounds)
    plain = times["plain"]
    rows, ratios = [], {}
    for name, values in times.items():
        relative = [mine / base for mine, base in zip(values, plain, strict=True)]
        low, ratios[name], high = statistics.quantiles(relative, n=4)
        rows.append(
            [
                name,
                f"{statistics.median(values):.2f}",
                f"{ratios[name]:.2f}x",
                f"{low:.2f}-{high:.2f}",
            ]
        )
    table(
        f"Training steps, {arguments.rounds} rounds",
        ["", "CPU seconds", "of a plain step", "quartiles"],
        rows,
    )
    for name, wanted in WANTED.items():
        target(f"{name}: at most {wanted}x (got {ratios[name]:.2f}x)", ratios[name] <= wanted)
    target(f"outside the network at most {WANTED_MS} ms (got {whole:.2f})", whole <= WANTED_MS)
    puzzle = ratios["Co-Mixup"] / ratios["Puzzle Mix"]
    console.print(f"Co-Mixup's step takes {puzzle:.2f}x Puzzle Mix's (paper: 1.04x, on ImageNet)")


if __name__ == "__main__":
    main()
