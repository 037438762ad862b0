"""The loop over evaluation batches: errors and losses after an epoch, logits at the end."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from comixup._passes import unwrapped
from comixup.lab._networks import MEMORY_FORMAT
from comixup.lab.data import Loader
from comixup.lab.training._processes import share_buffers, summed

TOP = 5


@torch.no_grad()
def validate(fabric: Fabric, model: nn.Module, loader: Loader) -> dict[str, float]:
    """Returns top-1 and top-5 error in percent and the mean cross-entropy, over all processes.

    Of images with any number of labels, the error is that of all yes-or-no answers, and the loss
    binary cross-entropy.

    Processes may have different numbers of images, so the model is run without the wrapper that
    would make them wait for each other.
    """
    inner = unwrapped(model)
    share_buffers(fabric, inner)
    inner.eval()
    sums = torch.zeros(4, device=fabric.device)
    for images, targets in loader.epoch(0):
        if len(images):
            sums += _sums_of(_logits_of_batch(fabric, inner, images), targets)
    loss, wrong, not_in_top, count = summed(fabric, sums)
    metrics = {"error": 100 * wrong / count, "loss": loss / count}
    return metrics | ({} if targets.ndim > 1 else {"top5_error": 100 * not_in_top / count})


def _sums_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Returns a batch's loss, errors, errors in the top 5, and number of images."""
    if targets.ndim > 1:
        loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(1)
        wrong = ((logits > 0) != (targets > 0)).float().mean(1)
        not_in_top = wrong
    else:
        loss = F.cross_entropy(logits, targets, reduction="none")
        top = logits.topk(min(TOP, logits.shape[1]), dim=1).indices == targets[:, None]
        wrong, not_in_top = (~top[:, 0]).float(), (~top.any(1)).float()
    return torch.stack([loss.sum(), wrong.sum(), not_in_top.sum(), loss.new_tensor(len(loss))])


@torch.no_grad()
def logits_of(fabric: Fabric, model: nn.Module, loader: Loader) -> tuple[Tensor, Tensor]:
    """Returns the logits of all images, (n, classes) float32, and their classes, in host memory.

    Args:
        fabric: of this process, which computes alone.
        model: the network, wrapped or not.
        loader: of whole batches, not of this process's share of them.
    """
    inner = unwrapped(model)
    inner.eval()
    logits, classes = [], []
    for images, targets in loader.epoch(0):
        logits.append(_logits_of_batch(fabric, inner, images))
        classes.append(targets)
    return torch.cat(logits).cpu(), torch.cat(classes).cpu()


def _logits_of_batch(fabric: Fabric, inner: nn.Module, images: Tensor) -> Tensor:
    """Returns float32 logits, computed in the run's precision as Fabric's wrapper would."""
    # Not the precision's own type: averaged weights are float32 where those in training are half.
    converted = images.to(next(inner.parameters()).dtype)
    with fabric.autocast():
        logits: Tensor = inner(converted.contiguous(memory_format=MEMORY_FORMAT))
    return logits.float()
