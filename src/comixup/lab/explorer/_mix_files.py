"""Image files mixed and drawn without a page: the function behind `comixup mix`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from comixup import CoMixup, CutMix, InputMixup, Mixed, Mixer, PuzzleMix, plot_batch
from comixup._checks import check_count
from comixup.lab._augmentation import Augmentation
from comixup.lab.explorer._augmented import augmented
from comixup.lab.explorer._images import SIDE, load_images
from comixup.lab.explorer._limits import MAX_FILES
from comixup.lab.explorer._settings import MAX_SEED, SPECTRAL, default_saliency
from comixup.lab.explorer._sources import load_network, network_maps, spectral_maps
from comixup.plots import plot_tracked

_MIXERS: dict[str, tuple[str, Callable[..., Mixer]]] = {
    "comixup": ("Co-Mixup", CoMixup),
    "puzzlemix": ("Puzzle Mix", PuzzleMix),
    "cutmix": ("CutMix", CutMix),
    "input": ("Input mixup", InputMixup),
}


@dataclass(frozen=True, eq=False)
class Sheet:
    """A picture of mixed files.

    Attributes:
        figure: inputs, outputs and targets.
        tracked: the images before and after augmentation with their maps; None without either.
        summary: a line of numbers about it.
        mixed: what was decided.
    """

    figure: Figure
    summary: str
    mixed: Mixed
    tracked: Figure | None = None


def mix_files(
    files: Sequence[Path],
    *,
    method: str = "comixup",
    settings: Mapping[str, Any] | None = None,
    source: str | None = None,
    pretrained: bool = True,
    augment: Augmentation = "none",
    count: int = 10,
    side: int = SIDE,
    seed: int = 0,
) -> Sheet:
    """Returns a picture of image files and what a method makes of them.

    Args:
        files: images; their folders are their classes if there are several of these.
        method: "comixup", "puzzlemix", "cutmix" or "input".
        settings: keywords of the method's mixer.
        source: of saliency, for methods that need it: `SPECTRAL`, or see `load_network`. None for
            that of `default_saliency`.
        pretrained: see `load_network`.
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
    title, kind = _MIXERS[method]
    try:
        mixer = kind(len(batch.class_names), generator=generator, **(settings or {}))
    except TypeError as error:
        raise ValueError(
            f"`settings` must be those of {kind.__name__}, got {dict(settings or {})} ({error})."
        ) from None
    mixer.uniform_expected = True  # told below
    saliency = None
    source = default_saliency() if source is None else source
    if mixer.needs_saliency and source == SPECTRAL:
        saliency = spectral_maps(batch)
    elif mixer.needs_saliency:
        saliency = network_maps(batch, load_network(source, pretrained=pretrained))
    tracked = None
    if augment != "none":
        # Of methods that need no saliency spectral residual shows what is tracked.
        maps = spectral_maps(batch) if saliency is None else saliency
        whole, (batch, moved) = batch, augmented(batch, maps, augment, seed=seed)
        saliency = None if saliency is None else moved
        tracked = plot_tracked(whole.images, maps, batch.images, moved)
    mixer(batch.images, batch.targets, saliency)
    more = f", of {len(files)}" if len(files) > len(chosen) else ""
    told = f"{title} of {len(chosen)} images{more}"
    figure = plot_batch(
        batch.images,
        batch.targets,
        mixer,
        class_names=batch.class_names,
        title=told,
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
    return Sheet(figure, summary, mixer.last, tracked)
