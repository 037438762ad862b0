"""From a recipe's method to the object that mixes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from comixup import (
    Choice,
    CoMixup,
    CutMix,
    InputMixup,
    ManifoldMixup,
    Mixer,
    NoMix,
    OnePass,
    PuzzleMix,
    SaliencyMemory,
)
from comixup._did_you_mean import did_you_mean
from comixup.lab.training._controls import ShuffledCoMixup, ShuffledOnePass, SpectralOnePass
from comixup.lab.training._method import UNMIXED, Method, SaliencyMode, Settings
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._settings import check_effect, check_settings

MIXERS: Mapping[str, type[Mixer]] = {
    "vanilla": NoMix,
    "input": InputMixup,
    "manifold": ManifoldMixup,
    "cutmix": CutMix,
    "puzzlemix": PuzzleMix,
    "comixup": CoMixup,
    "comixup-shuffled": ShuffledCoMixup,
}
"""The classes that mix, by their names in recipes and on the command line."""

ONE_PASS: Mapping[str, type[OnePass]] = {
    "one-pass": OnePass,
    "one-pass-shuffled": ShuffledOnePass,
    "one-pass-spectral": SpectralOnePass,
}
_MEMORY_SETTINGS: Mapping[type, tuple[str, ...]] = {
    SaliencyMemory: ("cells", "momentum"),
    OnePass: ("rate", "recycle", "unit"),
}


def mixer_class(method: Method) -> type[Mixer]:
    """Returns the class of a method's mixer."""
    if method.parts:
        return Choice
    if method.mixer not in MIXERS:
        raise ValueError(
            f"`mixer` must be one of {', '.join(MIXERS)}, got {method.mixer!r}."
            f"{did_you_mean(method.mixer, MIXERS)}"
        )
    return MIXERS[method.mixer]


def make_mixer(method: Method, num_classes: int, generator: torch.Generator) -> Mixer:
    """Returns the mixer of a method with its settings.

    >>> make_mixer(Method("cutmix", {"alpha": 0.2}), 10, torch.Generator()).num_classes
    10
    """
    kind = mixer_class(method)
    settings = check_settings(kind, method.settings)
    if method.parts:
        mixers = [make_mixer(part, num_classes, generator) for part in method.parts.values()]
        return Choice(mixers, generator=generator, **settings)
    return kind(num_classes, generator=generator, **settings)


def make_method(
    method: Method, num_classes: int, num_examples: int, generator: torch.Generator
) -> Mixer:
    """Returns what mixes the batches of a method: its mixer, with a memory if it takes one pass.

    Args:
        method: of a recipe.
        num_classes: of the data set.
        num_examples: its training images.
        generator: where all draws come from.
    """
    mixer = make_mixer(method, num_classes, generator)
    if method.saliency == "paper":
        return mixer
    if not mixer.needs_saliency:
        raise ValueError(
            f'`saliency` must be "paper" for {method.mixer}, which needs no saliency and takes '
            f"one pass as it is, got {method.saliency!r}."
        )
    known = [name for names in _MEMORY_SETTINGS.values() for name in names]
    for name in method.memory:
        if name not in known:
            raise ValueError(
                f"`memory` must have settings among {', '.join(known)}, got {name!r}."
                f"{did_you_mean(name, known)}"
            )
    memory, turns = (
        check_settings(kind, {name: method.memory[name] for name in names if name in method.memory})
        for kind, names in _MEMORY_SETTINGS.items()
    )
    return ONE_PASS[method.saliency](mixer, SaliencyMemory(num_examples, **memory), **turns)


def change_method(
    recipe: Recipe,
    method: str,
    settings: Settings,
    *,
    saliency: SaliencyMode | None = None,
    memory: Settings | None = None,
    schedule: Settings | None = None,
) -> Recipe:
    """Returns the recipe with a method's settings changed, after building its mixer with them.

    Settings that the mixer does not have, rejects, or that have no effect raise `ValueError`. Those
    of a choice of methods are its `weights` and `p`.

    Args:
        recipe: which has the method.
        method: its name.
        settings: keywords of its mixer to change.
        saliency: see `Method.saliency`; None leaves it.
        memory: keywords to change in `Method.memory`.
        schedule: see `Method.schedule`; None leaves it.

    >>> from comixup.lab.training import RECIPES
    >>> change_method(RECIPES["digits"], "comixup", {"beta": 1}).methods["comixup"].settings
    {'beta': 1.0}
    """
    kind = mixer_class(recipe.choose(method))
    changed = recipe.with_settings(method, check_settings(kind, settings))
    check_effect(changed.choose(method).settings)
    if make_mixer(changed.choose(method), 2, torch.Generator()).needs_saliency:
        changed = changed.with_saliency(method, saliency, memory)
    elif saliency is not None or memory:
        raise ValueError(
            f"`{'memory' if memory else 'saliency'}` must be left out for {method}, which uses no "
            "saliency. Train the methods that do by themselves."
        )
    if schedule is not None:
        if changed.choose(method).mixer == UNMIXED:
            raise ValueError(
                f"`schedule` must be left out for {method}, which mixes nothing. Train the methods "
                "that do by themselves."
            )
        changed = changed.with_schedule(method, schedule)
    make_method(changed.choose(method), 2, 1, torch.Generator())
    return changed


def passes_per_image(method: Mapping[str, Any]) -> float:
    """Returns the forward and backward passes that a method makes over a training image.

    Args:
        method: as a run's `run.json` has it.

    >>> passes_per_image({"mixer": "comixup", "settings": {}})
    2.0
    >>> passes_per_image({"mixer": "cutmix", "settings": {"p": 0.5}})
    1.0
    """
    settings = method["settings"]
    if method.get("saliency", "paper") != "paper":
        return 1.0
    if method.get("parts"):
        passes = [passes_per_image(part) for part in method["parts"].values()]
        weights = settings.get("weights") or [1.0] * len(passes)
        extra = sum(w * (n - 1) for w, n in zip(weights, passes, strict=True)) / sum(weights)
        return float(1.0 + settings.get("p", 1) * extra)
    needs_saliency = MIXERS[method["mixer"]].needs_saliency
    clean = needs_saliency or settings.get("clean_weight", 0) > 0
    return 1.0 + (float(settings.get("p", 1)) if clean else 0.0)
