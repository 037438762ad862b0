"""Targets as class probabilities, whatever form they come in."""

from __future__ import annotations

import torch
from torch import Tensor

from comixup._checks import check_boolean


def soft_targets(
    targets: Tensor, num_inputs: int, num_classes: int | None, *, validate: bool = False
) -> Tensor:
    """Returns targets as class probabilities, (m, classes) float32.

    Args:
        targets: (m,) class indices, or (m, classes) numbers: soft or multi-label.
        num_inputs: m, the number of images they belong to.
        num_classes: the number of classes; needed for class indices.
        validate: check class indices on every device. In host memory they always are; elsewhere
            the host would have to wait for the device.

    >>> soft_targets(torch.tensor([1, 0]), 2, num_classes=3).tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    if not isinstance(targets, Tensor):
        raise TypeError(
            f"`targets` must be a torch tensor, got {type(targets).__name__}. Use "
            "torch.as_tensor(targets)."
        )
    check_boolean("validate", validate)
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
            f"{targets.dtype}. Soft targets have shape ({num_inputs}, classes)."
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
