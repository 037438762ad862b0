"""From a batch, its saliency and settings to everything that the page shows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from comixup import (
    CoMixup,
    CutMix,
    InputMixup,
    Labelling,
    Mixed,
    Mixer,
    PuzzleMix,
    Terms,
    objective,
    solve,
)
from comixup.lab.explorer._augmented import augmented
from comixup.lab.explorer._images import Batch
from comixup.lab.explorer._settings import Settings

_TIMES = 3
"""The solver is timed so often; the least counts."""


@dataclass(frozen=True, eq=False)
class Result:
    """A mixed batch and why it is as it is.

    Attributes:
        whole: the images before augmentation.
        whole_saliency: (m, H, W) theirs.
        batch: what was mixed.
        saliency: (m, H, W).
        settings: how.
        mixed: what Co-Mixup decided.
        mixed_images: (m, C, H, W).
        mixed_targets: (m, classes).
        terms: of the objective after 1, 2, ... sweeps, summed over the partitions.
        compatibility: (m, m) the matrix A, NaN between inputs of different partitions.
        inputs_per_output: (m,) how many inputs each output shows.
        solve_milliseconds: of the solver alone, on one thread.
        baselines: what the other methods decided for the same batch, by their names.
    """

    whole: Batch
    whole_saliency: Tensor
    batch: Batch
    saliency: Tensor
    settings: Settings
    mixed: Mixed
    mixed_images: Tensor
    mixed_targets: Tensor
    terms: tuple[Terms, ...]
    compatibility: Tensor
    inputs_per_output: Tensor
    solve_milliseconds: float
    baselines: Mapping[str, Mixed]


def explore(batch: Batch, saliency: Tensor, settings: Settings) -> Result:
    """Returns what Co-Mixup, and the other methods beside it, make of a batch.

    The terms after t sweeps are those of the labelling that t sweeps lead to, from the same start.
    The last sweep also separates outputs that would use the same inputs (`resolve` of `CoMixup`),
    which may raise the objective.

    Args:
        batch: to augment, if the settings say so, and to mix.
        saliency: (m, *size), as for the mixers.
        settings: of augmentation and method; those of images and saliency play no part here.
    """
    whole, whole_saliency = batch, saliency
    if settings.augment != "none":
        batch, saliency = augmented(batch, saliency, settings.augment, seed=settings.seed)
    mixer = comixup_of(settings, len(batch.class_names))
    images, targets = mixer(batch.images, batch.targets, saliency)
    early = [
        comixup_of(settings, len(batch.class_names), sweeps=sweeps, resolve=False)
        for sweeps in range(1, settings.sweeps)
    ]
    for other in early:
        other(batch.images, batch.targets, saliency)
    terms = [_terms(done.last) for done in (*early, mixer)]
    ratio = mixer.last.plan.source_ratio()
    return Result(
        whole=whole,
        whole_saliency=whole_saliency,
        batch=batch,
        saliency=saliency,
        settings=settings,
        mixed=mixer.last,
        mixed_images=images,
        mixed_targets=targets,
        terms=tuple(terms),
        compatibility=_whole_matrix(mixer.last),
        inputs_per_output=(ratio > 0).sum(1),
        solve_milliseconds=_solve_milliseconds(mixer),
        baselines=baselines(batch, saliency, settings),
    )


def comixup_of(
    settings: Settings, num_classes: int, *, sweeps: int | None = None, resolve: bool = True
) -> CoMixup:
    """Returns the mixer of some settings; another number of sweeps leaves all draws as they are."""
    mixer = CoMixup(
        num_classes,
        beta=settings.beta,
        gamma=settings.gamma,
        tau=settings.tau,
        omega=settings.omega,
        eta=settings.eta,
        grid=settings.grid,
        partition_size=settings.partition_size,
        levels=settings.levels,
        sweeps=settings.sweeps if sweeps is None else sweeps,
        resolve=resolve,
        generator=_seeded(settings),
    )
    mixer.uniform_expected = True  # the page tells of images in which nothing stands out
    return mixer


def baselines(batch: Batch, saliency: Tensor, settings: Settings) -> dict[str, Mixed]:
    """Returns what the other methods decide for a batch, at their own defaults, by their names."""
    classes = len(batch.class_names)
    # Blocks can change places only if all have the same size.
    even = all(side % settings.grid == 0 for side in batch.images.shape[2:])
    mixers: dict[str, Mixer] = {
        "Input mixup": InputMixup(classes, generator=_seeded(settings)),
        "CutMix": CutMix(classes, generator=_seeded(settings)),
        "Puzzle Mix": PuzzleMix(
            classes, grid=settings.grid, transport=even, generator=_seeded(settings)
        ),
    }
    for mixer in mixers.values():
        mixer.uniform_expected = True
        mixer(batch.images, batch.targets, saliency if mixer.needs_saliency else None)
    return {name: mixer.last for name, mixer in mixers.items()}


def _whole_matrix(mixed: Mixed) -> Tensor:
    """Returns the partitions' matrices as blocks of one of the whole batch."""
    count = mixed.plan.num_inputs
    whole = torch.full((count, count), torch.nan, dtype=torch.float64)
    first = 0
    for problem in mixed.problems:
        last = first + problem.num_inputs
        whole[first:last, first:last] = problem.compatibility
        first = last
    return whole


def _solve_milliseconds(mixer: CoMixup) -> float:
    taken = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        solve(
            mixer.last.problems,
            sweeps=mixer.sweeps,
            levels=mixer.levels,
            resolve=mixer.resolve,
            num_threads=1,
            generator=torch.Generator().manual_seed(0),
        )
        taken.append(time.perf_counter() - start)
    return 1000 * min(taken)


def _terms(mixed: Mixed) -> Terms:
    """Returns the terms of the objective of what Co-Mixup decided."""
    if not isinstance(mixed.plan, Labelling):
        raise TypeError(f"`mixed` must have a Labelling, got {type(mixed.plan).__name__}.")
    return objective(mixed.problems, mixed.plan)


def _seeded(settings: Settings) -> torch.Generator:
    return torch.Generator().manual_seed(settings.seed)
