"""Small coloured shapes that a small network learns in seconds: the data of the other examples."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import comixup

CLASSES = ("disc", "ring", "cross", "stripes")
SIZE = 32
"""Pixels a side."""
BATCH = 32


def draw_shapes(count: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Returns images (count, 3, 32, 32), class indices (count,) and the shapes' pixels, boolean.

    Each image shows one shape of random place, size and colour on another, noisy colour.
    """
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(len(CLASSES), (count,), generator=generator)
    radius = 5 + 5 * torch.rand(count, 1, 1, generator=generator)
    centre = 10 + 12 * torch.rand(2, count, 1, 1, generator=generator)
    pixel = torch.arange(SIZE)
    x, y = (pixel.view(1, 1, -1) - centre[0]).abs(), (pixel.view(1, -1, 1) - centre[1]).abs()
    box = torch.maximum(x, y) < radius
    distance = (x.square() + y.square()).sqrt()
    shapes = torch.stack(
        [
            distance < radius,
            (distance < radius) & (distance > 0.6 * radius),
            box & (torch.minimum(x, y) < 0.3 * radius),
            box & (pixel.view(1, -1, 1) % 4 < 2),
        ],
        dim=1,
    )
    shown = shapes[torch.arange(count), targets]
    colours = torch.rand(2, count, 3, 1, 1, generator=generator)
    colours[1] = (colours[0] + 0.5) % 1  # never too close to the ground's
    images = torch.where(shown.unsqueeze(1), colours[1], colours[0])
    images = images + 0.1 * torch.randn(images.shape, generator=generator)
    return (images - 0.5) / 0.3, targets, shown


class Photographs(Dataset[Any]):
    """Views of four photographs that scikit-image ships, (PIL image, which of the four).

    Args:
        count: of the views.
        transform: of the PIL images, as torchvision's data sets take it.
        seed: of the views.
    """

    classes = ("astronaut", "cat", "coffee", "rocket")

    def __init__(
        self, count: int = 64, transform: Callable[[Any], Any] | None = None, seed: int = 0
    ) -> None:
        from skimage import data  # noqa: PLC0415

        photographs = (data.astronaut(), data.chelsea(), data.coffee(), data.rocket())
        generator = torch.Generator().manual_seed(seed)
        self.views = []
        for k in range(count):
            photograph = photographs[k % 4][::3, ::3]
            top, left = (
                int(torch.randint(side - 80, (1,), generator=generator))
                for side in photograph.shape[:2]
            )
            self.views.append(Image.fromarray(photograph[top : top + 80, left : left + 72]))
        self.transform = transform

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        """Returns a view and its class."""
        view = self.views[index]
        return view if self.transform is None else self.transform(view), index % 4


def train_set(count: int = 512) -> TensorDataset:
    """Returns images and class indices to train on."""
    images, targets, _ = draw_shapes(count)
    return TensorDataset(images, targets)


def train_loader(count: int = 512) -> DataLoader[tuple[Tensor, ...]]:
    """Returns shuffled batches to train on; the last one is as small as it comes out."""
    return DataLoader(train_set(count), batch_size=BATCH, shuffle=True)


def small_net() -> nn.Sequential:
    """Returns an untrained convolutional network for the shapes."""
    return nn.Sequential(
        *(nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.BatchNorm2d(12), nn.ReLU()),
        *(nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.BatchNorm2d(24), nn.ReLU()),
        *(nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU()),
        *(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(48, len(CLASSES))),
    )


@torch.no_grad()
def test_loss(model: nn.Module) -> float:
    """Returns the mean loss of unseen shapes, unmixed; the model keeps its mode."""
    images, targets, _ = draw_shapes(256, seed=1)
    device = next(model.parameters()).device
    mode = model.training
    model.eval()
    loss = F.cross_entropy(model(images.to(device)), targets.to(device))
    model.train(mode)
    return float(loss)


def check_changed(images: Tensor, targets: Tensor, plan: comixup.Plan, soft: Tensor) -> None:
    """Raises if a batch was to be mixed and its images or targets stayed as they were.

    Libraries have shipped mixing that did nothing: these examples look.
    """
    before = F.one_hot(targets, soft.shape[1]).to(soft.dtype) if targets.ndim == 1 else targets
    if len(images) > 1 and torch.equal(plan.mix_images(images), images):
        raise AssertionError("the images must change, but stayed as they were")
    if len(targets.unique()) > 1 and torch.equal(soft, before):
        raise AssertionError("the targets must change, but stayed as they were")


def parse_steps(description: str | None, steps: int = 60) -> int:
    """Returns the training steps asked for on the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=steps, help="training steps")
    return int(parser.parse_args().steps)
