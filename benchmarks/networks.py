"""Networks and batches that the benchmarks of training share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models import resnet18

from common import cifar, console, progress, seeded

MEAN = torch.tensor([129.3, 124.1, 112.4]).view(3, 1, 1) / 255
STD = torch.tensor([68.2, 65.4, 70.4]).view(3, 1, 1) / 255


def cifar_resnet18(num_classes: int = 100) -> nn.Module:
    """Returns torchvision's ResNet-18 with a CIFAR stem: the size of the paper's PreActResNet18."""
    model = resnet18(num_classes=num_classes)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def small_network(num_classes: int = 100, width: int = 32) -> nn.Module:
    """Returns a network that two cores train in minutes: six convolutions with batch norm."""

    def stage(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        conv = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        return [conv, nn.BatchNorm2d(outputs), nn.ReLU()]

    return nn.Sequential(
        *stage(3, width, 1),
        *stage(width, width, 2),
        *stage(width, 2 * width, 1),
        *stage(2 * width, 2 * width, 2),
        *stage(2 * width, 4 * width, 1),
        *stage(4 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, num_classes),
    )


def cifar_batch(size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Returns a random batch of CIFAR-100's training images, normalised, and its classes."""
    images, labels = cifar()
    chosen = torch.randperm(len(images), generator=seeded(seed))[:size]
    return (images[chosen].float() / 255 - MEAN) / STD, labels[chosen]


def train(model: nn.Module, steps: int, batch: int = 100) -> float:
    """Trains plainly on CIFAR-100, flipped at random; returns the accuracy of the last tenth."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=steps)
    model.train()
    right = []
    for step in progress(range(steps), "training on CIFAR-100"):
        images, labels = cifar_batch(batch, seed=10**6 + step)
        if step % 2:
            images = images.flip(-1)
        optimizer.zero_grad()
        logits = model(images)
        F.cross_entropy(logits, labels).backward()
        optimizer.step()
        schedule.step()
        right.append(float((logits.argmax(1) == labels).float().mean()))
    last = right[-max(1, steps // 10) :]
    accuracy = sum(last) / len(last)
    console.print(f"small network, {steps} steps of {batch}: training accuracy {accuracy:.1%}")
    return accuracy
