"""Throughput of two processes that train together, against one with one thread and with two.

The command line itself trains on the digits that come with a package: batches of 100 images over
all processes, two processes by Fabric's launcher (gloo). Rounds run every way once, in turn; images
per second are those of the metrics, training alone, first epochs left out; medians over all rounds
and epochs. Ratios are taken within a round.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from comixup.lab.training._folder import read_metrics
from common import options, progress, table

EPOCHS = 3
RECIPE = "digits"
WAYS = {"one process, one thread": (1, 1), "one, two threads": (1, 2), "two processes": (2, 1)}
"""Processes, and threads of each."""
CASES = (("small", "vanilla", 50), ("small", "comixup", 50))
"""Network, method, and images of each of the 10 classes."""


def speed(case: tuple[str, str, int], way: str) -> float:
    """Returns the images per second of a run in a folder of its own."""
    (model, method, labels), (processes, threads) = case, WAYS[way]
    with tempfile.TemporaryDirectory() as out:
        flags = {
            "--model": model,
            "--method": method,
            "--images-per-class": labels,
            "--epochs": EPOCHS,
            "--devices": processes,
            "--accelerator": "cpu",
            "--out": out,
        }
        words = [str(word) for pair in flags.items() for word in pair]
        subprocess.run(
            [sys.executable, "-m", "comixup.cli", "train", RECIPE, *words],
            env=os.environ | {"OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo"},
            check=True,
            stdout=subprocess.DEVNULL,
        )
        rows = read_metrics(Path(out) / RECIPE / method / "seed-0")
    return statistics.median(row["images_per_second"] for row in rows[1:])


def main() -> None:
    arguments = options(__doc__, rounds=3)
    plain = next(iter(WAYS))
    rows = []
    for case in CASES:
        speeds: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in progress(range(arguments.rounds), f"{case[0]}, {case[1]}"):
            for way, values in speeds.items():
                values.append(speed(case, way))
        for way, values in speeds.items():
            ratios = [mine / base for mine, base in zip(values, speeds[plain], strict=True)]
            rows.append(
                [
                    f"{case[0]}, {case[1]}",
                    way,
                    f"{statistics.median(values):.0f}",
                    f"{statistics.median(ratios):.2f}x",
                ]
            )
    table(
        f"Training on digits of 28 x 28, batches of 100, {arguments.rounds} rounds",
        ["", "way", "images/s", "of one thread"],
        rows,
    )


if __name__ == "__main__":
    main()
