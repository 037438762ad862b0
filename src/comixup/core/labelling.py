"""The solution: the inputs at each location of each output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import lt
from typing import ClassVar

import torch
from torch import Tensor

from comixup.core.gather import gather_cells
from comixup.core.grid import MAX_DIMENSIONS, cell_weights
from comixup.core.masks import IGNORE_INDEX, check_masks, leading_class, with_channels
from comixup.core.tensors import check_precision, to_device

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True, eq=False)
class Labelling:
    """The labels z of every output: z_jk = (1/L) sum_l onehot(sources[j, l, k]).

    Attributes:
        sources: (m', L, *grid) integers in 0..m-1: the L inputs that location k of output j is
            made of, repeated where an input counts more than once.
        num_inputs: m, the number of inputs that `sources` indexes.
        objective_values: (problems, sweeps) objective value after each sweep of the best start;
            empty for a labelling that no solver made. It is Eq. (1) with the penalty clipped per
            output and input, as in Eq. (2) (`total` of `objective`). A discarded sweep repeats the
            previous value. The labelling is that of the sweep with the lowest value, not
            necessarily the last; with `resolve`, of those with the fewest duplicated outputs.

    >>> z = Labelling(torch.tensor([[[0, 1]], [[1, 1]]]), num_inputs=2)
    >>> z.source_ratio().tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """

    on_device: ClassVar = ("sources",)
    sources: Tensor
    num_inputs: int
    objective_values: Tensor = field(default_factory=lambda: torch.empty(0, 0, dtype=torch.float64))

    def __post_init__(self) -> None:
        if not isinstance(self.sources, Tensor) or self.sources.dtype not in _INTEGERS:
            kind = getattr(self.sources, "dtype", type(self.sources).__name__)
            raise TypeError(f"`sources` must be a tensor of integers, got {kind}.")
        if not 3 <= self.sources.ndim <= 2 + MAX_DIMENSIONS or self.sources.numel() == 0:
            raise ValueError(
                "`sources` must have shape (outputs, levels, *grid) with a grid of 1 to "
                f"{MAX_DIMENSIONS} dimensions and no empty side, got {tuple(self.sources.shape)}."
            )
        # Reading the values of a tensor on another device would synchronize with it.
        if self.sources.device.type == "cpu":
            low, high = map(int, torch.aminmax(self.sources))
            if low < 0 or high >= self.num_inputs:
                raise ValueError(
                    f"`sources` must lie in 0..{self.num_inputs - 1} (there are "
                    f"{self.num_inputs} inputs), got values from {low} to {high}."
                )

    @cached_property
    def num_outputs(self) -> int:
        """m', the number of outputs."""
        return self.sources.shape[0]

    @cached_property
    def levels(self) -> int:
        """L: the entries of a mask are multiples of 1/L."""
        return self.sources.shape[1]

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """The sides of the grid of locations."""
        return tuple(self.sources.shape[2:])

    @property
    def masks(self) -> Tensor:
        """z, (m', m, *grid): the share of each input at each location of each output (float32)."""
        sources = self.sources.long()
        shape = (self.num_outputs, self.num_inputs, *self.grid)
        share = torch.full_like(sources, 1, dtype=torch.float32) / self.levels
        return torch.zeros(shape, device=sources.device).scatter_add_(1, sources, share)

    @property
    def source_counts(self) -> Tensor:
        """o, (m', m): how many locations of each output each input fills."""
        return self._sum_of_masks(torch.ones(self.grid, device=self.sources.device))

    def source_ratio(self, size: Sequence[int] | None = None) -> Tensor:
        """Returns o~, (m', m): the share of each input in each output; rows sum to one.

        Args:
            size: the image's spatial size. Cells are then weighted by the pixels they cover, which
                differ where the size is not a multiple of the grid. None weights all cells equally.
        """
        if size is None:
            size = self.grid
        self._check_size(size)
        return self._sum_of_masks(cell_weights(tuple(size), self.grid))

    def mix_images(self, images: Tensor) -> Tensor:
        """Returns mixed images, (m', C, *size), from images or any other tensor (m, C, *size).

        Each cell is upsampled by nearest neighbor, so it covers the pixels that `source_ratio`
        counts. With more than one level cells are means, so integers are rejected; for segmentation
        masks use `mix_masks`.
        """
        self.check_images(images)
        return gather_cells(images, self.sources)

    def mix_masks(self, masks: Tensor, ignore_index: int | None = IGNORE_INDEX) -> Tensor:
        """Returns masks of class indices mixed like the images: integers, (m', *size).

        With one level each pixel has the class of the input shown there. In blended cells it has
        the class of the largest share; in a tie the class of the input with the lowest index, or
        `ignore_index` if pixels without a class are part of the tie. For class probabilities
        instead see `comixup.mix_mask_probabilities`.

        Args:
            masks: (m, *size) or (m, channels, *size) integers or booleans. Not changed.
            ignore_index: the value of pixels without a class; None if every value is one.

        >>> both = Labelling(torch.tensor([[[0, 1], [1, 1]]]), num_inputs=2)
        >>> both.mix_masks(torch.tensor([[5, 5, 5, 5], [7, 255, 7, 255]])).tolist()
        [[5, 255, 7, 255]]
        """
        check_masks(masks, ignore_index)
        wide = with_channels(masks, len(self.grid))
        self.check_batch(wide, "masks")
        # Sorted, so that a tie does not depend on the order of the levels.
        levels = self.sources.sort(1).values.unbind(1)
        candidates = [gather_cells(wide, level.unsqueeze(1)) for level in levels]
        mixed = leading_class(candidates, [1.0] * len(candidates), ignore_index)
        return mixed.view(self.num_outputs, *masks.shape[1:])

    def check_images(self, images: Tensor) -> None:
        """Raises for a tensor that `mix_images` cannot mix."""
        self.check_batch(images, "images")
        if self.levels > 1:
            check_precision("images", images)
            if not images.is_floating_point():
                raise TypeError(
                    f"`images` must be floating point to be averaged, got {images.dtype}. Convert "
                    "them, or solve with levels=1. Masks of class indices: use `mix_masks`."
                )

    def to(self, device: torch.device | str) -> Labelling:
        """Returns the labelling with its sources on a device."""
        return Labelling(to_device(self.sources, device), self.num_inputs, self.objective_values)

    def check_batch(self, batch: Tensor, name: str) -> None:
        """Raises for a tensor of another batch size, or smaller than the grid."""
        if batch.ndim != 2 + len(self.grid) or len(batch) != self.num_inputs:
            sides = ", ".join("*" * len(self.grid))
            raise ValueError(
                f"`{name}` must have shape ({self.num_inputs}, channels, {sides}) for this "
                f"labelling of {self.num_inputs} inputs on a grid {self.grid}, got "
                f"{tuple(batch.shape)}."
            )
        self._check_size(batch.shape[2:])

    def _check_size(self, size: Sequence[int]) -> None:
        if len(size) != len(self.grid):
            raise ValueError(
                f"`size` must have one number per side of the grid {self.grid}, got {tuple(size)}."
            )
        if any(map(lt, size, self.grid)):
            raise ValueError(
                f"`size` must be at least the grid {self.grid} along every side, got "
                f"{tuple(size)}. Solve on a smaller grid."
            )

    def _sum_of_masks(self, weights: Tensor) -> Tensor:
        """Returns sum_k weights_k z_jk without building the masks, (m', m) float32."""
        sources = self.sources.long().flatten(1)
        share = (to_device(weights, sources.device) / self.levels).flatten().repeat(self.levels)
        counts = torch.zeros(len(sources), self.num_inputs, device=sources.device)
        return counts.scatter_add_(1, sources, share.expand_as(sources))
