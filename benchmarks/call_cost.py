"""Cost of a mixer's call, of this version and of another, alternated.

    python benchmarks/call_cost.py --against /path/to/another/venv/bin/python

Each round starts a process with either Python, which times calls on a batch of 100 images of
32 x 32 by the CPU time of one thread; a process gives the lower decile of its calls. Printed are
medians over rounds and the median of the rounds' ratios. Without `--against` it times this version.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch

import comixup

BATCH = (100, 3, 32, 32)
CALLS = 120
CLASSES = 100


def lower_decile(call: Callable[[], object]) -> float:
    """Returns the ms of a call by CPU time, of the fastest tenth the slowest."""
    times = []
    for _ in range(CALLS):
        begin = time.process_time()
        call()
        times.append((time.process_time() - begin) * 1e3)
    return sorted(times)[CALLS // 10]


def measure() -> dict[str, float]:
    """Returns the ms of each method's call."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(BATCH, generator=draw)
    targets = torch.randint(CLASSES, BATCH[:1], generator=draw)
    coarse = torch.rand(BATCH[0], 1, 8, 8, generator=draw)
    saliency = torch.nn.functional.interpolate(coarse, size=BATCH[2:], mode="bilinear")[:, 0] ** 2
    mixup = comixup.CoMixup(CLASSES, generator=draw)
    puzzle = comixup.PuzzleMix(CLASSES, grid=8, generator=draw)
    cutmix = comixup.CutMix(CLASSES, generator=draw)
    memory = comixup.SaliencyMemory(num_examples=BATCH[0])
    origin = comixup.Origin(torch.arange(BATCH[0]))
    memory.write(origin, saliency)
    one_pass = comixup.OnePass(comixup.CoMixup(CLASSES, generator=draw), memory, rate=1.0)
    one_pass.end_epoch()
    return {
        "CoMixup": lower_decile(lambda: mixup(images, targets, saliency)),
        "PuzzleMix, 8 x 8": lower_decile(lambda: puzzle(images, targets, saliency)),
        "CutMix": lower_decile(lambda: cutmix(images, targets)),
        "OnePass, a mixed batch": lower_decile(lambda: one_pass(images, targets, origin)),
    }


def measured_by(python: str) -> dict[str, float]:
    """Returns what `measure` returns in a process of a Python."""
    command = [python, __file__, "--once"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", metavar="PYTHON", help="of the environment to compare with")
    parser.add_argument("--rounds", type=int, default=7, help="default 7")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(measure()))
        return
    pythons = [sys.executable, *([arguments.against] if arguments.against else [])]
    rounds = [[measured_by(python) for python in pythons] for _ in range(arguments.rounds)]
    for name in rounds[0][0]:
        times = [statistics.median(row[k][name] for row in rounds) for k in range(len(pythons))]
        ratios = [row[0][name] / row[-1][name] for row in rounds]
        shown = ", ".join(f"{ms:.2f} ms" for ms in times)
        print(f"{name}: {shown}, ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
