"""From a recipe's method to the object that mixes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from comixup import (
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
from comixup.training._controls import ShuffledCoMixup, ShuffledOnePass, SpectralOnePass
from comixup.training._recipe import Method, suggestion
from comixup.training._settings import check_settings

MIXERS: Mapping[str, type[Mixer]] = {
    "vanilla": NoMix,
    "input": InputMixup,
    "manifold": ManifoldMixup,
    "cutmix": CutMix,
    "puzzlemix": PuzzleMix,
    "comixup": CoMixup,
    "comixup-shuffled": ShuffledCoMixup,
}

ONE_PASS: Mapping[str, type[OnePass]] = {
    "one-pass": OnePass,
    "one-pass-shuffled": ShuffledOnePass,
    "one-pass-spectral": SpectralOnePass,
}
_MEMORY_SETTINGS: Mapping[type, tuple[str, ...]] = {
    SaliencyMemory: ("cells", "momentum"),
    OnePass: ("rate", "recycle"),
}


def mixer_class(method: Method) -> type[Mixer]:
    """Returns the class of a method's mixer."""
    if method.mixer not in MIXERS:
        raise ValueError(
            f"`mixer` must be one of {', '.join(MIXERS)}, got {method.mixer!r}."
            f"{suggestion(method.mixer, MIXERS)}"
        )
    return MIXERS[method.mixer]


def make_mixer(method: Method, num_classes: int, generator: torch.Generator) -> Mixer:
    """Returns the mixer of a method with its settings.

    >>> make_mixer(Method("cutmix", {"alpha": 0.2}), 10, torch.Generator()).num_classes
    10
    """
    kind = mixer_class(method)
    return kind(num_classes, generator=generator, **check_settings(kind, method.settings))


def make_method(
    method: Method, num_classes: int, num_examples: int, generator: torch.Generator
) -> Mixer | OnePass:
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
                f"{suggestion(name, known)}"
            )
    memory, turns = (
        check_settings(kind, {name: method.memory[name] for name in names if name in method.memory})
        for kind, names in _MEMORY_SETTINGS.items()
    )
    return ONE_PASS[method.saliency](mixer, SaliencyMemory(num_examples, **memory), **turns)


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
    needs_saliency = MIXERS[method["mixer"]].needs_saliency
    clean = needs_saliency or settings.get("clean_weight", 0) > 0
    return 1.0 + (float(settings.get("p", 1)) if clean else 0.0)
