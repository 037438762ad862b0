"""From a plan and a batch to mixed images and soft targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from comixup._targets import soft_targets
from comixup._tensor_checks import check_images


class Plan(Protocol):
    """How a batch is to be mixed: drawn once, applied to as many tensors as wanted.

    A `Labelling` is one; every other method has its own.
    """

    @property
    def num_inputs(self) -> int:
        """m, the number of inputs it mixes."""

    @property
    def masks(self) -> Tensor:
        """The share of each input at each location of each output, (m', m, *grid or size)."""

    def source_ratio(self, size: Sequence[int] | None = None) -> Tensor:
        """Returns the share of each input in each output of a size, (m', m); rows sum to one."""

    def mix_images(self, images: Tensor) -> Tensor:
        """Returns a tensor (m, C, *size) mixed: images, one-hot masks, a teacher's maps."""


def mix(
    images: Tensor,
    targets: Tensor,
    plan: Plan,
    *,
    num_classes: int | None = None,
    source_ratio: Tensor | None = None,
    validate: bool = False,
) -> tuple[Tensor, Tensor]:
    """Returns the mixed images, (m', C, *size), and their soft targets, (m', classes) float32.

    The target of output j is the mean of its inputs' targets, weighted by o~_j, their share of its
    pixels (section 3 of the paper).

    Args:
        images: (m, C, *size) with 1 to 3 spatial dimensions. Not changed.
        targets: (m,) class indices, or (m, classes) probabilities or multi-label. Not changed.
        plan: how to mix: a `Labelling`, or another method's plan (`mixer.last.plan`).
        num_classes: the number of classes; needed for class indices.
        source_ratio: (m', m) weights of the targets, in place of the shares of the pixels.
        validate: check class indices even where the host has to wait for a device.

    >>> import torch
    >>> from comixup import Labelling
    >>> halves = Labelling(torch.tensor([[[[0, 1]]], [[[1, 1]]]]), num_inputs=2)
    >>> images = torch.tensor([1.0, 2.0]).view(2, 1, 1, 1).expand(2, 1, 1, 4)
    >>> mixed, targets = mix(images, torch.tensor([0, 2]), halves, num_classes=3)
    >>> mixed.squeeze().tolist(), targets.tolist()
    ([[1.0, 1.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0]], [[0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
    """
    check_images(images)
    soft = soft_targets(targets, len(images), num_classes, validate=validate)
    if source_ratio is None:
        source_ratio = plan.source_ratio(images.shape[2:])
    return plan.mix_images(images), mix_targets(soft, source_ratio)


def mix_targets(targets: Tensor, source_ratio: Tensor) -> Tensor:
    """Returns the targets of the outputs, (m', classes), from those of the inputs, (m, classes)."""
    # Under autocast the product would be in half precision, too coarse for a probability.
    with torch.autocast(targets.device.type, enabled=False):
        return source_ratio.to(targets.device, non_blocking=True) @ targets
