"""One-pass Co-Mixup with Kornia, which augments whole batches on the device.

Lines that one-pass mixing adds end in "# one pass"; those that it changes follow the line they
were, behind "# was:".
"""

from __future__ import annotations

import kornia.augmentation as K
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import transforms

import comixup
from comixup.adapters.kornia import followed
from comixup.adapters.origins import WithOrigins
from tiny_data import Photographs, parse_steps, small_net


def main(steps: int = 20) -> list[float]:
    """Trains on photographs; returns the loss of every step."""
    torch.manual_seed(0)
    augmentation = K.AugmentationSequential(
        K.RandomResizedCrop((48, 48)),
        K.RandomHorizontalFlip(),
        K.RandomAffine(20.0, (0.1, 0.1)),
        K.ColorJiggle(0.2, 0.2, 0.2, 0.1),
        K.RandomErasing(p=0.25),
    )
    dataset = Photographs(transform=transforms.ToTensor())
    mixup = comixup.OnePass(comixup.CoMixup(4), comixup.SaliencyMemory(len(dataset)))  # one pass
    dataset = WithOrigins(dataset, mixup.memory)  # one pass
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    losses: list[float] = []
    while len(losses) < steps:
        for batch in loader:
            # was: images, targets = augmentation(batch[0]), batch[1]
            images, targets = mixup(*followed(augmentation, *batch))
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
