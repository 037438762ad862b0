"""Augmented images with the saliency that one-pass training would read for them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from comixup import Origin, SaliencyMemory
from comixup._checks import check_choice
from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import tracked
from comixup.lab._augmentation import AUGMENTATIONS, Augmentation, training_view
from comixup.lab.explorer._images import Batch, seeded

_MIN_SCALE = 0.35
"""Of a crop's area: one that shows less is no longer recognised."""


def augmented(
    batch: Batch, saliency: Tensor, augment: Augmentation, *, seed: int = 0
) -> tuple[Batch, Tensor]:
    """Returns a batch after augmentation, and the remembered saliency of what it shows.

    The maps are kept as `SaliencyMemory` keeps them, 8 x 8 cells each, and read through the cell
    numbers that went through the augmentation: what `OnePass` mixes by.

    Args:
        batch: images as they are.
        saliency: (m, *size) their maps.
        augment: see `comixup.lab._augmentation.Augmentation`; "none" returns what is given.
        seed: of all draws.

    >>> from comixup.lab import explorer
    >>> digits = explorer.sample_images("digits", count=4)
    >>> moved, maps = augmented(digits, explorer.spectral_maps(digits), "trivial")
    >>> moved.images.shape, maps.shape
    (torch.Size([4, 1, 28, 28]), torch.Size([4, 28, 28]))
    """
    check_choice("augment", augment, AUGMENTATIONS)
    if augment == "none":
        return batch, saliency
    examples = torch.arange(len(batch.images))
    memory = SaliencyMemory(len(examples))
    memory.write(Origin(examples), saliency)
    memory.end_epoch()
    size = batch.images.shape[-1]
    view = tracked(training_view(augment, size, _MIN_SCALE))
    images, cells = [], []
    with seeded(seed):  # torchvision draws from torch's global generator
        for image in batch.images:
            picture = functional.to_pil_image((image * 255).round().to(torch.uint8))
            numbers = CellNumbers.of((picture.height, picture.width), memory.grid)
            pixels, numbers = view(picture, numbers)
            images.append(pixels)
            cells.append(numbers.tensor())
    maps = memory.read(Origin(examples, torch.stack(cells)))
    return replace(batch, images=torch.stack(images).float() / 255), maps
