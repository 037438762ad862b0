"""Co-Mixup, and the base class that it shares with Puzzle Mix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_choice, check_count
from comixup.core.labelling import Labelling
from comixup.core.maps import check_grid
from comixup.core.mix import Plan
from comixup.core.problem import CompatibilityFn, Partition, build_problems, check_term_scale
from comixup.core.solve import check_settings, solve_checked
from comixup.core.tensors import floating
from comixup.core.weights import (
    ALPHA,
    GRID,
    LEVELS,
    OMEGA,
    PARTITION_SIZE,
    SWEEPS,
    Weights,
    check_prior_settings,
)
from comixup.mixers._mixer import Mixed
from comixup.mixers._salient import SaliencyMixer

PARTITIONS_PER_THREAD = 8
"""A thread solves so many partitions of 20 in about the time that torch's idle threads spin."""

TargetWeight: TypeAlias = Literal["area", "saliency"]


@dataclass(eq=False, repr=False, kw_only=True)
class CellMixer(SaliencyMixer):
    """Base class of the methods that solve for a mask per cell."""

    target_weight: TargetWeight = "area"
    num_threads: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("target_weight", self.target_weight, ("area", "saliency"))
        check_settings(num_threads=self.num_threads)


@dataclass(eq=False, repr=False, kw_only=True)
class CoMixup(Weights, CellMixer):
    """Co-Mixup (Kim et al., ICLR 2021): salient, smooth and diverse mixtures of a whole batch.

    The defaults are the paper's. Each partition of the batch yields as many outputs as it has
    inputs; an output may take cells from any of them.

    The gradients of the clean and the mixed loss are added, so a parameter update is up to twice as
    large as without mixing at the same learning rate. `clean_reduction="mean"` averages them
    instead: in your own loop multiply the mixed loss by `mixed_weight`, as `training_step` does.

    Args:
        partition_size: most inputs that are mixed together, in partitions of near-equal size; None
            means the whole batch.
        num_outputs: number of mixed images per batch, divided among its partitions; None: the batch
            size.
        keep_gradients: see `comixup.saliency`.
        saliency_scale: compute saliency on images of this relative size (`scale` of
            `comixup.saliency`); below 1 only with keep_gradients=False.
        resolve: penalize outputs that use the same inputs (a step of the official implementation).
        target_weight: an input's weight in the target: its share of the pixels ("area"), or of the
            saliency that the output shows ("saliency").
        sweeps: passes of Algorithm 1 over the outputs.
        levels: L; masks are multiples of 1/L.
        grid: cells per side, or one number per side; at most one per pixel.
        omega: weight of the distances between salient locations in the compatibility matrix.
        alpha: parameter of the prior's Dirichlet distribution; None means no prior.
        compatibility: the (m, m) matrix itself, or a function of a partition's saliency that
            returns it.
        num_threads: threads that share the partitions; None means torch's number, and for images on
            the CPU one for every eight partitions.
        beta, gamma, tau, eta, clip, smoothness: weights of Eq. (1): see `Problem`.
        num_classes, p, clean_weight, clean_reduction, generator, validate: see `Mixer`.

    >>> mixup = CoMixup(num_classes=10)
    >>> images, targets = torch.rand(8, 3, 32, 32), torch.arange(8)
    >>> mixed, soft = mixup(images, targets, saliency=torch.rand(8, 32, 32))
    >>> mixed.shape, soft.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    partition_size: int | None = PARTITION_SIZE
    num_outputs: int | None = None
    resolve: bool = True
    sweeps: int = SWEEPS
    levels: int = LEVELS
    grid: int | Sequence[int] = GRID
    omega: float = OMEGA
    alpha: float | None = ALPHA
    compatibility: Tensor | CompatibilityFn | None = None

    def __post_init__(self) -> None:
        CellMixer.__post_init__(self)
        for name in ("partition_size", "num_outputs"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        check_boolean("resolve", self.resolve)
        check_prior_settings(self.omega, self.alpha)
        check_settings(sweeps=self.sweeps, levels=self.levels)
        check_grid(self.grid)
        if not (self.compatibility is None or callable(self.compatibility)):
            vars(self)["compatibility"] = floating("compatibility", self.compatibility)
        Weights.__post_init__(self)
        # The costs of an input sum to one. Weights that are too small are rejected here, early.
        check_term_scale(1.0, self, 1, 1.0, has_prior=self.alpha is not None)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns the labelling of a batch by Algorithm 1."""
        maps = self.pooled(saliency, images, self.grid)
        problems = build_problems(
            maps,
            partitions(len(images), self.partition_size, self.num_outputs or len(images)),
            weights=self,
            omega=self.omega,
            alpha=self.alpha,
            compatibility=self.compatibility,
            generator=self.generator,
        )
        threads = self.num_threads or _threads_for(len(problems), images.device)
        labelling = solve_checked(
            problems, self.sweeps, self.levels, self.resolve, threads, self.generator
        )
        cells = torch.from_numpy(maps.cells)
        by_saliency = self.target_weight == "saliency"
        ratio = saliency_ratio(labelling, cells) if by_saliency else None
        return Mixed(
            labelling,
            target_ratio=ratio,
            uniform_maps=int(maps.uniform.sum()),
            cells=cells,
            problems=tuple(problems),
        )

    def identity_plan(self, images: Tensor) -> Plan:
        """Returns the identity plan: all images, or `num_outputs` at random."""
        if self.num_outputs is None:
            return super().identity_plan(images)
        m = len(images)
        order = torch.randperm(m, generator=self.generator)
        own = order[torch.arange(self.num_outputs) % m]
        return Labelling(own.view(-1, *[1] * (images.ndim - 1)), num_inputs=m)


def partitions(inputs: int, partition_size: int | None, outputs: int) -> list[Partition]:
    """Returns a batch's partitions, near-equal in size, each with at least one output.

    >>> [tuple(part) for part in partitions(21, 20, 21)]
    [(11, 11), (10, 10)]
    >>> [tuple(part) for part in partitions(7, 3, 2)]
    [(4, 1), (3, 1)]
    """
    count = 1 if partition_size is None else -(-inputs // partition_size)
    count = min(count, outputs)
    return [
        Partition(inputs // count + (k < inputs % count), outputs // count + (k < outputs % count))
        for k in range(count)
    ]


def _threads_for(partitions: int, device: torch.device) -> int:
    """Returns the default number of threads for a number of partitions.

    After a parallel operation torch's threads spin on their cores for milliseconds: on the CPU,
    another thread pays off only with more work than that.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu":
        return threads
    return min(threads, -(-partitions // PARTITIONS_PER_THREAD))


def saliency_ratio(labelling: Labelling, cells: Tensor) -> Tensor:
    """Returns each input's share of the saliency that an output shows, (m', m); rows sum to one.

    An output without any saliency is divided by area.
    """
    sources = labelling.sources.flatten(2)
    shown = cells.flatten(1)[sources, torch.arange(sources.shape[2])] / labelling.levels
    ratio = torch.zeros(labelling.num_outputs, labelling.num_inputs)
    ratio.scatter_add_(1, sources.flatten(1), shown.flatten(1).float())
    total = ratio.sum(1, keepdim=True)
    return torch.where(total > 0, ratio / total, labelling.source_ratio())
