"""What the methods that mix an image with partners share."""

from __future__ import annotations

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_count, check_positive
from comixup._random import dirichlet, numpy_generator
from comixup.mixers._mixer import CleanReduction, Mixer


class PartnerMixer(Mixer):
    """A method that mixes every image with `num_inputs` - 1 others, by ratios ~ Dirichlet(alpha).

    For two inputs the ratio is the usual lambda ~ Beta(alpha, alpha).
    """

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        p: float = 1.0,
        clean_weight: float = 0.0,
        clean_reduction: CleanReduction = "sum",
        alpha: float = 1.0,
        num_inputs: int = 2,
        per_sample: bool = False,
        generator: torch.Generator | None = None,
        validate: bool = False,
    ) -> None:
        super().__init__(
            num_classes,
            p=p,
            clean_weight=clean_weight,
            clean_reduction=clean_reduction,
            generator=generator,
            validate=validate,
        )
        check_positive("alpha", alpha)
        check_count("num_inputs", num_inputs, low=2)
        check_boolean("per_sample", per_sample)
        self.alpha = alpha
        self.num_inputs = num_inputs
        self.per_sample = per_sample

    def draw_partners(self, m: int) -> Tensor:
        """Returns the partners of every image, (m, num_inputs - 1): permutations of the batch."""
        orders = [
            torch.randperm(m, generator=self.generator, device="cpu")
            for _ in range(self.num_inputs - 1)
        ]
        return torch.stack(orders, 1)

    def draw_ratios(self, m: int) -> Tensor:
        """Returns the share of the image and of each partner, (m or 1, num_inputs) float32."""
        rows = m if self.per_sample else 1
        return dirichlet(self.alpha, self.num_inputs, numpy_generator(self.generator), rows).float()


def ratio_matrix(partners: Tensor, ratios: Tensor) -> Tensor:
    """Returns the share of each input in each output, (m, m), from those of image and partners.

    >>> ratio_matrix(torch.tensor([[1], [0]]), torch.tensor([[0.75, 0.25]])).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    m = len(partners)
    sources = torch.cat([torch.arange(m, device=partners.device).unsqueeze(1), partners], 1)
    matrix = torch.zeros(m, m, device=partners.device)
    return matrix.scatter_add_(1, sources, ratios.expand(sources.shape))
