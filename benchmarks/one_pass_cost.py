"""Cost of a one-pass step, in units of a plain step.

A ResNet-18 with a CIFAR stem, batches of 100 of 32 x 32, stochastic gradient descent. Rounds run a
plain step, a clean one and a mixed one of one-pass Co-Mixup in turn; the ratio is that of the mean
of the last two to the first, by the CPU time of all threads. Below, what one-pass mixing does
beside the network (wall clock), where it happens in the training process and where workers do it.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from comixup import CoMixup, OnePass, OnePassCollate, Origin, SaliencyMemory, training_step
from common import console, options, progress, seeded, smooth_saliency, table, target
from mixing_cost import medians
from networks import cifar_resnet18

BATCH = (100, 3, 32, 32)
EXAMPLES = 50_000
WANTED, WANTED_MS, WANTED_WORKERS_MS = 1.08, 1.5, 0.3


def one_pass() -> OnePass:
    """Returns one-pass Co-Mixup with a map for each of the batch's examples."""
    mixup = OnePass(CoMixup(100, generator=seeded(0)), SaliencyMemory(EXAMPLES))
    mixup.memory.write(origin_of(mixup.memory), smooth_saliency(BATCH[0], 0))
    mixup.end_epoch()
    return mixup


def origin_of(memory: SaliencyMemory) -> Origin:
    """Returns where a batch comes from: examples far apart, flipped."""
    cells = memory.cell_numbers(BATCH[2:]).expand(BATCH[0], *BATCH[2:]).flip(2)
    return Origin(torch.arange(BATCH[0]) * (EXAMPLES // BATCH[0]), cells)


def step_times(rounds: int) -> dict[str, list[float]]:
    """Returns the CPU seconds of each kind of step, round by round."""
    torch.manual_seed(0)
    model = cifar_resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    images, targets = torch.randn(BATCH), torch.randint(100, BATCH[:1])
    mixup = one_pass()
    origin = origin_of(mixup.memory)
    kinds = ("plain", "clean", "mixed")
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in progress(range(rounds + 1), "steps"):
        for name in kinds:
            mixup.step = int(name == "mixed")
            begin = time.process_time()
            optimizer.zero_grad()
            mixer = None if name == "plain" else mixup
            training_step(model, mixer, images, targets, origin=origin).loss.backward()
            optimizer.step()
            times[name].append(time.process_time() - begin)
    return {name: values[1:] for name, values in times.items()}


def outside_the_network(repeats: int) -> tuple[float, float]:
    """Prints and returns the ms per batch beside the network, without and with workers."""
    images, targets = torch.rand(BATCH), torch.randint(100, BATCH[:1])
    mixup = one_pass()
    origin = origin_of(mixup.memory)
    gradient = torch.randn(BATCH)
    collate = OnePassCollate(mixup, collate=lambda samples: (images, targets, origin))

    def run(step: int) -> Callable[[], object]:
        def call() -> object:
            mixup.step = step
            return mixup(images, targets, origin)

        return call

    def backward_hook() -> None:
        write(mixup, gradient, origin)

    times = medians(
        {
            "a clean batch: set up": run(0),
            "a clean batch: write maps": backward_hook,
            "a mixed batch: read, solve, mix": run(1),
            "by workers: a clean batch": lambda: mixup.track(images, origin),
            "in a worker: collate, half of the batches mixed": lambda: collate([None]),
        },
        repeats,
    )
    names = list(times)
    clean = times[names[0]] + times[names[1]]
    mean = (clean + times[names[2]]) / 2
    # A mixed batch arrives ready; a clean one is tracked and its maps are written.
    training = (times[names[3]] + times[names[1]]) / 2
    rows = [[name, f"{ms:.2f}"] for name, ms in times.items()]
    rows += [["mean of a clean and a mixed batch", f"{mean:.2f}"]]
    rows += [["mean in the training process, where workers mix", f"{training:.2f}"]]
    table("One-pass Co-Mixup outside forward and backward, batch of 100", ["", "ms"], rows)
    return mean, training


def write(mixup: OnePass, gradient: Tensor, origin: Origin) -> None:
    """Does what a clean batch's backward pass sets off."""
    mixup.memory.write_gradient(origin, gradient)


def main() -> None:
    arguments = options(__doc__, rounds=30, repeats=100)
    torch.set_num_threads(os.cpu_count() or 1)
    host, workers = outside_the_network(arguments.repeats)
    times = step_times(arguments.rounds)
    rows, ratios = [], {}
    means = [(a + b) / 2 for a, b in zip(times["clean"], times["mixed"], strict=True)]
    for name, values in (*times.items(), ("one-pass, mean of both", means)):
        relative = [mine / base for mine, base in zip(values, times["plain"], strict=True)]
        low, ratios[name], high = statistics.quantiles(relative, n=4)
        seconds = f"{statistics.median(values):.2f}"
        rows.append([name, seconds, f"{ratios[name]:.3f}x", f"{low:.3f}-{high:.3f}"])
    table(
        f"Training steps, {arguments.rounds} rounds",
        ["", "CPU seconds", "of a plain step", "quartiles"],
        rows,
    )
    whole = ratios["one-pass, mean of both"]
    target(f"a one-pass step at most {WANTED}x of a plain one (got {whole:.3f}x)", whole <= WANTED)
    target(f"outside the network at most {WANTED_MS} ms (got {host:.2f})", host <= WANTED_MS)
    target(
        f"with workers at most {WANTED_WORKERS_MS} ms (got {workers:.2f})",
        workers <= WANTED_WORKERS_MS,
    )
    bytes_each = SaliencyMemory(EXAMPLES).nbytes / EXAMPLES
    console.print(f"{bytes_each:g} bytes per example")


if __name__ == "__main__":
    main()
