"""Cost of an augmented batch against a training step, and against torchvision's way to make it.

Batches of 100: CIFAR-100 (32 x 32, shifted by up to 2 pixels, mirrored) and Tiny-ImageNet (64 x 64,
up to 4). "torchvision" is a DataLoader over the same images in memory as pictures, with its
transforms RandomHorizontalFlip, RandomCrop, ToTensor and Normalize, in this process and with two
workers. Steps are plain stochastic gradient descent, on one thread like everything else (only
CIFAR-100 is tried with the ResNet-18: larger images make the share smaller still). All in turns;
times are medians of CPU time, workers included, since other work on the machine would count against
the longer ones; wall clock besides. Needs COMIXUP_DATA to name a folder with `cifar-100-python`,
and with Tiny-ImageNet for its part.

Then what it costs to follow augmentation: samples of `WithOrigins` against those of the plain v2
pipeline, with crops and flips and with TrivialAugment on top, of 32 x 32 PIL images and of 224 x
224 crops of JPEG files of 500 x 375 (smooth noise) that are decoded each time; and how long a
training process waits for batches that two workers make. It needs no data.
"""

from __future__ import annotations

import functools
import io
import itertools
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import PIL.Image
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms import v2
from torchvision.transforms.functional import to_pil_image

from comixup import SaliencyMemory
from comixup.adapters.origins import WithOrigins
from comixup.lab.data import DataSet, load
from comixup.lab.data._in_memory import MemorySplit
from common import console, options, progress, table, target
from networks import cifar_resnet18, small_network

BATCH = 100
WORKERS = 2
WANTED_MS = {"cifar100": 1.5, "tiny-imagenet": 6.0}
WANTED_SHARE = 0.05
"""Of a training step."""
WANTED_RATIO = {32: 1.5, 224: 1.3}
"""Of the time of the plain pipeline, by the images' size."""
PHOTOGRAPHS, PHOTOGRAPH = 40, (500, 375)
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
        "comixup.lab.data": (lambda: [next(batches) for _ in range(many)], many),
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
    mine = times["comixup.lab.data"][0]
    table(
        f"{name}, batches of {BATCH}",
        ["", "CPU ms", "wall ms", "comixup.lab.data's share"],
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


class Decoded(Dataset):
    """PIL images of one size in memory (32), or JPEG files that are decoded (224)."""

    def __init__(self, size: int, count: int) -> None:
        random, self.size = np.random.default_rng(0), size
        shape = (size, size, 3) if size == 32 else (12, 16, 3)
        noise = random.integers(0, 256, (count, *shape), dtype=np.uint8)
        self.items = [PIL.Image.fromarray(array) for array in noise]
        if size != 32:
            self.items = [_jpeg(picture.resize(PHOTOGRAPH)) for picture in self.items]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> tuple[PIL.Image.Image, int]:
        """Returns an image and a class."""
        item = self.items[index]
        if isinstance(item, bytes):
            item = PIL.Image.open(io.BytesIO(item)).convert("RGB")
        return item, index % 10


class Plain(Dataset):
    """The same data set with a transform, as everybody has it."""

    def __init__(self, dataset: Decoded, transform: v2.Transform) -> None:
        self.dataset, self.transform = dataset, transform

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Returns an augmented image and its class."""
        image, target = self.dataset[index]
        return self.transform(image), target


def _jpeg(picture: PIL.Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def pipeline(size: int, trivial: bool) -> v2.Transform:
    crop = v2.RandomCrop(32, padding=4) if size == 32 else v2.RandomResizedCrop(224)
    end = [
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([0.5] * 3, [0.25] * 3),
    ]
    extra = [v2.TrivialAugmentWide()] if trivial else []
    return v2.Compose([crop, v2.RandomHorizontalFlip(), *extra, *end])


def follow_augmentation(rounds: int, batches: int) -> None:
    """Prints what samples with cell numbers cost, against those without."""
    rows = []
    for size, trivial in itertools.product(WANTED_RATIO, (False, True)):
        images, transform = Decoded(size, PHOTOGRAPHS), pipeline(size, trivial)
        plain = Plain(images, transform)
        tracked = WithOrigins(images, SaliencyMemory(len(images)), transform)
        times: dict[str, list[float]] = {"plain": [], "tracked": []}
        indices = list(range(PHOTOGRAPHS)) * max(1, batches // (1 if size == 32 else 5))
        for _ in progress(range(rounds + 1), f"{size}"):
            for name, dataset in (("plain", plain), ("tracked", tracked)):
                torch.manual_seed(0)  # the same draws for both
                load_all = functools.partial(all, (dataset[index] for index in indices))
                times[name].append(per_batch(load_all, len(indices))[0] * 1e3)
        medians = {name: statistics.median(values[1:]) for name, values in times.items()}
        ratio = medians["tracked"] / medians["plain"]
        what = f"{size} x {size}, {'TrivialAugment' if trivial else 'crop and flip'}"
        rows.append([what, f"{medians['plain']:.0f}", f"{medians['tracked']:.0f}", f"{ratio:.2f}"])
        target(
            f"{what}: at most {WANTED_RATIO[size]} times the plain pipeline (got {ratio:.2f})",
            ratio <= WANTED_RATIO[size],
        )
    table("A sample, CPU time in microseconds", ["", "plain", "WithOrigins", "ratio"], rows)


def waiting(batches: int) -> None:
    """Prints how long a training process waits for batches of two workers, TrivialAugment in."""
    images = Decoded(32, 20 * BATCH)
    tracked = WithOrigins(images, SaliencyMemory(len(images)), pipeline(32, trivial=True))
    network = small_network(10)
    waits, steps = [], []
    loader = iter(DataLoader(tracked, BATCH, shuffle=True, num_workers=WORKERS))
    for _ in range(min(batches, 20)):
        start = time.perf_counter()
        inputs, targets, _ = next(loader)
        waits.append(time.perf_counter() - start)
        step = training_step(network, inputs, targets)
        start = time.perf_counter()
        step()
        steps.append(time.perf_counter() - start)
    # The first batch waits for the workers to start.
    share = statistics.mean(waits[1:]) / statistics.mean(steps[1:])
    target(
        f"waiting for {WORKERS} workers under {WANTED_SHARE:.0%} of a step of the small network, "
        f"batches of {BATCH}, 32 x 32, TrivialAugment (got {share:.1%})",
        share < WANTED_SHARE,
    )


def main() -> int:
    arguments = options(__doc__, rounds=5, batches=20)
    follow_augmentation(arguments.rounds, arguments.batches)
    waiting(arguments.batches)
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
