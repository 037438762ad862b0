"""What keeping freed memory saves a training step on the CPU.

    python benchmarks/allocator.py

Plain steps of our small network, batches of 100 of 32 x 32, one thread. Processes with and without
`keep_freed_memory`, which `comixup train` calls, take turns; the ratio is that of their median CPU
times of a step, system time included.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

from comixup.lab import models
from comixup.lab.training._processes import keep_freed_memory

STEPS, WARM_UP = 20, 3


def measure(keep: bool) -> None:
    """Prints the median CPU seconds of a step and its page faults."""
    if keep and not keep_freed_memory():
        sys.exit("The C library is not glibc, or its settings are chosen already.")
    torch.manual_seed(0)
    model = models.build("small", 20, width=24).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.randn(100, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    targets = torch.randint(20, (100,))
    times = []
    for number in range(WARM_UP + STEPS):
        if number == WARM_UP:
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        begin = time.process_time()
        optimizer.zero_grad()
        F.cross_entropy(model(images), targets).backward()
        optimizer.step()
        times.append(time.process_time() - begin)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    print(statistics.median(times[WARM_UP:]), faults / STEPS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", choices=("given back", "kept"))
    arguments = parser.parse_args()
    if arguments.measure:
        return measure(arguments.measure == "kept")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    found: dict[str, list[tuple[float, float]]] = {"given back": [], "kept": []}
    for _ in range(arguments.rounds):
        for kind, values in found.items():
            command = [sys.executable, __file__, "--measure", kind]
            text = subprocess.run(command, env=environment, check=True, capture_output=True)
            seconds, faults = map(float, text.stdout.split())
            values.append((seconds, faults))
    print("| freed memory | ms a step | page faults a step |\n| --- | --- | --- |")
    for kind, values in found.items():
        seconds, faults = (statistics.median(column) for column in zip(*values, strict=True))
        print(f"| {kind} | {1000 * seconds:.0f} | {faults:.0f} |")
    ratios = [a[0] / b[0] for a, b in zip(found["given back"], found["kept"], strict=True)]
    print(f"\nkept is {statistics.median(ratios):.2f} times as fast ({arguments.rounds} rounds)")


if __name__ == "__main__":
    main()
