"""From a recipe's method to the object that mixes."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from comixup import CoMixup, CutMix, InputMixup, ManifoldMixup, Mixer, NoMix, PuzzleMix
from comixup.training._controls import ShuffledCoMixup
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
