"""Kornia's batch augmentation on the device, in one-pass mixing.

Kornia transforms masks with images by nearest neighbor; cell numbers are passed as masks. Written
for Kornia 0.9, which this module does not import.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from comixup import Origin

_KEYS = ["input", "mask"]


def followed(
    augmentation: Any, images: Tensor, targets: Any, origin: Origin
) -> tuple[Tensor, Any, Origin]:
    """Returns an augmented batch and its origin.

    Images equal `augmentation(images)`, from the same draws.

        dataset = WithOrigins(dataset, memory)
        augmentation = K.AugmentationSequential(K.RandomHorizontalFlip(), K.RandomAffine(15))
        for batch in DataLoader(dataset, 100, shuffle=True):
            images, targets = mixup(*followed(augmentation, *batch))

    Args:
        augmentation: an `AugmentationSequential` of Kornia transforms that support masks.
        images: (m, C, H, W), floating point.
        targets: returned unchanged.
        origin: from `WithOrigins`, with cell numbers.
    """
    if origin.cells is None:
        raise ValueError(
            "`origin` must have cell numbers, which go through the augmentation, got None. Let "
            "WithOrigins(dataset, memory) give it, or memory.cell_numbers(size)."
        )
    cells = origin.cells.to(images.device).unsqueeze(1).to(images.dtype)
    images, cells = augmentation(images, cells, data_keys=_KEYS)
    numbers = cells.round().squeeze(1)
    if not torch.equal(numbers, cells.squeeze(1)):
        raise RuntimeError(
            "`augmentation` must move masks by nearest neighbour, got numbers of cells in between. "
            'Leave out `extra_args`, or give {DataKey.MASK: {"resample": Resample.NEAREST}}.'
        )
    return images, targets, Origin(origin.indices, numbers.to(torch.uint8))
