"""Input mixup, and the base class of the methods that mix an image with partners."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import lt
from typing import ClassVar

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_count, check_positive
from comixup._random import dirichlet, numpy_generator
from comixup.core.grid import cell_weights, upsampled
from comixup.core.masks import IGNORE_INDEX, check_masks, leading_class, with_channels
from comixup.core.tensors import check_precision, to_device
from comixup.mixers._mixer import Mixed, Mixer


@dataclass(frozen=True, eq=False)
class Blend:
    """A plan: output j is ratios[j, 0] times image j plus ratios[j, k] times its k-th partner.

    Attributes:
        partners: (m, k) integers.
        ratios: (m or 1, 1 + k) float32, the same at every pixel; or (m or 1, 1 + k, *grid) per cell
            of a grid, upsampled by nearest neighbor. They sum to one over the inputs.
    """

    on_device: ClassVar = ("partners", "ratios")
    partners: Tensor
    ratios: Tensor

    @property
    def num_inputs(self) -> int:
        """m, the number of inputs, and of outputs."""
        return len(self.partners)

    @property
    def masks(self) -> Tensor:
        """The share of each input in each output, (m, m, *grid); (m, m, 1) without a grid."""
        matrix = ratio_matrix(self.partners, self.ratios)
        return matrix if self.grid else matrix.unsqueeze(-1)

    @property
    def grid(self) -> tuple[int, ...]:
        """The sides of the grid of cells; empty where every pixel has the same ratios."""
        return tuple(self.ratios.shape[2:])

    def source_ratio(self, size: Sequence[int] | None = None) -> Tensor:
        """Returns the share of each input in each output, (m, m); see `Labelling.source_ratio`.

        Without a grid the size is ignored.
        """
        if not self.grid:
            return ratio_matrix(self.partners, self.ratios)
        size = self.grid if size is None else tuple(size)
        self._check_size(size)
        weights = to_device(cell_weights(size, self.grid), self.ratios.device)
        return ratio_matrix(self.partners, (self.ratios * weights).flatten(2).sum(2))

    def mix_images(self, images: Tensor) -> Tensor:
        """Returns blended images, or any other floating-point tensor (m, ...)."""
        check_same_batch(images, self.num_inputs)
        if not images.is_floating_point():
            raise TypeError(
                f"`images` must be floating point to be averaged, got {images.dtype}. Convert them "
                "first. Masks of class indices: use `mix_masks`."
            )
        check_precision("images", images)
        # Half precision is too coarse for the ratios: average in single precision.
        wide = torch.promote_types(images.dtype, torch.float32)
        partners = to_device(self.partners, images.device)
        own, *others = self._ratios_of_pixels(images, wide)
        total = images * own
        for partner, ratio in zip(partners.unbind(1), others, strict=True):
            total = torch.addcmul(total, images.index_select(0, partner).to(wide), ratio)
        return total.to(images.dtype)

    def mix_masks(self, masks: Tensor, ignore_index: int | None = IGNORE_INDEX) -> Tensor:
        """Returns masks of class indices, (m, ...) integers, with each pixel's largest share.

        Ties go to the image itself, then to its first partner, and so on; or to `ignore_index` if
        pixels without a class are part of the tie.
        """
        check_masks(masks, ignore_index)
        check_same_batch(masks, self.num_inputs, "masks")
        partners = to_device(self.partners, masks.device)
        wide = with_channels(masks, len(self.grid)) if self.grid else masks
        candidates = [wide, *(wide.index_select(0, partner) for partner in partners.unbind(1))]
        weights = self._ratios_of_pixels(wide, self.ratios.dtype)
        return leading_class(candidates, weights, ignore_index).view(masks.shape)

    def _ratios_of_pixels(self, images: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Returns the ratios of the image and of each partner, which broadcast over images."""
        ratios = to_device(self.ratios, images.device, dtype)
        if not self.grid:
            return ratios.view(*ratios.shape, *[1] * (images.ndim - 1)).unbind(1)
        size = tuple(images.shape[2:])
        self._check_size(size)
        pixels = ratios if size == self.grid else upsampled(ratios, size)
        return pixels.unsqueeze(2).unbind(1)

    def _check_size(self, size: Sequence[int]) -> None:
        if len(size) != len(self.grid) or any(map(lt, size, self.grid)):
            raise ValueError(
                f"`images` must have a size of at least {self.grid} along every side, the cells "
                f"of this plan, got {tuple(size)}. Resize them first."
            )

    def to(self, device: torch.device) -> "Blend":
        """Returns the same plan with its tensors on a device."""
        return Blend(to_device(self.partners, device), to_device(self.ratios, device))


@dataclass(eq=False, repr=False, kw_only=True)
class PartnerMixer(Mixer):
    """Base class of methods that mix each image with others, by ratios ~ Dirichlet(alpha).

    For two inputs the ratio is the usual lambda ~ Beta(alpha, alpha).
    """

    alpha: float = 1.0
    num_inputs: int = 2
    per_sample: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("alpha", self.alpha)
        check_count("num_inputs", self.num_inputs, low=2)
        check_boolean("per_sample", self.per_sample)

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


class InputMixup(PartnerMixer):
    """Input mixup (Zhang et al., ICLR 2018): weighted means of whole images.

    Args:
        alpha: parameter of the ratios' Beta, or Dirichlet, distribution.
        num_inputs: number of images per output: itself and random others of the batch.
        per_sample: draw ratios for each image rather than for the batch.
        num_classes, p, clean_weight, clean_reduction, generator, validate: see `Mixer`.

    >>> mixup = InputMixup(num_classes=10, alpha=0.2)
    >>> images, targets = mixup(torch.rand(8, 3, 32, 32), torch.arange(8))
    >>> images.shape, targets.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns partners and ratios for a batch."""
        m = len(images)
        return Mixed(Blend(self.draw_partners(m), self.draw_ratios(m)))


def check_same_batch(images: Tensor, m: int, name: str = "images") -> None:
    """Raises for a tensor whose batch size is not the plan's."""
    if len(images) != m:
        raise ValueError(
            f"`{name}` must have {m} inputs, as the batch this plan was drawn for, got "
            f"{len(images)}."
        )


def ratio_matrix(partners: Tensor, ratios: Tensor, num_inputs: int | None = None) -> Tensor:
    """Returns the share of each input in each output, (m, m), from the ratios of the partners.

    With more inputs than outputs, (m, num_inputs). Ratios per cell, (m or 1, 1 + k, *grid), give
    shares per cell.

    >>> ratio_matrix(torch.tensor([[1], [0]]), torch.tensor([[0.75, 0.25]])).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    m = len(partners)
    sources = torch.cat([torch.arange(m, device=partners.device).unsqueeze(1), partners], 1)
    grid = ratios.shape[2:]
    sources = sources.view(*sources.shape, *[1] * len(grid)).expand(-1, -1, *grid)
    sources = to_device(sources, ratios.device)
    matrix = torch.zeros(m, num_inputs or m, *grid, device=ratios.device)
    return matrix.scatter_add_(1, sources, ratios.expand(sources.shape))
