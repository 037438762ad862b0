"""One-pass Co-Mixup with torchvision's first transforms: PIL images, one Compose.

Lines that one-pass mixing adds end in "# one pass"; those that it changes follow the line they
were, behind "# was:".
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import transforms

import comixup
from comixup.adapters.origins import WithOrigins
from tiny_data import Photographs, parse_steps, small_net


def main(steps: int = 20) -> list[float]:
    """Trains on photographs; returns the loss of every step."""
    torch.manual_seed(0)
    augmentation = transforms.Compose(
        [
            transforms.RandomResizedCrop(48),
            transforms.RandomHorizontalFlip(),
            transforms.TrivialAugmentWide(),
            transforms.ColorJitter(0.3, 0.3, 0.3),
            transforms.ToTensor(),
            transforms.Normalize([0.5] * 3, [0.25] * 3),
            transforms.RandomErasing(0.25),
        ]
    )
    memory = comixup.SaliencyMemory(num_examples=64)  # one pass
    mixup = comixup.OnePass(comixup.CoMixup(num_classes=4), memory)  # one pass
    # was: dataset = Photographs(transform=augmentation)
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
