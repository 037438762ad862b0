"""Training losses: cross-entropy, or the loss of the official implementation."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from comixup import LossFn
from comixup._checks import check_count
from comixup.lab.training._recipe import LossName
from comixup.mixers import decoupled_cross_entropy


def losses(
    name: LossName,
    num_classes: int,
    class_weights: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> tuple[LossFn, LossFn]:
    """Returns the loss of the mixed batch and the loss of the clean batch.

    "cross-entropy" is cross-entropy for both, as the paper writes it. "official" is the loss of the
    official implementation on CIFAR-100 and Tiny ImageNet: `mean_binary_cross_entropy` for the
    mixed batch, 2 / C times cross-entropy for the clean one. "decoupled" is
    `comixup.mixers.decoupled_cross_entropy` for both. "binary-cross-entropy" is for multi-label
    data: each class is a binary problem.

    The published learning rates belong to the official loss. Its gradient is about 2 / C of
    cross-entropy's for C classes, so the published learning rate 0.2 and weight decay 1e-4
    correspond, at C = 100, roughly to 0.004 and 5e-3 under plain cross-entropy. This is inferred
    from the two formulas: the paper does not mention it, and near the start of training, when every
    class is unlikely, the ratio is closer to 1 / C.

    Args:
        name: "cross-entropy", "official", "binary-cross-entropy" or "decoupled".
        num_classes: C.
        class_weights: (C,) class weights, for cross-entropy; None: equal weights.
        label_smoothing: amount of label smoothing, for cross-entropy.

    >>> mixed_loss, clean_loss = losses("official", num_classes=4)
    >>> logits, targets = torch.zeros(2, 4), torch.tensor([3, 0])
    >>> print(f"{mixed_loss(logits, targets):.4f} {clean_loss(logits, targets):.4f}")
    0.5623 0.6931
    """
    check_count("num_classes", num_classes, low=2)
    if class_weights is not None:
        weighted = weighted_cross_entropy(class_weights, label_smoothing)
        return weighted, weighted
    if name == "cross-entropy":
        plain = functools.partial(soft_cross_entropy, label_smoothing=label_smoothing)
        return plain, plain
    if name == "decoupled":
        return decoupled_cross_entropy, decoupled_cross_entropy
    if name == "binary-cross-entropy":
        return binary_cross_entropy, binary_cross_entropy
    # Paper: its equations use cross-entropy, and the experiments were run with these two losses.
    # The factor 2 / C makes the gradient of the clean loss as large as that of the mixed one.
    return mean_binary_cross_entropy, lambda *pair: 2 / num_classes * soft_cross_entropy(*pair)


def soft_cross_entropy(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Returns the mean cross-entropy for class indices (m,) or class probabilities (m, classes)."""
    logits = _in_full_precision(logits)
    if targets.is_floating_point():
        targets = targets.to(logits.dtype)
    return F.cross_entropy(logits, targets, label_smoothing=label_smoothing)


def weighted_cross_entropy(class_weights: Tensor, label_smoothing: float = 0.0) -> LossFn:
    """Returns a class-weighted cross-entropy, for class indices or class probabilities.

    The mean is over images, not over weights: mixed and unmixed batches have the same scale.

    >>> loss = weighted_cross_entropy(torch.tensor([2.0, 1.0]))
    >>> print(f"{loss(torch.zeros(1, 2), torch.tensor([0])):.4f}")
    1.3863
    """

    def loss(logits: Any, targets: Tensor) -> Tensor:
        log_p = F.log_softmax(_in_full_precision(logits), dim=1)
        weights = class_weights.to(log_p)
        if not targets.is_floating_point():
            targets = F.one_hot(targets, len(weights))
        targets = targets * (1 - label_smoothing) + label_smoothing / len(weights)
        return -(targets * weights * log_p).sum(1).mean()

    return loss


def binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean over images and classes of the binary cross-entropy of sigmoid(logits)."""
    logits = _in_full_precision(logits)
    return F.binary_cross_entropy_with_logits(logits, targets.to(logits.dtype))


def balanced_weights(targets: Tensor, num_classes: int) -> Tensor:
    """Returns class weights inversely proportional to class sizes, with mean 1 over images.

    >>> balanced_weights(torch.tensor([0, 0, 0, 1]), 2)
    tensor([0.6667, 2.0000])
    """
    counts = torch.bincount(targets, minlength=num_classes)
    return len(targets) / (num_classes * counts.clamp(min=1).float())


def mean_binary_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Returns the mean over images and classes of the binary cross-entropy of softmax(logits).

    Each class is a binary problem, -y log p - (1 - y) log(1 - p), where p is its probability and y
    its weight in the target.

    torch's `binary_cross_entropy` is equal at moderate logits. But it rejects autocast, clamps its
    logarithms at -100, and has no gradient where a probability rounds to 1; here values and
    gradients are accurate for all finite logits.

    Args:
        logits: (m, classes), finite, with two classes or more.
        targets: (m,) class indices, or (m, classes) class probabilities.

    >>> logits = torch.tensor([[1000.0, 0.0]])
    >>> mean_binary_cross_entropy(logits, torch.tensor([1])).item()
    1000.0
    """
    log_p = F.log_softmax(_in_full_precision(logits), dim=1)
    log_not_p = _log_of_the_rest(log_p)
    if targets.ndim == 1:
        weights = torch.zeros_like(log_p).scatter_(1, targets.long().unsqueeze(1), 1.0)
    else:
        weights = targets.to(log_p.dtype)
    return -(weights * log_p + (1 - weights) * log_not_p).mean()


def _log_of_the_rest(log_p: Tensor) -> Tensor:
    """Returns log(1 - p), given log p of probabilities that sum to 1 over the last dimension."""
    # Only the likeliest class can be so close to 1 that 1 - p rounds to 0. Its 1 - p is the sum of
    # the others' probabilities, whose logarithms are accurate. It is masked in the other branch,
    # since the gradient of log(0) would turn the sum into NaN, even if not selected.
    top = log_p.detach().argmax(1, keepdim=True)
    others = log_p.scatter(1, top, -torch.inf)
    # Factoring the second likeliest out keeps its gradient exact: logsumexp's backward pass has the
    # exponential of a difference, inaccurate for large numbers.
    second = others.detach().amax(1, keepdim=True)
    rest = second + (others - second).logsumexp(1, keepdim=True)
    return torch.log1p(-others.exp()).scatter(1, top, rest)


def _in_full_precision(logits: Tensor) -> Tensor:
    """Returns logits in float32 or float64: half precision rounds small losses to 0."""
    return logits if logits.dtype == torch.float64 else logits.float()
