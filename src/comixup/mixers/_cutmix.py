"""CutMix: boxes of other images pasted over each image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from comixup.core.gather import in_format_of
from comixup.core.masks import IGNORE_INDEX, check_masks, with_channels
from comixup.core.tensors import check_precision, to_device
from comixup.mixers._input import PartnerMixer, check_same_batch, ratio_matrix
from comixup.mixers._mixer import Mixed


@dataclass(frozen=True, eq=False)
class Boxes:
    """A plan: partner k of an image covers it inside box k; later boxes lie over earlier ones.

    A box shows the partner's pixels at its own location or, if `resized`, the whole partner,
    downscaled by area averaging (integers: by the middle pixel). Then `masks` has the inputs that
    are shown, not the locations of their pixels.

    Attributes:
        partners: (m, k) integers.
        begin: (m or 1, k, dimensions) first pixel of each box along each side, on the CPU.
        end: the pixel after the last; equal to `begin` for an empty box.
        size: the images' spatial size.
        resized: whether a box shows all of its partner.
        others: number of inputs after the images, which are pasted but not pasted over.
    """

    on_device: ClassVar = ("partners",)
    partners: Tensor
    begin: Tensor
    end: Tensor
    size: tuple[int, ...]
    resized: bool = False
    others: int = 0

    @property
    def num_inputs(self) -> int:
        """The number of inputs: m images, one per output, and the others."""
        return len(self.partners) + self.others

    @property
    def owner(self) -> Tensor:
        """(m or 1, *size): 0 where an image shows itself, 1 + k where its k-th partner."""
        device = self.begin.device
        owner = torch.zeros(len(self.begin), *self.size, dtype=torch.int64, device=device)
        for k in range(self.partners.shape[1]):
            inside = torch.ones(
                len(self.begin), *[1] * len(self.size), dtype=torch.bool, device=device
            )
            for axis, side in enumerate(self.size):
                pixel = torch.arange(side, device=device).view(
                    -1, *[1] * (len(self.size) - 1 - axis)
                )
                shape = (-1, *[1] * len(self.size))
                begin, end = self.begin[:, k, axis].view(shape), self.end[:, k, axis].view(shape)
                inside = inside & (pixel >= begin) & (pixel < end)
            owner = torch.where(inside, k + 1, owner)
        return owner

    @property
    def masks(self) -> Tensor:
        """The share of each input at each pixel of each output, (m, inputs, *size)."""
        m = len(self.partners)
        own = torch.arange(m, device=self.partners.device)
        sources = torch.cat([own.unsqueeze(1), self.partners], 1)
        who = sources.gather(1, self.owner.flatten(1).expand(m, -1)).view(m, 1, *self.size)
        return torch.zeros(m, self.num_inputs, *self.size, device=who.device).scatter_(1, who, 1.0)

    def source_ratio(self, size: Sequence[int] | None = None) -> Tensor:
        """Returns the share of each input in the pixels of each output, (m, inputs)."""
        self._check_size(self.size if size is None else size)
        owner, k = self.owner.flatten(1), self.partners.shape[1]
        pixels = torch.stack([(owner == source).sum(1) for source in range(k + 1)], 1)
        return ratio_matrix(self.partners, pixels / math.prod(self.size), self.num_inputs)

    def mix_images(self, images: Tensor) -> Tensor:
        """Returns images, or any other tensor (m, C, *size), with the boxes pasted."""
        check_same_batch(images, self.num_inputs)
        self._check_size(images.shape[2:])
        if self.resized:
            check_precision("images", images)
        partners = to_device(self.partners, images.device)
        if len(self.begin) > 1 and not self.resized:
            return self._mix_by_masks(images, partners)
        mixed = images[: len(self.partners)].clone()
        for row, corners in enumerate(torch.stack([self.begin, self.end], -1).tolist()):
            rows = slice(None) if len(self.begin) == 1 else slice(row, row + 1)
            for partner, box in zip(partners[rows].unbind(1), corners, strict=True):
                inside = (slice(None), *(slice(begin, end) for begin, end in box))
                if self.resized:
                    sides = [end - begin for begin, end in box]
                    shown = shrunk_to(images.index_select(0, partner), sides)
                else:
                    shown = images[(slice(None), *inside)].index_select(0, partner)
                mixed[(rows, *inside)] = shown
        return mixed

    def mix_masks(self, masks: Tensor, ignore_index: int | None = IGNORE_INDEX) -> Tensor:
        """Returns masks of class indices, (m, *size) integers, with the boxes pasted."""
        check_masks(masks, ignore_index)
        return self.mix_images(with_channels(masks, len(self.size))).view(-1, *masks.shape[1:])

    def _mix_by_masks(self, images: Tensor, partners: Tensor) -> Tensor:
        owner = to_device(self.owner.unsqueeze(1), images.device)
        mixed = images[: len(self.partners)]
        for k, partner in enumerate(partners.unbind(1), start=1):
            mixed = torch.where(owner == k, images.index_select(0, partner), mixed)
        return in_format_of(images, mixed)

    def _check_size(self, size: Sequence[int]) -> None:
        if tuple(size) != self.size:
            raise ValueError(
                f"`images` must have the size {self.size} for which these boxes were drawn, got "
                f"{tuple(size)}. Resize them first."
            )


class CutMix(PartnerMixer):
    """CutMix (Yun et al., ICCV 2019): boxes of other images pasted over each image.

    A box covers the partner's ratio of the image, around a random center, clipped to the image; the
    targets are weighted by the visible pixels.

    Args:
        alpha: parameter of the ratios' Beta, or Dirichlet, distribution.
        num_inputs: number of images per output: itself and others, one box each, later ones on top.
        per_sample: draw ratios and boxes for each image rather than for the batch.
        num_classes, p, clean_weight, clean_reduction, generator, validate: see `Mixer`.

    >>> mixup = CutMix(num_classes=10)
    >>> images, targets = mixup(torch.rand(8, 3, 32, 32), torch.arange(8))
    >>> images.shape, targets.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns partners and boxes for a batch."""
        m, size = len(images), tuple(images.shape[2:])
        partners, ratios = self.draw_partners(m), self.draw_ratios(m)[:, 1:]
        centre = torch.rand(*ratios.shape, len(size), generator=self.generator)
        centre = (centre * torch.tensor(size)).floor().long()
        return Mixed(Boxes(partners, *boxes_around(centre, ratios, size), size))


def boxes_around(centre: Tensor, ratios: Tensor, size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Returns begin and end of boxes with the image's aspect ratio, clipped to the image.

    >>> boxes_around(torch.tensor([[4, 9]]), torch.tensor([0.25]), (10, 10))
    (tensor([[2, 7]]), tensor([[ 6, 10]]))
    """
    sides = torch.tensor(tuple(size))
    # Each side is the root of the ratio.
    half = (0.5 * ratios.unsqueeze(-1) ** (1 / len(sides)) * sides).long()
    return (centre - half).clamp(min=0), torch.minimum(centre + half, sides)


def boxes_inside(
    scale: Tensor, size: Sequence[int], generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Returns begin and end of boxes of a scale (..., 1), placed uniformly inside the image.

    Sides are rounded down to whole pixels, possibly to an empty box.
    """
    sides = torch.tensor(tuple(size))
    box = (scale * sides).long()
    begin = (torch.rand(box.shape, generator=generator) * (sides - box + 1)).long()
    return begin, begin + box


def shrunk_to(images: Tensor, sides: Sequence[int]) -> Tensor:
    """Returns images downscaled to (m, C, *sides) by area averaging.

    Integers take the middle pixel instead.

    >>> shrunk_to(torch.tensor([[[1.0, 3, 5, 7]]]), [2]).tolist()
    [[[2.0, 6.0]]]
    >>> shrunk_to(torch.tensor([[[1, 3, 5, 7]]]), [2]).tolist()
    [[[3, 7]]]
    """
    if not all(sides):
        return images.new_empty((*images.shape[:2], *sides))
    if images.is_floating_point():
        wide = torch.promote_types(images.dtype, torch.float32)
        return F.interpolate(images.to(wide), size=list(sides), mode="area").to(images.dtype)
    for axis, side in enumerate(sides, start=2):
        place = torch.arange(side, device=images.device)
        images = images.index_select(axis, (2 * place + 1) * images.shape[axis] // (2 * side))
    return images
