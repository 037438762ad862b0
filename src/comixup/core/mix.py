"""Mixed images and soft targets from a plan and a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_count
from comixup.core.masks import IGNORE_INDEX, one_hot_masks
from comixup.core.tensors import check_images, to_device, together


class Plan(Protocol):
    """How to mix a batch: drawn once, applied to any number of tensors.

    A `Labelling` is one; every other method has its own. An attribute `on_device` may name tensors
    to copy to the images' device together.
    """

    @property
    def num_inputs(self) -> int:
        """m, the number of inputs."""

    @property
    def masks(self) -> Tensor:
        """The share of each input at each location of each output, (m', m, *grid or size)."""

    def source_ratio(self, size: Sequence[int] | None = None) -> Tensor:
        """Returns the share of each input in each output of a size, (m', m); rows sum to one."""

    def mix_images(self, images: Tensor) -> Tensor:
        """Returns mixed tensors (m, C, *size): images, one-hot masks, a teacher's maps."""

    def mix_masks(self, masks: Tensor, ignore_index: int | None = IGNORE_INDEX) -> Tensor:
        """Returns masks of class indices, (m, *size) integers, mixed like the images.

        Blended pixels have the class with the largest share.
        """


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
        validate: check class indices on other devices too, which synchronizes with them.

    >>> import torch
    >>> from comixup import Labelling
    >>> halves = Labelling(torch.tensor([[[[0, 1]]], [[[1, 1]]]]), num_inputs=2)
    >>> images = torch.tensor([1.0, 2.0]).view(2, 1, 1, 1).expand(2, 1, 1, 4)
    >>> mixed, targets = mix(images, torch.tensor([0, 2]), halves, num_classes=3)
    >>> mixed.squeeze().tolist(), targets.tolist()
    ([[1.0, 1.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0]], [[0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])
    """
    check_images(images)
    check_boolean("validate", validate)
    soft = soft_targets(targets, len(images), num_classes, validate=validate)
    return mix_checked(images, soft, plan, source_ratio)


def mix_checked(
    images: Tensor, soft: Tensor, plan: Plan, source_ratio: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Same as `mix`, for checked images and soft targets."""
    if source_ratio is None:
        source_ratio = plan.source_ratio(images.shape[2:])
    names = getattr(plan, "on_device", ())
    if names and images.device.type != "cpu":
        values = [*(getattr(plan, name) for name in names), source_ratio]
        *moved, source_ratio = together(values, images.device)
        # All plans with `on_device` are dataclasses.
        plan = replace(plan, **dict(zip(names, moved, strict=True)))  # type: ignore[type-var]
    return plan.mix_images(images), mix_targets(soft, source_ratio)


def soft_targets(
    targets: Tensor, num_inputs: int, num_classes: int | None, *, validate: bool = False
) -> Tensor:
    """Returns targets as class probabilities, (m, classes) float32; see `mix`.

    Class indices in host memory are always checked; elsewhere the check would synchronize.

    >>> soft_targets(torch.tensor([1, 0]), 2, num_classes=3).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    if not isinstance(targets, Tensor):
        raise TypeError(
            f"`targets` must be a torch tensor, got {type(targets).__name__}. Use "
            "torch.as_tensor(targets)."
        )
    if targets.ndim not in (1, 2) or len(targets) != num_inputs:
        raise ValueError(
            f"`targets` must have shape ({num_inputs},) or ({num_inputs}, classes), a target for "
            f"each image, got {tuple(targets.shape)}."
        )
    if targets.ndim == 2:
        if num_classes is not None and targets.shape[1] != num_classes:
            raise ValueError(
                f"`targets` must have `num_classes` = {num_classes} columns, got "
                f"{targets.shape[1]}."
            )
        if targets.is_complex():
            raise TypeError(f"`targets` must hold real numbers, got {targets.dtype}.")
        return targets.float()
    if targets.is_floating_point() or targets.is_complex() or targets.dtype == torch.bool:
        raise TypeError(
            f"`targets` of shape ({num_inputs},) must be integers (class indices), got "
            f"{targets.dtype}. Soft targets have shape ({num_inputs}, classes), those of a single "
            f"class ({num_inputs}, 1)."
        )
    if num_classes is None:
        raise ValueError(
            "`num_classes` must be given where `targets` are class indices, got None. The mixed "
            "targets have a column for each class."
        )
    if validate or targets.device.type == "cpu":
        low, high = map(int, torch.aminmax(targets))
        if low < 0 or high >= num_classes:
            raise ValueError(
                f"`targets` must lie in 0..{num_classes - 1} (`num_classes` = {num_classes}), got "
                f"values from {low} to {high}."
            )
    probabilities = torch.zeros(num_inputs, num_classes, device=targets.device)
    return probabilities.scatter_(1, targets.long().unsqueeze(1), 1.0)


def mix_targets(targets: Tensor, source_ratio: Tensor) -> Tensor:
    """Returns the outputs' targets (m', classes) from the inputs' (m, classes)."""
    # Under autocast the product would be in half precision, too coarse for a probability.
    with torch.autocast(targets.device.type, enabled=False):
        return to_device(source_ratio, targets.device) @ targets


def mix_mask_probabilities(
    masks: Tensor, plan: Plan, num_classes: int, *, ignore_index: int | None = IGNORE_INDEX
) -> Tensor:
    """Returns the class probabilities of each pixel of mixed masks, (m', classes, *size) float32.

    Pass them to `cross_entropy` as targets. They sum to the share of the inputs that have a class
    at that pixel: usually 1; 0, and no loss, where all are ignored.

    Args:
        masks: (m, *size) class indices. Not changed.
        plan: how to mix (`mixer.last.plan`).
        num_classes: the number of classes.
        ignore_index: the value of pixels without a class; None if every value is one.

    >>> import torch
    >>> from comixup import Labelling
    >>> both = Labelling(torch.tensor([[[0, 1], [1, 1]]]), num_inputs=2)
    >>> mix_mask_probabilities(torch.tensor([[0, 0, 0, 0], [1, 255, 1, 1]]), both, 2).tolist()
    [[[0.5, 0.5, 0.0, 0.0], [0.5, 0.0, 1.0, 1.0]]]
    """
    check_count("num_classes", num_classes)
    return plan.mix_images(one_hot_masks(masks, num_classes, ignore_index))
