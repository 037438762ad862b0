"""Co-Mixup as a torchvision v2 transform: after the data loader, or in its collate function.

Here nothing is asked of the model: saliency is what stands out in an image by itself.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, default_collate
from torchvision.transforms import v2

import comixup
from comixup.adapters.torchvision import BatchMix
from tiny_data import BATCH, CLASSES, parse_steps, small_net, test_loss, train_loader, train_set

co_mixup = BatchMix(comixup.CoMixup(num_classes=len(CLASSES)))


def mixed_batch(samples: list[Any]) -> Any:
    """Returns a batch that is already mixed. A named function: workers may need to pickle it."""
    return co_mixup(*default_collate(samples))


def train(loader: DataLoader[Any], steps: int, transform: Any = None) -> tuple[float, float]:
    """Returns the test loss before and after an ordinary training loop."""
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    before = test_loss(model)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for images, targets in itertools.islice(batches, steps):
        if transform is not None:
            images, targets = transform(images, targets)  # noqa: PLW2901
        optimizer.zero_grad()
        F.cross_entropy(model(images), targets).backward()
        optimizer.step()
    return before, test_loss(model)


def main(steps: int = 60) -> dict[str, tuple[float, float]]:
    """Trains both ways; returns the test loss before and after for each."""
    torch.manual_seed(0)
    # After the loader, here in turn with torchvision's own CutMix:
    choice = v2.RandomChoice([v2.CutMix(num_classes=len(CLASSES)), co_mixup])
    results = {"after the loader": train(train_loader(), steps, choice)}

    # In the workers, while the model trains on the batch before:
    loader = DataLoader(
        train_set(),
        batch_size=BATCH,
        shuffle=True,
        num_workers=1,
        persistent_workers=True,
        collate_fn=mixed_batch,
    )
    results["in the collate function"] = train(loader, steps)
    for name, (before, after) in results.items():
        print(f"{name}: test loss {before:.2f} -> {after:.2f} after {steps} steps")
    return results


if __name__ == "__main__":
    main(parse_steps(__doc__))
