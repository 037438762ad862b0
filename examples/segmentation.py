"""Co-Mixup for segmentation: masks are mixed by the same plan as the images they belong to."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import comixup
from tiny_data import BATCH, CLASSES, draw_shapes, parse_steps


def one_hot_masks(targets: Tensor, shown: Tensor) -> Tensor:
    """Returns (m, 1 + classes, height, width) shares of the ground and the classes."""
    labels = torch.where(shown, 1 + targets.view(-1, 1, 1), 0)
    return F.one_hot(labels, 1 + len(CLASSES)).movedim(-1, 1).float()


def segmenter() -> nn.Sequential:
    """Returns an untrained network that gives logits for every pixel."""
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        nn.Conv2d(32, 1 + len(CLASSES), 1),
        nn.Upsample(scale_factor=4, mode="bilinear"),
    )


def main(steps: int = 60) -> tuple[float, float]:
    """Trains; returns the test loss before and after."""
    torch.manual_seed(0)
    images, targets, shown = draw_shapes(512)
    data = TensorDataset(images, one_hot_masks(targets, shown))
    test_images, targets, shown = draw_shapes(128, seed=1)
    test_masks = one_hot_masks(targets, shown)
    model = segmenter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def test_loss() -> float:
        with torch.no_grad():
            loss = F.cross_entropy(model.eval()(test_images), test_masks)
        model.train()
        return float(loss)

    before = test_loss()
    mixup = comixup.CoMixup(num_classes=1 + len(CLASSES))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for batch, masks in itertools.islice(batches, steps):
        optimizer.zero_grad()
        saliency = mixup.saliency(model, batch, masks)  # cross_entropy knows masks of shares
        areas = masks.mean((2, 3))  # how much of each class an image shows
        mixed, _ = mixup(batch, areas, saliency)
        mixed_masks = mixup.last.plan.mix_images(masks)
        F.cross_entropy(model(mixed), mixed_masks).backward()
        optimizer.step()
    after = test_loss()
    print(f"test loss per pixel {before:.2f} -> {after:.2f} after {steps} steps")
    return before, after


if __name__ == "__main__":
    main(parse_steps(__doc__))
