"""Metrics of a network: during training, and of its final logits."""

from __future__ import annotations

import statistics

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn
from torchmetrics.functional.classification import binary_average_precision

from comixup._passes import unwrapped
from comixup.lab._calibration import error_and_calibration
from comixup.lab._networks import MEMORY_FORMAT
from comixup.lab.data import Loader
from comixup.lab.training._processes import share_buffers, summed

TOP = 5
Logits = tuple[Tensor, Tensor]
"""(n, classes) logits, and (n,) classes or (n, classes) labels of 0 and 1."""


def measures(logits: Tensor, targets: Tensor) -> dict[str, float]:
    """Returns error, balanced error and ECE in percent, NLL, and the number of images.

    The balanced error is the mean over classes with images. For multi-label data, the error is that
    of all binary predictions, and the mean average precision over labels with images replaces
    balanced error and ECE.

    Args:
        logits: (n, classes).
        targets: (n,) class indices, or (n, classes) of 0 and 1.

    >>> measures(torch.tensor([[9.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1]))["error"]
    50.0
    """
    logits = logits.double()
    if targets.ndim > 1:
        precisions = [
            binary_average_precision(scores, answers).item()
            for scores, answers in zip(logits.sigmoid().T, targets.long().T, strict=True)
            if answers.any()
        ]
        # Without any label in the test images there is no precision.
        found = {"mean_average_precision": 100 * statistics.mean(precisions)} if precisions else {}
        return {
            "images": len(targets),
            "error": 100 * ((logits > 0) != (targets > 0)).double().mean().item(),
            **found,
            "nll": F.binary_cross_entropy_with_logits(logits, targets.double()).item(),
        }
    errors = [e for _, e in class_errors(logits, targets) if e is not None]
    # Compare logits: different ones may round to equal confidences.
    correct = logits.argmax(1) == targets
    losses = F.cross_entropy(logits, targets, reduction="none")
    confidences = logits.softmax(1).amax(1)
    return {
        "images": len(targets),
        **error_and_calibration(correct, losses, confidences),
        "balanced_error": sum(errors) / len(errors),
    }


def class_errors(logits: Tensor, targets: Tensor) -> list[tuple[int, float | None]]:
    """Returns each class's number of images and error in percent; None without images.

    For multi-label data, a class's images are those with its label, and errors those of them for
    which it is not predicted.

    >>> class_errors(torch.tensor([[9.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 1]))
    [(1, 0.0), (1, 100.0)]
    """
    num_classes = logits.shape[1]
    if targets.ndim > 1:
        members, wrong = targets > 0, (targets > 0) & (logits <= 0)
    else:
        members = F.one_hot(targets, num_classes) > 0
        wrong = members & (logits.argmax(1) != targets)[:, None]
    counts, errors = members.sum(0).tolist(), wrong.sum(0).tolist()
    return [(n, 100 * e / n if n else None) for n, e in zip(counts, errors, strict=True)]


@torch.no_grad()
def validate(fabric: Fabric, model: nn.Module, loader: Loader) -> dict[str, float]:
    """Returns top-1 and top-5 error in percent and the mean cross-entropy, over all processes.

    For multi-label data, the error is that of all binary predictions, and the loss binary
    cross-entropy.

    Processes may have different numbers of images, so the model is run without the DDP wrapper,
    which would synchronize them.
    """
    inner = unwrapped(model)
    share_buffers(fabric, inner)
    inner.eval()
    sums = torch.zeros(4, device=fabric.device)
    for images, targets in loader.epoch(0):
        if not len(images):
            continue
        logits = _logits_of_batch(fabric, inner, images)
        if targets.ndim > 1:
            loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(1)
            wrong = not_in_top = ((logits > 0) != (targets > 0)).float().mean(1)
        else:
            loss = F.cross_entropy(logits, targets, reduction="none")
            top = logits.topk(min(TOP, logits.shape[1]), dim=1).indices == targets[:, None]
            wrong, not_in_top = (~top[:, 0]).float(), (~top.any(1)).float()
        of_batch = (loss.sum(), wrong.sum(), not_in_top.sum(), loss.new_tensor(len(loss)))
        sums += torch.stack(of_batch)
    total, errors, top_errors, count = summed(fabric, sums)
    metrics = {"error": 100 * errors / count, "loss": total / count}
    return metrics | ({} if targets.ndim > 1 else {"top5_error": 100 * top_errors / count})


@torch.no_grad()
def logits_of(
    fabric: Fabric, model: nn.Module, loader: Loader, targets: Tensor, num_classes: int
) -> Logits:
    """Returns the logits of all images, (n, classes) float32, and their classes, in host memory.

    Each process computes its shares of the batches; all return the complete result.

    Args:
        fabric: Fabric of the processes.
        model: the network.
        loader: this process's shares.
        targets: targets of all images.
        num_classes: number of classes.
    """
    inner = unwrapped(model)
    share_buffers(fabric, inner)
    inner.eval()
    logits = torch.zeros(len(targets), num_classes, device=fabric.device)
    for step, (images, _) in enumerate(loader.epoch(0)):
        if len(images):
            logits[loader.share(step)] = _logits_of_batch(fabric, inner, images)
    everybody = fabric.all_reduce(logits, reduce_op="sum")  # other processes' rows are 0
    return torch.as_tensor(everybody).cpu(), targets.cpu()


def _logits_of_batch(fabric: Fabric, inner: nn.Module, images: Tensor) -> Tensor:
    """Returns float32 logits, computed in the run's precision as Fabric's wrapper would."""
    # Not the precision's dtype: averaged weights are float32 even if the trained ones are half.
    converted = images.to(next(inner.parameters()).dtype)
    with fabric.autocast():
        logits: Tensor = inner(converted.contiguous(memory_format=MEMORY_FORMAT))
    return logits.float()
