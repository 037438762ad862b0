"""The loop over evaluation batches: errors and losses after an epoch, logits at the end."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from comixup._wrappers import unwrapped
from comixup.data import Loader
from comixup.models import MEMORY_FORMAT
from comixup.training._processes import share_buffers, summed

TOP = 5


@torch.no_grad()
def validate(fabric: Fabric, model: nn.Module, loader: Loader) -> dict[str, float]:
    """Returns top-1 and top-5 error in percent and the mean cross-entropy, over all processes.

    Processes may have different numbers of images, so the model is run without the wrapper that
    would make them wait for each other.
    """
    inner = unwrapped(model)
    share_buffers(fabric, inner)
    inner.eval()
    sums = torch.zeros(4, device=fabric.device)
    for images, targets in loader.epoch(0):
        if len(images):
            with fabric.autocast():
                logits = inner(images.contiguous(memory_format=MEMORY_FORMAT)).float()
            top = logits.topk(min(TOP, logits.shape[1]), dim=1).indices == targets[:, None]
            sums[0] += F.cross_entropy(logits, targets, reduction="sum")
            sums[1] += top[:, 0].sum()
            sums[2] += top.sum()
            sums[3] += len(targets)
    loss, correct, in_top, count = summed(fabric, sums)
    return {
        "error": 100 * (1 - correct / count),
        "top5_error": 100 * (1 - in_top / count),
        "loss": loss / count,
    }


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
        with fabric.autocast():
            logits.append(inner(images.contiguous(memory_format=MEMORY_FORMAT)).float())
        classes.append(targets)
    return torch.cat(logits).cpu(), torch.cat(classes).cpu()
