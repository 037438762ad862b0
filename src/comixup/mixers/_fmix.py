"""FMix: two images mixed by binary masks of low-frequency noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_number, check_positive
from comixup._random import dirichlet, numpy_generator
from comixup.mixers._input import Blend
from comixup.mixers._mixer import Mixed, Mixer


@dataclass(eq=False, repr=False, kw_only=True)
class FMix(Mixer):
    """FMix (Harris et al., 2020): binary masks of any shape, from low-frequency noise.

    Gaussian noise whose amplitude decreases with the frequency is thresholded: an image shows its
    own pixels where the noise is highest, a fraction lambda ~ Beta(alpha, alpha), and its partner's
    elsewhere. lambda is randomly rounded to whole pixels, for images and targets.

    Args:
        alpha: parameter of lambda's Beta distribution.
        decay: amplitudes are 1 / frequency ** decay; higher values give smoother borders.
        per_sample: draw lambda and a mask for each image rather than for the batch.
        num_classes, p, clean_weight, clean_reduction, generator, validate: see `Mixer`.

    >>> mixup = FMix(num_classes=10)
    >>> images, targets = mixup(torch.rand(8, 3, 32, 32), torch.arange(8))
    >>> images.shape, targets.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    alpha: float = 1.0
    decay: float = 3.0
    per_sample: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("alpha", self.alpha)
        check_number("decay", self.decay)
        check_boolean("per_sample", self.per_sample)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns partners and masks for a batch."""
        m, size = len(images), tuple(images.shape[2:])
        rows, pixels = m if self.per_sample else 1, math.prod(size)
        partners = torch.randperm(m, generator=self.generator).unsqueeze(1)
        shares = dirichlet(self.alpha, 2, numpy_generator(self.generator), rows)[:, 0] * pixels
        up = torch.rand(rows, generator=self.generator) < 0.5
        counts = torch.where(up, shares.ceil(), shares.floor())
        picture = low_frequencies(rows, size, self.decay, self.generator).flatten(1)
        order = picture.argsort(1, descending=True)
        highest = (torch.arange(pixels) < counts.unsqueeze(1)).float()
        mask = torch.zeros(rows, pixels).scatter_(1, order, highest).view(rows, *size)
        return Mixed(Blend(partners, torch.stack([mask, 1 - mask], 1)))


def low_frequencies(
    count: int, size: tuple[int, ...], decay: float, generator: torch.Generator | None
) -> Tensor:
    """Returns noise (count, *size): the inverse transform of complex noise / frequency ** decay.

    The constant term, which does not affect the order of pixels, has the lowest frequency's
    amplitude.
    """
    square = torch.fft.rfftfreq(size[-1]).square()
    for side in reversed(size[:-1]):
        shape = (-1, *[1] * square.ndim)
        square = torch.fft.fftfreq(side).square().view(shape) + square
    amplitude = square.sqrt().clamp(min=1 / max(size)) ** -decay
    noise = torch.randn(count, *square.shape, 2, generator=generator)
    spectrum = torch.view_as_complex(noise) * amplitude
    pictures: Tensor = torch.fft.irfftn(spectrum, s=size, dim=tuple(range(1, 1 + len(size))))
    return pictures
