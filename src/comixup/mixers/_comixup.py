"""Co-Mixup: one discrete problem over the whole batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from comixup._checks import (
    check_boolean,
    check_choice,
    check_count,
    check_number,
    check_positive,
    floating,
)
from comixup._labelling import Labelling
from comixup._maps import check_grid
from comixup._mix import Plan
from comixup._problem import (
    PRIOR_FLOOR,
    Clip,
    CompatibilityFn,
    HostArrays,
    Problem,
    Smoothness,
    paper_compatibility,
)
from comixup._random import dirichlet, draws
from comixup._saliency import check_scale
from comixup._solve import check_settings, solve
from comixup.mixers._batch import Maps, given, part_sizes, sides_for, summarise, warn_of_uniform
from comixup.mixers._mixer import CleanReduction, Mixed, Mixer

TargetWeight: TypeAlias = Literal["area", "saliency"]


PARTITIONS_PER_THREAD = 8
"""Partitions of 20 take a thread about as long as torch's threads stay busy."""


class CoMixup(Mixer):
    """Co-Mixup (Kim et al., ICLR 2021): salient, smooth and diverse mixtures of a whole batch.

    The defaults are the paper's. From each partition of the batch as many outputs are made as it
    has inputs; each output may take cells from any of them.

    Args:
        num_classes: columns of the mixed targets; None if targets come with theirs.
        p: probability that a batch is mixed at all.
        partition_size: at most this many inputs are mixed together, in parts of near-equal size;
            None means the whole batch.
        num_outputs: images to make of a batch, shared out among its parts; None: as many as it has.
        clean_weight: weight of the clean loss whose gradient `saliency` keeps.
        clean_reduction: put clean and mixed loss together by their "sum" or weighted "mean".
        keep_gradients: see `comixup.saliency`.
        saliency_scale: compute saliency on images of this relative size (`scale` of
            `comixup.saliency`); below 1 only with keep_gradients=False.
        resolve: part outputs that would use the same inputs (a step of the authors' code).
        target_weight: an input's weight in the target: its share of the pixels ("area"), or of the
            saliency that the output shows ("saliency").
        sweeps: passes of Algorithm 1 over the outputs.
        levels: L; masks are multiples of 1/L.
        grid: cells a side, or one number per side; at most one per pixel.
        beta: weight of smoothness.
        gamma: weight of the compatibility penalty between outputs.
        tau: load up to which nothing is penalised, relative to the mean load of an input.
        eta: weight of the prior.
        omega: weight of the distances between salient places in the compatibility matrix.
        alpha: the prior's Dirichlet parameter; None leaves the prior out.
        compatibility: the (m, m) matrix itself, or a function of a part's saliency that returns it.
        clip: see `Problem`.
        smoothness: see `Problem`.
        num_threads: threads that share the partitions; None means torch's number, and for images on
            the CPU one for every eight partitions.
        generator: where all draws come from, on the CPU; None means torch's global one.
        validate: check class indices even where the host has to wait for a device.

    >>> mixup = CoMixup(num_classes=10)
    >>> images, targets = torch.rand(8, 3, 32, 32), torch.arange(8)
    >>> mixed, soft = mixup(images, targets, saliency=torch.rand(8, 32, 32))
    >>> mixed.shape, soft.shape
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]))
    """

    needs_saliency = True

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        p: float = 1.0,
        partition_size: int | None = 20,
        num_outputs: int | None = None,
        clean_weight: float = 1.0,
        clean_reduction: CleanReduction = "sum",
        keep_gradients: bool = True,
        saliency_scale: float = 1.0,
        resolve: bool = True,
        target_weight: TargetWeight = "area",
        sweeps: int = 4,
        levels: int = 2,
        grid: int | Sequence[int] = 4,
        beta: float = 0.32,
        gamma: float = 1.0,
        tau: float = 0.83,
        eta: float = 0.05,
        omega: float = 0.001,
        alpha: float | None = 2.0,
        compatibility: Tensor | CompatibilityFn | None = None,
        clip: Clip = "soft",
        smoothness: Smoothness = "squared",
        num_threads: int | None = None,
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
        for name, count in (("partition_size", partition_size), ("num_outputs", num_outputs)):
            if count is not None:
                check_count(name, count)
        check_boolean("keep_gradients", keep_gradients)
        check_boolean("resolve", resolve)
        check_choice("target_weight", target_weight, ("area", "saliency"))
        check_number("omega", omega, high=1)
        if alpha is not None:
            check_positive("alpha", alpha, "Use None for no prior.")
        check_settings(sweeps=sweeps, levels=levels, num_threads=num_threads)
        check_grid(grid)
        if not (compatibility is None or callable(compatibility)):
            compatibility = floating("compatibility", compatibility)
        # A problem of two inputs: wrong weights are refused here, and every batch's takes its own
        # from it.
        self.weights = Problem(
            -torch.eye(2, device="cpu"),
            torch.eye(2, device="cpu"),
            beta=beta,
            gamma=gamma,
            tau=tau,
            eta=eta,
            clip=clip,
            smoothness=smoothness,
        )
        self.partition_size = partition_size
        self.num_outputs = num_outputs
        check_scale("saliency_scale", saliency_scale, keep_gradients and clean_weight > 0)
        self.keep_gradients = keep_gradients
        self.saliency_scale = saliency_scale
        self.resolve = resolve
        self.target_weight = target_weight
        self.sweeps = sweeps
        self.levels = levels
        self.grid = grid
        self.omega = omega
        self.alpha = alpha
        self.compatibility = compatibility
        self.num_threads = num_threads
        self._warned = False

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns the labelling that Algorithm 1 finds for a batch."""
        saliency = given(saliency)
        maps = summarise(saliency, sides_for(self.grid, images, saliency))
        self._warned = warn_of_uniform(maps, already=self._warned or self.uniform_expected)
        problems = self.problems(maps, saliency)
        labelling = solve(
            problems,
            sweeps=self.sweeps,
            levels=self.levels,
            resolve=self.resolve,
            num_threads=self.num_threads or _threads_for(len(problems), images.device),
            generator=self.generator,
        )
        by_saliency = self.target_weight == "saliency"
        ratio = saliency_ratio(labelling, maps.cells) if by_saliency else None
        return Mixed(labelling, target_ratio=ratio, uniform_maps=maps.uniform)

    def leave(self, images: Tensor) -> Plan:
        """Returns the plan that shows images as they are: all, or `num_outputs` at random."""
        if self.num_outputs is None:
            return super().leave(images)
        m = len(images)
        order = torch.randperm(m, generator=self.generator)
        own = order[torch.arange(self.num_outputs) % m]
        return Labelling(own.view(-1, *[1] * (images.ndim - 1)), num_inputs=m)

    def problems(self, maps: Maps, saliency: Tensor) -> list[Problem]:
        """Returns the problem of each partition."""
        m, random = len(saliency), draws(self.generator)
        grid, cells = tuple(maps.cells.shape[1:]), maps.cells.flatten(1).numpy()
        problems, first = [], 0
        for inputs, outputs in part_sizes(m, self.partition_size, self.num_outputs or m):
            part = slice(first, first + inputs)
            first += inputs
            prior = None
            if self.alpha is not None:
                prior = dirichlet(self.alpha, inputs, random)[0].clamp_(min=PRIOR_FLOOR).numpy()
            matrix = paper_compatibility(maps.places[part], self.omega)
            arrays = HostArrays(-cells[part], matrix, prior)
            problem = self.weights.with_arrays(arrays, grid, outputs)
            if self.compatibility is not None:  # the caller's own, so it is checked
                problem = replace(problem, compatibility=self._own_compatibility(saliency, part))
            problems.append(problem)
        return problems

    def _own_compatibility(self, saliency: Tensor, part: slice) -> Tensor:
        """Returns the matrix of a part that the caller gave, or whose function was given."""
        m = len(saliency)
        if not isinstance(self.compatibility, Tensor):
            matrix = self.compatibility(saliency[part]) if self.compatibility else None
            return floating("compatibility", matrix).cpu()
        if self.compatibility.shape != (m, m):
            raise ValueError(
                f"`compatibility` must have shape ({m}, {m}), a row and a column per image of the "
                f"batch, got {tuple(self.compatibility.shape)}. A function of the saliency works "
                "for batches of any size."
            )
        return self.compatibility[part, part].cpu()


def _threads_for(partitions: int, device: torch.device) -> int:
    """Returns how many threads to share partitions among where the caller has not said.

    After each of torch's parallel operations its threads keep their cores busy for milliseconds,
    waiting for the next: on the CPU another thread gains nothing before it has that much to do.
    """
    threads = torch.get_num_threads()
    if device.type != "cpu":
        return threads
    return min(threads, -(-partitions // PARTITIONS_PER_THREAD))


def saliency_ratio(labelling: Labelling, cells: Tensor) -> Tensor:
    """Returns each input's share of the saliency that an output shows, (m', m); rows sum to one.

    An output that shows no saliency at all has the shares of its area.
    """
    sources = labelling.sources.flatten(2)
    shown = cells.flatten(1)[sources, torch.arange(sources.shape[2])] / labelling.levels
    ratio = torch.zeros(labelling.num_outputs, labelling.num_inputs)
    ratio.scatter_add_(1, sources.flatten(1), shown.flatten(1).float())
    total = ratio.sum(1, keepdim=True)
    return torch.where(total > 0, ratio / total, labelling.source_ratio())
