"""Predictions of a network, a few numbers per image: the logits of all are never kept at once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from comixup.lab._networks import MEMORY_FORMAT


@dataclass(frozen=True, eq=False)
class Predictions:
    """What metrics need of each image's logits, in host memory: 48 bytes per image.

    Attributes:
        num_classes: number of classes.
        targets: (n,) int64, the true classes.
        predicted: (n,) int64, the classes with the highest logits; the first of equals.
        ranks: (n,) int64, how many classes come before the true one: 0 means correct. Of classes
            with equal logits those of lower index come first.
        confidences: (n,) float64, the predicted classes' probabilities.
        losses: (n,) float64, minus the logarithm of the true classes' probabilities.
        briers: (n,) float64, squared distances from the probabilities to the one-hot targets,
            summed over the classes: from 0 to 2.
    """

    num_classes: int
    targets: Tensor
    predicted: Tensor
    ranks: Tensor
    confidences: Tensor
    losses: Tensor
    briers: Tensor

    def __len__(self) -> int:
        return len(self.targets)


@torch.no_grad()
def predict(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],
    device: torch.device | str = "cpu",
    after: Callable[[int], object] | None = None,
) -> Predictions:
    """Returns what a model makes of all images, in evaluation mode; its own mode comes back.

    The host waits for the device once, at the end.

    Args:
        model: on the device.
        batches: of images and classes, such as `split.loader(250, device=device).epoch(0)`.
        device: where to compute.
        after: called with the number of images done, after each batch.

    >>> model = nn.Sequential(nn.Flatten(), nn.Identity())
    >>> found = predict(model, [(torch.tensor([[[[0.0, 9.0]]]]), torch.tensor([1]))])
    >>> found.predicted, found.ranks
    (tensor([1]), tensor([0]))
    """
    counts, numbers, classes, done = [], [], 0, 0
    with _evaluating(model):
        for images, targets in batches:
            if not len(images):  # a process's share of the last batch may be empty
                continue
            logits = model(images.to(device).contiguous(memory_format=_format_for(images)))
            classes = _classes_of(logits, len(images), classes)
            whole, fractional = _statistics(logits.float(), targets.to(device))
            counts.append(whole)
            numbers.append(fractional)
            done += len(images)
            if after is not None:
                after(done)
    if not done:
        raise ValueError("`batches` must have images, got none. Choose a split that has some.")
    targets, predicted, ranks = torch.cat(counts, 1).cpu()
    confidences, losses, briers = torch.cat(numbers, 1).cpu().double()
    _check(targets, confidences, classes)
    return Predictions(classes, targets, predicted, ranks, confidences, losses, briers)


def predictions_of(logits: Tensor, targets: Tensor) -> Predictions:
    """Returns what logits that were computed before say of each image.

    Args:
        logits: (n, classes).
        targets: (n,) class indices.

    >>> predictions_of(torch.tensor([[0.0, 9.0]]), torch.tensor([1])).ranks
    tensor([0])
    """
    classes = _classes_of(logits, len(targets), 0)
    (targets, predicted, ranks), numbers = _statistics(logits.double(), targets)
    confidences, losses, briers = numbers
    _check(targets, confidences, classes)
    return Predictions(classes, targets, predicted, ranks, confidences, losses, briers)


def _statistics(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Returns (3, batch) whole numbers and (3, batch) fractional ones; see `Predictions`."""
    # An index out of range would end a CUDA process: it is clamped here, and rejected
    # once the host reads the targets.
    index = targets.clamp(0, logits.shape[1] - 1)[:, None]
    log_p = logits.log_softmax(1)
    p = log_p.exp()
    # Ordered by logits and not by probabilities, which round many logits to the same number.
    predicted = logits.argmax(1)
    own = logits.gather(1, index)
    before = torch.arange(logits.shape[1], device=logits.device) < index
    ranks = ((logits > own) | ((logits == own) & before)).sum(1)
    briers = p.square().sum(1) - 2 * p.gather(1, index)[:, 0] + 1
    losses = -log_p.gather(1, index)[:, 0]
    whole = torch.stack((targets, predicted, ranks))
    return whole, torch.stack((p.amax(1), losses, briers.clamp(min=0)))


def _format_for(images: Tensor) -> torch.memory_format:
    return MEMORY_FORMAT if images.ndim == 4 else torch.contiguous_format


def _classes_of(logits: object, images: int, before: int) -> int:
    """Returns the number of classes of a batch of logits."""
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != images:
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"`model` must return logits of shape ({images}, classes) for {images} images, got "
            f"{got}. Evaluate a classifier."
        )
    if before not in (0, logits.shape[1]):
        raise ValueError(
            f"`model` must return as many logits for every image, got {before} and then "
            f"{logits.shape[1]}."
        )
    return logits.shape[1]


def _check(targets: Tensor, confidences: Tensor, classes: int) -> None:
    """Raises `ValueError` for classes without a logit, and logits that are NaN."""
    wrong = (targets < 0) | (targets >= classes)
    if wrong.any():
        raise ValueError(
            f"`batches` must have classes from 0 to {classes - 1}, those that the model knows, "
            f"got {int(targets[wrong][0])}. Evaluate on the data set it was trained on."
        )
    bad = int(confidences.isnan().sum())
    if bad:
        raise ValueError(
            f"`model` must return logits that are numbers, but those of {bad} of {len(targets)} "
            "images are infinite or not a number. Its weights, or those images, are damaged."
        )


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Puts a model and its modules in evaluation mode for a while."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training
