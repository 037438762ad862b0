"""Time until the command line answers, and what `import comixup` costs.

    python benchmarks/startup.py

Each command runs in processes of its own, one after the other; printed are medians of CPU time
(user and system) and of wall time. The finished run is trained first, in a temporary folder, and
not timed.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

TRAIN = ["train", "digits", "--method", "vanilla", "--epochs", "1", "--accelerator", "cpu"]
CLI = ["-m", "comixup.cli"]
COMMANDS = {
    "comixup --help": [*CLI, "--help"],
    "comixup recipes": [*CLI, "recipes"],
    "comixup train --help": [*CLI, "train", "--help"],
    "comixup train digits, finished": [*CLI, *TRAIN],
    "import comixup": ["-c", "import comixup"],
    "import torch": ["-c", "import torch"],
    "import torch, comixup; comixup.CoMixup": ["-c", "import torch, comixup; comixup.CoMixup"],
}


def seconds(words: list[str], folder: str) -> tuple[float, float]:
    """Returns CPU and wall time of a Python process."""
    cpu, wall = _children(), time.perf_counter()
    subprocess.run([sys.executable, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return _children() - cpu, time.perf_counter() - wall


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        seconds(COMMANDS["comixup train digits, finished"], folder)
        print("| | CPU, s | wall, s |\n| --- | --- | --- |")
        for name, words in COMMANDS.items():
            times = [seconds(words, folder) for _ in range(rounds)]
            cpu, wall = (statistics.median(column) for column in zip(*times, strict=True))
            print(f"| `{name}` | {cpu:.2f} | {wall:.2f} |", flush=True)


if __name__ == "__main__":
    main()
