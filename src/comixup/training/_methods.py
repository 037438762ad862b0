"""From a recipe's method to the object that mixes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from comixup import CoMixup, CutMix, InputMixup, ManifoldMixup, Mixer, NoMix, PuzzleMix
from comixup.training._recipe import Method, suggestion

MIXERS: Mapping[str, type[Mixer]] = {
    "vanilla": NoMix,
    "input": InputMixup,
    "manifold": ManifoldMixup,
    "cutmix": CutMix,
    "puzzlemix": PuzzleMix,
    "comixup": CoMixup,
}


def make_mixer(method: Method, num_classes: int, generator: torch.Generator) -> Mixer:
    """Returns the mixer of a method with its settings.

    >>> make_mixer(Method("cutmix", {"alpha": 0.2}), 10, torch.Generator()).num_classes
    10
    """
    if method.mixer not in MIXERS:
        raise ValueError(
            f"`mixer` must be one of {', '.join(MIXERS)}, got {method.mixer!r}."
            f"{suggestion(method.mixer, MIXERS)}"
        )
    kind = MIXERS[method.mixer]
    known = [
        name
        for name in inspect.signature(kind).parameters
        if name not in ("num_classes", "generator")
    ]
    for name in method.settings:
        if name not in known:
            raise ValueError(
                f"`settings` must be keywords of {kind.__name__} ({', '.join(known)}), got "
                f"{name!r}.{suggestion(name, known)}"
            )
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in method.settings.items()
    }
    return kind(num_classes, generator=generator, **settings)
