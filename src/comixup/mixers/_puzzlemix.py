"""Puzzle Mix: the salient regions of two images, separated by smooth borders."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_count, check_number, check_positive, warn_caller
from comixup._random import dirichlet, numpy_generator
from comixup.core.gather import gather_cells, in_format_of
from comixup.core.grid import upsampled
from comixup.core.labelling import Labelling
from comixup.core.maps import grid_sides, pool, pool_maps
from comixup.core.masks import IGNORE_INDEX, check_masks, leading_class, with_channels
from comixup.core.puzzle import (
    best_masks,
    block_sides,
    border_differences,
    mask_energy,
    move_blocks,
    transport,
)
from comixup.core.solve import check_settings
from comixup.core.tensors import check_precision, to_device
from comixup.mixers._comixup import CellMixer
from comixup.mixers._input import ratio_matrix
from comixup.mixers._mixer import Mixed
from comixup.mixers._salient import drawn_grid, grid_choices


@dataclass(frozen=True, eq=False)
class Puzzle:
    """A plan: output j is z times image j plus 1 - z times its partner, after moving blocks.

    Attributes:
        partners: (m,) integers.
        labels: (m, *grid) integers in 0..levels; z = labels / levels.
        levels: L.
        moves: (2, m, *blocks) integers: for each location, the row-major index of the image's block
            that is moved there, and of its partner's; None if nothing moves.
    """

    partners: Tensor
    labels: Tensor
    levels: int
    moves: Tensor | None = None

    @property
    def labelling(self) -> Labelling:
        """The labelling, without the moves."""
        own = torch.arange(self.num_inputs, device=self.partners.device)
        return Labelling(self._sources(own, self.partners), self.num_inputs)

    @property
    def num_inputs(self) -> int:
        """m, the number of inputs, and of outputs."""
        return len(self.partners)

    @property
    def masks(self) -> Tensor:
        """The share of each input at each cell of each output, (m, m, *grid).

        Moved blocks come from other locations of their input, which `moves` has.
        """
        return self.labelling.masks

    def source_ratio(self, size: Sequence[int] | None = None) -> Tensor:
        """Returns the share of each input in each output, (m, m); see `Labelling.source_ratio`."""
        return self.labelling.source_ratio(size)

    def mix_images(self, images: Tensor) -> Tensor:
        """Returns images, or any other tensor (m, C, *size), moved and mixed.

        The size may differ from that of the plan's images; if blocks move, each side has to be a
        multiple of the number of blocks.
        """
        self.labelling.check_images(images)
        moved, sources = self._moved(images)
        return in_format_of(images, gather_cells(moved, sources))

    def mix_masks(self, masks: Tensor, ignore_index: int | None = IGNORE_INDEX) -> Tensor:
        """Returns masks of class indices, (m, *size) integers, moved and mixed like the images.

        Blended cells have the class with the larger share; ties go to the image itself, or to
        `ignore_index` if one of the two has no class.
        """
        check_masks(masks, ignore_index)
        wide = with_channels(masks, self.labels.ndim - 1)
        self.labelling.check_batch(wide, "masks")
        moved, sources = self._moved(wide)
        candidates = [gather_cells(moved, level.unsqueeze(1)) for level in sources.unbind(1)]
        mixed = leading_class(candidates, [1.0] * len(candidates), ignore_index)
        return mixed.view(masks.shape)

    def _moved(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Returns images and moved partners, and the source of each cell."""
        own = torch.arange(self.num_inputs, device=self.partners.device)
        if self.moves is None:
            return images, self._sources(own, self.partners)
        blocks = tuple(self.moves.shape[2:])
        if any(p % c for p, c in zip(images.shape[2:], blocks, strict=True)):
            raise ValueError(
                f"`images` must have sides that are multiples of {blocks}, the blocks that this "
                f"plan moves, got the size {tuple(images.shape[2:])}. Resize them first."
            )
        partners = to_device(self.partners, images.device)
        moved = [move_blocks(images, self.moves[0]), move_blocks(images[partners], self.moves[1])]
        return torch.cat(moved), self._sources(own, own + self.num_inputs)

    def _sources(self, own: Tensor, other: Tensor) -> Tensor:
        """Returns the source of each level of each cell, (m, L, *grid)."""
        shape = (-1, *[1] * self.labels.ndim)
        level = torch.arange(self.levels, device=own.device).view(
            1, -1, *[1] * (self.labels.ndim - 1)
        )
        return torch.where(level < self.labels.unsqueeze(1), own.view(shape), other.view(shape))


@dataclass(eq=False, repr=False, kw_only=True)
class PuzzleMix(CellMixer):
    """Puzzle Mix (Kim, Choo and Song, ICML 2020): the salient regions of pairs of images.

    Each image has a partner in the batch. The mask is an exact minimum of the method's energy;
    salient blocks then move to cells where their image is shown. The defaults are the published
    settings (ImageNet: neighbour=2; there and on Tiny ImageNet blocks move as large as the mask's
    cells, on CIFAR-100 the authors set t_size=4). The clean pass: their code trains on clean images
    too (clean_weight=1) on Tiny ImageNet and in most of its ImageNet phases, and does not on
    CIFAR-100 (clean_weight=0, with the model in evaluation mode). `docs/puzzlemix.md` lists all
    differences.

    Args:
        alpha: parameter of the Beta distribution of lambda, drawn once per batch: the prior's share
            of the image itself.
        grid: cells per side, or a list of choices, one of which is drawn per batch. A choice is a
            number, or one per side: ((2, 8),) is always 2 x 8. At most one cell per pixel.
        levels: L; masks are multiples of 1/L.
        beta: weight of smoothness.
        gamma: weight of color differences across borders, relative to smoothness.
        eta: weight of the prior.
        neighbour: side in pixels of the patches whose colors are compared across a border.
        transport: whether blocks move. This requires image sides that are multiples of the grid's;
            other batches are mixed without moves, with one warning.
        t_eps: weight of the distance in the transport cost, relative to saliency.
        t_size: smallest side in pixels of the blocks that move; blocks divide cells evenly. None:
            blocks are cells.
        keep_gradients: see `comixup.saliency`.
        saliency_scale: compute saliency on images of this relative size (`scale` of
            `comixup.saliency`); below 1 only with keep_gradients=False.
        target_weight: an input's weight in the target: its share of the pixels ("area"), or of the
            saliency that the output shows, blocks moved ("saliency").
        std: the normalization's std per channel, to compare colors on a scale of 0 to 1; (1.0,) for
            unnormalized images. None: each channel's range in the batch.
        num_threads: threads that share the batch; None means torch's number.
        num_classes, p, clean_weight, clean_reduction, generator, validate: see `Mixer`.

    >>> mixup = PuzzleMix(num_classes=10)
    >>> images, targets = torch.rand(8, 3, 32, 32), torch.arange(8)
    >>> mixed, soft = mixup(images, targets, saliency=torch.rand(8, 32, 32))
    >>> mixed.shape, soft.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    alpha: float = 1.0
    grid: int | Sequence[int | Sequence[int]] = (2, 4, 8, 16)
    levels: int = 2
    beta: float = 1.2
    gamma: float = 0.5
    eta: float = 0.2
    neighbour: int = 4
    transport: bool = True
    t_eps: float = 0.8
    t_size: int | None = None
    std: Sequence[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("alpha", self.alpha)
        self._grids = grid_choices(self.grid)
        for name in ("beta", "gamma", "eta", "t_eps"):
            check_number(name, getattr(self, name))
        check_count("neighbour", self.neighbour)
        check_boolean("transport", self.transport)
        if self.t_size is not None:
            check_count("t_size", self.t_size)
        for value in self.std or ():
            check_positive("std", value, "Leave it out for images that were not divided.")
        check_settings(levels=self.levels)
        self._std = None
        if self.std is not None:
            self._std = torch.tensor(tuple(self.std), dtype=torch.float32, device="cpu")
        self._warned_of_cells = False

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns the masks and moves of a batch."""
        saliency = self.checked(saliency, images)
        self._check_std(images)
        check_precision("images", images)
        size = tuple(map(min, images.shape[2:], saliency.shape[1:]))  # every cell needs a pixel
        sides = grid_sides(drawn_grid(self._grids, self.generator), size)
        partners = torch.randperm(len(images), generator=self.generator)
        ratio = float(dirichlet(self.alpha, 2, numpy_generator(self.generator))[0, 0])
        blocks = self._blocks(tuple(images.shape[2:]), sides)
        maps = pool_maps(saliency, sides if blocks is None else blocks)
        uniform = int(maps.uniform.sum())
        if uniform:
            self.warn_of_uniform(maps.uniform, images, saliency)

        fine = torch.from_numpy(maps.cells)
        cells = pool(fine, sides)
        cells = cells / cells.flatten(1).sum(1).view(-1, *[1] * len(sides))
        on_device = to_device(partners, images.device)
        unary, weights = mask_energy(
            cells,
            partners,
            border_differences(images, on_device, sides, self.neighbour, self._std),
            ratio,
            levels=self.levels,
            beta=self.beta,
            gamma=self.gamma,
            eta=self.eta,
        )
        labels = best_masks(unary, weights, sides, self.num_threads)
        moves = None if blocks is None else self._moves(fine, partners, labels)
        plan = Puzzle(partners, labels, self.levels, moves)
        by_saliency = self.target_weight == "saliency"
        shown = saliency_ratio(plan, fine, images.shape[2:]) if by_saliency else None
        return Mixed(plan, target_ratio=shown, uniform_maps=uniform, cells=cells)

    def _blocks(self, size: tuple[int, ...], sides: tuple[int, ...]) -> tuple[int, ...] | None:
        """Returns the number of transported blocks per side; None without transport."""
        if not self.transport:
            return None
        blocks = block_sides(size, sides, self.t_size)
        if blocks is None and not self._warned_of_cells:
            self._warned_of_cells = True
            warn_caller(
                f"Images of size {size} on a grid {sides} are mixed without transport: blocks can "
                "change places only if all have the same size. Choose `grid` so that it divides "
                "the images' sides, or transport=False; this warning is shown once."
            )
        return blocks

    def _moves(self, cells: Tensor, partners: Tensor, labels: Tensor) -> Tensor:
        """Returns the moves of images and of partners, (2, m, *blocks)."""
        blocks = cells.shape[1:]
        seen = upsampled(labels, blocks)
        granted = torch.cat([seen > 0, seen < self.levels])
        saliency = torch.cat([cells, cells[partners]])
        found = transport(saliency, granted, self.t_eps, self.num_threads)
        return found.view(2, len(cells), *blocks)

    def _check_std(self, images: Tensor) -> None:
        if self._std is not None and len(self._std) not in (1, images.shape[1]):
            raise ValueError(
                f"`std` must have one number, or one for each of the {images.shape[1]} channels, "
                f"got {len(self._std)}."
            )


def saliency_ratio(plan: Puzzle, maps: Tensor, size: Sequence[int]) -> Tensor:
    """Returns each input's share of the saliency that an output shows, (m, m); rows sum to one.

    An output without any saliency is divided by area. `maps`, (m, *blocks), have a value per block,
    or per cell if the plan moves nothing.
    """
    own, other = maps, maps[plan.partners]
    if plan.moves is not None:
        own, other = (
            move_blocks(image.unsqueeze(1), block_at).squeeze(1)
            for image, block_at in zip((own, other), plan.moves, strict=True)
        )
    z = upsampled(plan.labels, maps.shape[1:]) / plan.levels
    shown = torch.stack([z * own, (1 - z) * other], 1).flatten(2).sum(2).float()
    total = shown.sum(1, keepdim=True)
    ratio = ratio_matrix(plan.partners.unsqueeze(1), shown / total)
    return torch.where(total > 0, ratio, plan.source_ratio(size))
