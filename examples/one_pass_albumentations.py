"""One-pass Co-Mixup with Albumentations.

Lines that one-pass mixing adds end in "# one pass"; those that it changes follow the line they
were, behind "# was:".
"""

from __future__ import annotations

from typing import Any

import albumentations as A
import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

import comixup
from comixup.adapters.origins import WithOrigins
from tiny_data import Photographs, parse_steps, small_net


def main(steps: int = 20) -> list[float]:
    """Trains on photographs; returns the loss of every step."""
    torch.manual_seed(0)
    augmentation = A.Compose(
        [
            A.RandomResizedCrop((48, 48)),
            A.HorizontalFlip(),
            A.Affine(rotate=(-20, 20), translate_percent=0.1),
            A.OneOf([A.ColorJitter(), A.GaussNoise(), A.CLAHE()]),
            A.CoarseDropout(fill_mask=0),  # erased pixels count for no cell
            A.Normalize(),
            A.ToTensorV2(),
        ]
    )

    def plain(image: Any) -> Any:
        """Returns an image as Albumentations makes it."""
        return augmentation(image=np.array(image))["image"]

    memory = comixup.SaliencyMemory(num_examples=64)  # one pass
    mixup = comixup.OnePass(comixup.CoMixup(num_classes=4), memory)  # one pass
    # was: dataset = Photographs(transform=plain)
    dataset = WithOrigins(Photographs(), memory, augmentation)
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    losses: list[float] = []
    while len(losses) < steps:
        for batch in loader:
            # was: images, targets = batch
            images, targets = mixup(*batch)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), targets)
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        mixup.end_epoch()  # one pass
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f} after {len(losses)} steps")
    return losses


if __name__ == "__main__":
    main(parse_steps(__doc__, 20))
