"""What the checks share: a batch, a network, the methods, and how numbers are compared."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from comixup import CoMixup, CutMix, InputMixup, Mixer, PuzzleMix

CLASSES = 10
BATCH = 24
SIZE = (32, 32)
_LEVELS = 256
"""Pixels and saliency are whole multiples of 1/256: sums are then exact in any order."""


class CheckError(Exception):
    """A check whose numbers are not what they must be."""


class NotRunError(Exception):
    """A check that this device, or this machine, cannot run; the message says why."""


MIXERS: dict[str, Callable[[torch.Generator], Mixer]] = {
    "CoMixup": lambda generator: CoMixup(CLASSES, generator=generator),
    "PuzzleMix": lambda generator: PuzzleMix(CLASSES, std=(1.0,), generator=generator),
    "CutMix": lambda generator: CutMix(CLASSES, generator=generator),
    "InputMixup": lambda generator: InputMixup(CLASSES, generator=generator),
}


def make_mixer(name: str, seed: int = 0) -> Mixer:
    """Returns a mixer with draws of its own."""
    return MIXERS[name](torch.Generator().manual_seed(seed))


def make_batch(seed: int = 0, batch: int = BATCH) -> tuple[Tensor, Tensor, Tensor]:
    """Returns images, class indices and saliency maps, in host memory."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(_LEVELS, (batch, 3, *SIZE), generator=generator) / _LEVELS
    targets = torch.randint(CLASSES, (batch,), generator=generator)
    # Peaked, and none of them constant.
    maps = torch.randint(16, (batch, *SIZE), generator=generator) ** 2 / _LEVELS
    return images, targets, maps


def make_network(seed: int = 0, width: int = 16) -> nn.Sequential:
    """Returns a small classifier with random weights, in host memory."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            *(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
            *(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, CLASSES)),
        )


def gradients(model: nn.Module) -> Tensor:
    """Returns all gradients of a model as one vector in host memory, float32."""
    found = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
    return torch.cat(found).float().cpu()


def difference(found: Tensor, expected: Tensor) -> float:
    """Returns the largest difference, relative to the largest expected value."""
    found, expected = found.detach().cpu().double(), expected.detach().cpu().double()
    if found.shape != expected.shape:
        raise CheckError(f"the shape is {tuple(found.shape)}, not {tuple(expected.shape)}")
    largest = float(expected.abs().max().clamp(min=torch.finfo(torch.float64).tiny))
    return float((found - expected).abs().max()) / largest


def expect(what: str, value: float, limit: float) -> float:
    """Returns a difference that is within its limit; raises `CheckError` for any other, and NaN.

    >>> expect("images", 0.0, limit=0.0)
    0.0
    """
    if not value <= limit:
        raise CheckError(f"{what} differ by {value:.2g}, more than {limit:.2g}")
    return value


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Computes float32 as float32, not as TF32, which CUDA uses by default for convolutions."""
    switches: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [switch.allow_tf32 for switch in switches]
    try:
        for switch in switches:
            switch.allow_tf32 = False
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.allow_tf32 = value
