"""Share of an evaluation's time that is spent in the network's forward pass.

`comixup evaluate`'s parts, each alone: predictions with their metrics, localization, and the three
corruptions of the background, on the test images of CIFAR-100 and of Tiny-ImageNet. CIFAR-100 has
no boxes: its objects are said to be in the middle, in boxes of several sizes. Networks are
untrained, since their time does not depend on their weights; but the maps of such networks are
rougher, with more regions to find, than those of trained ones. Forward passes are timed within the
calls. All on one thread, by CPU time, since other work on the machine would count against either;
rounds run everything once, in turn, and shares are medians. Needs COMIXUP_DATA to name a folder
with `cifar-100-python`, and with Tiny-ImageNet for its part.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from comixup.lab import models
from comixup.lab._networks import MEMORY_FORMAT
from comixup.lab.data import DataSet, load
from comixup.lab.evaluation import measure, predict
from comixup.lab.evaluation._cam import ActivationMaps
from comixup.lab.evaluation._corruption import CORRUPTIONS, CorruptedLoader
from comixup.lab.evaluation._evaluate import BATCH
from comixup.lab.evaluation._localization import localize
from common import console, options, progress, seeded, table, target

WANTED = 0.9
NETWORKS = {"small": 1, "preactresnet18": 20}
"""How many times fewer images a network is shown: all take it as long, and larger ones longer."""
DATA = ("cifar100", "tiny-imagenet")


class ForwardClock:
    """Adds up the CPU time of a network's forward passes.

    Args:
        network: what is watched.
    """

    def __init__(self, network: nn.Module) -> None:
        self._total = self._begin = 0.0
        network.register_forward_pre_hook(self._start)
        network.register_forward_hook(self._stop)

    def _start(self, *call: object) -> None:
        self._begin = time.process_time()

    def _stop(self, *call: object) -> None:
        self._total += time.process_time() - self._begin

    def share_of(self, call: Callable[[], object]) -> tuple[float, float]:
        """Returns the seconds of a call, and the share of them spent in forward passes."""
        self._total, begin = 0.0, time.process_time()
        call()
        whole = time.process_time() - begin
        return whole, self._total / whole


def boxes_of(data: DataSet) -> Tensor:
    """Returns the data's own boxes, or made-up ones around the middle."""
    if data.test_boxes is not None:
        return data.test_boxes
    side = data.shape[1]
    edges = torch.randint(1, side // 2, (len(data.test), 1, 2), generator=seeded(0))
    return torch.cat((edges, side - edges), 2)


def parts(network: nn.Module, data: DataSet, boxes: Tensor) -> dict[str, Callable[[], object]]:
    """Returns calls that do what `comixup evaluate` does, part by part."""
    loader = data.test.loader(BATCH)
    maps_of = ActivationMaps(network, next(loader.epoch(0))[0])
    calls: dict[str, Callable[[], object]] = {
        "predictions": lambda: measure(predict(network, loader.epoch(0))),
        "localization": lambda: localize(maps_of, loader.epoch(0), boxes),
    }
    for kind in CORRUPTIONS:

        def corrupted(kind: str = kind) -> object:
            return predict(network, CorruptedLoader(data, data.test, boxes, kind, BATCH).epoch())

        calls[f"corruption: {kind}"] = corrupted
    return calls


def shares(name: str, rounds: int, images: int) -> float:
    """Prints a data set's table; returns the least share."""
    data = load(name)
    boxes = boxes_of(data)
    rows, least = [], 1.0
    for title, step in NETWORKS.items():
        torch.manual_seed(0)
        network = models.build(title, data.num_classes, shape=data.shape).eval()
        network.to(memory_format=MEMORY_FORMAT)
        chosen = torch.arange(min(images, len(data.test)) // step)
        part = DataSet(**{**vars(data), "test": data.test.subset(chosen)})
        clock, calls = ForwardClock(network), parts(network, part, boxes[chosen])
        found: dict[str, list[tuple[float, float]]] = {what: [] for what in calls}
        for _ in progress(range(rounds + 1), f"{name}, {title}"):
            for what, call in calls.items():
                found[what].append(clock.share_of(call))
        for what, values in found.items():
            whole = statistics.median(value[0] for value in values[1:])
            share = statistics.median(value[1] for value in values[1:])
            least = min(least, share)
            rows.append([f"{title}, {what}", f"{whole * 1e6 / len(chosen):.0f}", f"{share:.1%}"])
    table(f"{name}, {rounds} rounds", ["", "CPU microseconds an image", "in the forward"], rows)
    return least


def main() -> int:
    arguments = options(__doc__, rounds=3, images=5_000)
    if not os.environ.get("COMIXUP_DATA"):
        console.print("COMIXUP_DATA must name a folder with cifar-100-python, got nothing.")
        return 2
    for name in DATA:
        try:
            least = shares(name, arguments.rounds, arguments.images)
        except FileNotFoundError as error:
            console.print(f"{name} is left out: {error}")
            continue
        target(f"{name}: at least {WANTED:.0%} in the forward (got {least:.1%})", least >= WANTED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
