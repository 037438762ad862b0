"""From a batch, its saliency and settings to what is shown: on the page, as code, as a picture."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from torch import Tensor

import comixup
from comixup import CoMixup, Labelling, Mixed, Mixer, Terms, objective, plot_batch, solve
from comixup._checks import check_count
from comixup._methods import METHODS
from comixup.lab._augmentation import Augmentation
from comixup.lab._limits import MAX_SEED
from comixup.lab.explorer._images import (
    Batch,
    augmented,
    files_batch,
    load_images,
    load_network,
    network_maps,
    read_pixels,
    sample_images,
)
from comixup.lab.explorer._settings import (
    MAX_BYTES,
    MAX_FILES,
    SIDE,
    SPECTRAL,
    Settings,
    default_saliency,
)
from comixup.lab.training._mixers import MIXERS
from comixup.plots import plot_tracked

_BASELINES = tuple(n for n in METHODS if n not in ("vanilla", "manifold", "comixup"))
"""Those that mix images."""
_FIELDS = ["beta", "gamma", "tau", "omega", "eta", "grid", "partition_size", "levels", "sweeps"]
"""Of the settings: those of `CoMixup`."""
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
        baselines: what each of the other methods mixed, the same batch or with it the one before,
            and what it decided; by their titles.
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
    baselines: Mapping[str, tuple[Batch, Mixed]]


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
    chosen = {name: getattr(settings, name) for name in _FIELDS}
    early: list[dict[str, Any]] = [
        {"sweeps": sweeps, "resolve": False} for sweeps in range(1, settings.sweeps)
    ]
    terms = []
    for other in (*early, {}):  # another number of sweeps leaves all draws as they are
        mixer = CoMixup(len(batch.class_names), **chosen | other, generator=_seeded(settings))
        _, (images, targets) = _mix(mixer, batch, saliency)
        assert isinstance(mixer.last.plan, Labelling)
        terms.append(objective(mixer.last.problems, mixer.last.plan))
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
        inputs_per_output=(mixer.last.plan.source_ratio() > 0).sum(1),
        solve_milliseconds=_solve_milliseconds(mixer),
        baselines=_baselines(batch, saliency, settings),
    )


def _mix(
    mixer: Mixer, batch: Batch, saliency: Tensor | None
) -> tuple[Batch, tuple[Tensor, Tensor]]:
    """Returns what is mixed, and what becomes of it.

    Methods that mix the batch before into each one have had the same images before, each time in
    another order; what they were mixed to is part of what is mixed.
    """
    mixer.uniform_expected = True  # the page tells of images in which nothing stands out
    inputs = batch
    if mixer.recalls:
        for shift in (2, 1):
            mixer(batch.images.roll(shift, 0), batch.targets.roll(shift, 0))
        own, before = mixer.soft_targets(batch.targets, len(batch.images)), mixer.previous
        inputs = replace(
            batch,
            images=torch.cat([batch.images, before["images"]]),
            targets=torch.cat([own, before["targets"]]),
        )
    maps = saliency if mixer.needs_saliency else None
    return inputs, mixer(batch.images, batch.targets, maps)


def _baselines(
    batch: Batch, saliency: Tensor, settings: Settings
) -> dict[str, tuple[Batch, Mixed]]:
    """Returns what the other methods decide for a batch, at their own defaults, by their titles."""
    # Blocks can change places only if all have the same size.
    even = all(side % settings.grid == 0 for side in batch.images.shape[2:])
    found = {}
    for name in _BASELINES:
        own = {"grid": settings.grid, "transport": even} if name == "puzzlemix" else {}
        make: Callable[..., Mixer] = MIXERS[name]
        mixer = make(len(batch.class_names), generator=_seeded(settings), **own)
        inputs, _ = _mix(mixer, batch, saliency)
        found[METHODS[name].title] = inputs, mixer.last
    return found


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


def _seeded(settings: Settings) -> torch.Generator:
    return torch.Generator().manual_seed(settings.seed)


# ---- As Python lines -----------------------------------------------------------------------------

_LINES = """\
import torch

import comixup
from comixup.lab import explorer

batch = {call}
saliency = {saliency}
{augmented}mixup = comixup.CoMixup(
    num_classes={classes},
{chosen}    generator=torch.Generator().manual_seed({seed}),
)
images, targets = mixup(batch.images, batch.targets, saliency)
figure = comixup.plot_batch(
    batch.images, batch.targets, mixup, class_names=batch.class_names, tint={tint}
)
figure.savefig("batch.png")
"""


def python_lines(batch: Batch, settings: Settings) -> str:
    """Returns a program that mixes a batch as `explore` does, to the last bit, and draws it.

    Image files are named without their folder: run the lines where they are.
    """
    if settings.saliency == SPECTRAL:
        saliency = "comixup.spectral_residual(batch.images)"
    else:
        network = f"explorer.load_network({settings.saliency!r})"
        saliency = f"explorer.network_maps(batch, {network})"
    moved = ""
    if settings.augment != "none":
        call = f"explorer.augmented(batch, saliency, {settings.augment!r}, seed={settings.seed})"
        moved = f"batch, saliency = {call}\n"
    return _LINES.format(
        call=batch.call,
        saliency=saliency,
        augmented=moved,
        classes=len(batch.class_names),
        chosen="".join(f"    {name}={getattr(settings, name)!r},\n" for name in _FIELDS),
        seed=settings.seed,
        tint=batch.tint,
    )


# ---- Files, without a page -----------------------------------------------------------------------


class Sheet(NamedTuple):
    """Inputs, outputs and targets; a line of numbers; images before and after augmentation."""

    figure: Figure
    summary: str
    tracked: Figure | None = None


def mix_files(
    files: Sequence[Path],
    *,
    method: str = "comixup",
    settings: Mapping[str, Any] | None = None,
    source: str | None = None,
    augment: Augmentation = "none",
    count: int = 10,
    side: int = SIDE,
    seed: int = 0,
) -> Sheet:
    """Returns a picture of image files and what a method makes of them.

    Args:
        files: images; their folders are their classes if there are several of these.
        method: a name of `comixup._methods`, of those that mix images: "comixup", "cutmix", ...
        settings: keywords of the method's mixer.
        source: of saliency, for methods that need it: "spectral residual", or see `load_network`.
            None for the default of `Settings`.
        augment: augment the images first; their saliency follows. See `augmented`.
        count: mix so many, drawn by the seed if there are more files.
        side: pixels per side that images are resized and cropped to.
        seed: of all draws.
    """
    check_count("count", count, 1, MAX_FILES)
    check_count("seed", seed, 0, MAX_SEED)
    generator = torch.Generator().manual_seed(seed)
    chosen = list(files)
    if len(chosen) > count:
        rows = torch.randperm(len(chosen), generator=generator)[:count].sort().values
        chosen = [chosen[row] for row in rows.tolist()]
    folders = [file.parent.name for file in chosen]
    named = folders if len(set(folders)) > 1 else None
    batch = load_images(chosen, side=side, class_names=named)
    title = METHODS[method].title
    kind = MIXERS[method]
    try:
        mixer: Mixer = kind(len(batch.class_names), generator=generator, **(settings or {}))
    except TypeError as error:
        raise ValueError(
            f"`settings` must be those of {kind.__name__}, got {dict(settings or {})} ({error})."
        ) from None
    source = default_saliency() if source is None else source
    if mixer.needs_saliency and source != SPECTRAL:
        maps = network_maps(batch, load_network(source))
    else:  # of methods that need no saliency it shows what is tracked
        maps = comixup.spectral_residual(batch.images)
    tracked = None
    if augment != "none":
        whole, before = batch, maps
        batch, maps = augmented(whole, before, augment, seed=seed)
        tracked = plot_tracked(whole.images, before, batch.images, maps)
    batch, _ = _mix(mixer, batch, maps)
    more = f", of {len(files)}" if len(files) > len(chosen) else ""
    heading = f"{title} of {len(chosen)} images{more}"
    figure = plot_batch(
        batch.images,
        batch.targets,
        mixer,
        class_names=batch.class_names,
        title=heading,
        max_inputs=MAX_FILES,
        max_outputs=MAX_FILES,
    )
    used = float((mixer.last.plan.source_ratio() > 0).sum(1).double().mean())
    summary = (
        f"{title}: {len(chosen)} of {len(files)} images, {used:.1f} inputs per output on average."
    )
    if mixer.needs_saliency:
        summary += f" Saliency: {source}."
    if mixer.last.uniform_maps:
        summary += f" Nothing stands out in {mixer.last.uniform_maps} of the images."
    return Sheet(figure, summary, tracked)


# ---- What the page computes once and keeps -------------------------------------------------------

_BATCHES, _FILES, _NETWORKS, _RESULTS = 16, 256, 3, 8
"""As many are kept."""


class Workbench:
    """Batches and their saliency by settings, the last ones of which are kept.

    Several threads may ask at once.

    Args:
        runs: folders of runs that are offered as sources of saliency.
    """

    def __init__(self, runs: Sequence[str] = ()) -> None:
        self.runs = tuple(runs)
        self._sample = lru_cache(_BATCHES)(sample_images)
        self._file = lru_cache(_FILES)(_read)
        self._files = lru_cache(_BATCHES)(files_batch)
        self._network = lru_cache(_NETWORKS)(load_network)
        self._maps = lru_cache(_BATCHES)(self._compute_maps)
        self._explored = lru_cache(_RESULTS)(self._explore)

    def batch(self, settings: Settings, files: Sequence[str] = ()) -> tuple[Batch, list[str]]:
        """Returns the batch that settings, or a visitor's files in its place, name.

        And what is wrong with each of the files that cannot be read; if none can, this is raised.
        """
        if len(files) > MAX_FILES:
            raise ValueError(
                f"There must be at most {MAX_FILES} images, got {len(files)}. Choose some."
            )
        read = {file: self._file(file, settings.side) for file in files}
        problems = [found for found in read.values() if isinstance(found, str)]
        good = {Path(f): image for f, image in read.items() if isinstance(image, Tensor)}
        if problems and not good:
            raise ValueError("\n".join(problems))
        if good:
            return self._files(tuple(good), tuple(good.values())), problems
        own = {name: getattr(settings, name) for name in ("count", "draw", "side")}
        return self._sample(settings.sample, **own), problems

    def saliency(self, batch: Batch, settings: Settings) -> Tensor:
        """Returns a batch's saliency from the source that settings name."""
        return self._maps(batch, settings.saliency)

    def result(self, settings: Settings, files: Sequence[str] = ()) -> tuple[Result, list[str]]:
        """Returns everything that is shown of a batch, and what is wrong with files, as `batch`."""
        batch, problems = self.batch(settings, files)
        return self._explored(batch, settings), problems

    def _compute_maps(self, batch: Batch, source: str) -> Tensor:
        if source == SPECTRAL:
            return comixup.spectral_residual(batch.images)
        return network_maps(batch, self._network(source))

    def _explore(self, batch: Batch, settings: Settings) -> Result:
        return explore(batch, self.saliency(batch, settings), settings)


def _read(path: str, side: int) -> Tensor | str:
    """Returns the image of a visitor's file, or what is wrong with it."""
    file = Path(path)
    try:
        if (size := file.stat().st_size) > MAX_BYTES:
            bound = MAX_BYTES // 2**20
            return f"{file.name} must have at most {bound} MB, got {size / 2**20:.0f}."
        return read_pixels(file, side)
    except (ValueError, OSError) as error:
        return str(error).replace(path, file.name)
