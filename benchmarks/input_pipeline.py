"""Cost of an augmented batch against a training step, and against torchvision's way to make it.

Batches of 100: CIFAR-100 (32 x 32, shifted by up to 2 pixels, mirrored) and Tiny-ImageNet (64 x 64,
up to 4). "torchvision" is a DataLoader over the same images in memory as pictures, with its
transforms RandomHorizontalFlip, RandomCrop, ToTensor and Normalize, in this process and with two
workers. Steps are plain stochastic gradient descent, on one thread like everything else (only
CIFAR-100 is tried with the ResNet-18: larger images make the share smaller still). All in turns;
times are medians of CPU time, workers included, since other work on the machine would count against
the longer ones; wall clock besides. Needs COMIXUP_DATA to name a folder with `cifar-100-python`,
and with Tiny-ImageNet for its part.
"""

from __future__ import annotations

import itertools
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms.functional import to_pil_image

from comixup.data import DataSet, load
from comixup.data._in_memory import MemorySplit
from common import console, options, progress, table, target
from networks import cifar_resnet18, small_network

BATCH = 100
WORKERS = 2
WANTED_MS = {"cifar100": 1.5, "tiny-imagenet": 6.0}
WANTED_SHARE = 0.05
"""Of a training step."""
NETWORKS = {
    "cifar100": {"small network": small_network, "ResNet-18": cifar_resnet18},
    "tiny-imagenet": {"small network": small_network},
}


class Pictures(Dataset):
    """A split's images as torchvision's own data sets keep them."""

    def __init__(self, data: DataSet, split: MemorySplit) -> None:
        self.images = split.images.permute(0, 2, 3, 1).contiguous().numpy()
        self.targets = split.targets.tolist()
        self.transform = transforms.Compose(
            [
                transforms.RandomHorizontalFlip(),
                transforms.RandomCrop(split.images.shape[-1], padding=split.pad),
                transforms.ToTensor(),
                transforms.Normalize(data.mean, data.std),
            ]
        )

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Returns an augmented image and its class."""
        return self.transform(to_pil_image(self.images[index])), self.targets[index]


def cpu_seconds() -> float:
    """Returns the CPU time of this process and of workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def ours(data: DataSet) -> Iterator[tuple[Tensor, Tensor]]:
    loader = data.train.loader(BATCH, augment="crop-flip")
    return itertools.chain.from_iterable(loader.epoch(epoch) for epoch in itertools.count())


def training_step(network: nn.Module, images: Tensor, targets: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(network(images), targets).backward()
        optimizer.step()

    return step


def per_batch(call: Callable[[], object], batches: int = 1) -> tuple[float, float]:
    """Returns the CPU and wall ms of a batch, in a call that makes several."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    call()
    return (cpu_seconds() - cpu) * 1e3 / batches, (time.perf_counter() - wall) * 1e3 / batches


def measure(name: str, data: DataSet, rounds: int, many: int) -> dict[str, tuple[float, float]]:
    """Returns the median CPU and wall ms of a batch or a step, each thing done once a round."""
    pictures, batches = Pictures(data, data.train), ours(data)
    images, targets = next(batches)

    def theirs(workers: int) -> Callable[[], None]:
        # An epoch of its own: workers are started and ended, and ended ones are counted.
        chosen = torch.utils.data.Subset(pictures, range(many * BATCH))
        loader = DataLoader(chosen, BATCH, shuffle=True, num_workers=workers)
        return lambda: all(True for _ in loader)

    calls: dict[str, tuple[Callable[[], object], int]] = {
        "comixup.data": (lambda: [next(batches) for _ in range(many)], many),
        "torchvision": (theirs(0), many),
        f"torchvision, {WORKERS} workers": (theirs(WORKERS), many),
    }
    for network, make in NETWORKS[name].items():
        torch.manual_seed(0)
        calls[network] = (training_step(make(data.num_classes), images, targets), 1)
    times: dict[str, list[tuple[float, float]]] = {what: [] for what in calls}
    for _ in progress(range(rounds + 1), name):
        for what, (call, count) in calls.items():
            times[what].append(per_batch(call, count))
    return {
        what: (
            statistics.median(t[0] for t in values[1:]),
            statistics.median(t[1] for t in values[1:]),
        )
        for what, values in times.items()
    }


def report(name: str, times: dict[str, tuple[float, float]]) -> None:
    mine = times["comixup.data"][0]
    table(
        f"{name}, batches of {BATCH}",
        ["", "CPU ms", "wall ms", "comixup.data's share"],
        [
            [what, f"{cpu:.2f}", f"{wall:.2f}", f"{mine / cpu:.1%}"]
            for what, (cpu, wall) in times.items()
        ],
    )
    wanted = WANTED_MS[name]
    target(f"{name}: at most {wanted} ms a batch (got {mine:.2f})", mine <= wanted)
    for network in NETWORKS[name]:
        share = mine / times[network][0]
        target(
            f"{name}: under {WANTED_SHARE:.0%} of a step of the {network} (got {share:.1%})",
            share < WANTED_SHARE,
        )


def main() -> int:
    arguments = options(__doc__, rounds=5, batches=20)
    if not os.environ.get("COMIXUP_DATA"):
        console.print("COMIXUP_DATA must name a folder with cifar-100-python, got nothing.")
        return 2
    for name in WANTED_MS:
        try:
            data = load(name)
        except FileNotFoundError as error:
            console.print(f"{name} is left out: {error}")
            continue
        report(name, measure(name, data, arguments.rounds, arguments.batches))
    return 0


if __name__ == "__main__":
    sys.exit(main())
