"""Builds the mixer of a recipe's method."""

from __future__ import annotations

import inspect
import json
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from comixup import (
    Choice,
    CoMixup,
    Mixer,
    NoMix,
    OnePass,
    Origin,
    SaliencyMemory,
    mixers,
    spectral_residual,
)
from comixup._did_you_mean import did_you_mean
from comixup._methods import METHODS
from comixup.lab.training._recipe import (
    CHOICE,
    JOINT,
    UNMIXED,
    Method,
    Recipe,
    SaliencyMode,
    Settings,
)
from comixup.mixers import Mixed

Scalar: TypeAlias = float | bool | str | None
"""A value of a setting in a sweep."""

_NOT_SETTINGS = ("num_classes", "generator", "mixers")
"""Keywords of mixers set from the data set, the seed and a method's parts."""
_SWITCHES: Mapping[str, tuple[str, bool | None]] = {
    "clean_weight": ("keep_gradients", False),
    "t_eps": ("transport", False),
    "t_size": ("transport", False),
    "eta": ("alpha", None),
}
"""Settings that have no effect, by the setting, and its value, that disables them."""
_SHOWN = 80
"""Most characters of an invalid value that an error message quotes."""


def keywords_of(kind: type[object]) -> dict[str, inspect.Parameter]:
    """Returns the keywords of a class that are settings; none for `NoMix`."""
    if kind is NoMix:
        return {}
    parameters = inspect.signature(kind).parameters
    return {name: value for name, value in parameters.items() if name not in _NOT_SETTINGS}


def check_settings(kind: type[object], settings: Settings) -> dict[str, Any]:
    """Returns settings in the types of a mixer's annotations: int to float, lists to tuples.

    Unknown names and values of other types raise `ValueError`.

    >>> from comixup import CoMixup
    >>> check_settings(CoMixup, {"beta": 1, "grid": [2, 3]})
    {'beta': 1.0, 'grid': (2, 3)}
    """
    known, hints = keywords_of(kind), typing.get_type_hints(kind.__init__)
    for name in settings:
        if name not in known:
            raise ValueError(
                f"`settings` must be keywords of {kind.__name__} ({', '.join(known) or 'none'}), "
                f"got {name!r}.{did_you_mean(name, known)}"
            )
    fitted = {name: _fitted(value, hints[name]) for name, value in settings.items()}
    for name, value in fitted.items():
        if value is _WRONG:
            shown = repr(settings[name])
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
            raise ValueError(f"`{name}` must be {_words(hints[name])}, got {shown}.")
    return fitted


def check_effect(settings: Settings) -> None:
    """Raises `ValueError` if a setting disables another given setting."""
    for name, (switch, off) in _SWITCHES.items():
        if name in settings and switch in settings and settings[switch] is off:
            raise ValueError(
                f"`{name}` must be left out with {switch}={json.dumps(off)}, where it has no "
                f"effect, got {settings[name]!r}."
            )


def plain(value: Scalar) -> str:
    """Returns a value as text for names and tables; numbers in their shortest exact form.

    >>> [plain(value) for value in (0.0005, 1.0, 20, True, None, "soft")]
    ['0.0005', '1', '20', 'true', 'none', 'soft']
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(value).removesuffix(".0")


# ---- Annotations --------------------------------------------------------------------------------

_WRONG = object()
"""The result of `_fitted` for a value of another type."""


def _fitted(value: Any, hint: Any) -> Any:
    """Returns a value converted to an annotated type, or `_WRONG`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        found = (_fitted(value, choice) for choice in inner)
        return next((fitted for fitted in found if fitted is not _WRONG), _WRONG)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        given = value if isinstance(value, (list, tuple)) else [_WRONG]
        members = [_fitted(member, inner[0]) for member in given]
        return _WRONG if _WRONG in members else tuple(members)
    if hint in (int, float) and isinstance(value, Real) and not isinstance(value, bool):
        if hint is int:
            whole = isinstance(value, Integral) or float(value).is_integer()
            return int(value) if whole else _WRONG  # type: ignore[call-overload]
        try:
            return float(value) + 0.0 if math.isfinite(value) else _WRONG  # turns -0 into 0
        except OverflowError:
            return _WRONG
    if origin is Literal:
        fits = any(type(value) is type(choice) and value == choice for choice in inner)
    else:  # tensors and functions cannot be given as text
        fits = hint in (bool, str, type(None)) and isinstance(value, hint)
    return value if fits else _WRONG


def _words(hint: Any) -> str:
    """Returns an annotation in words."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(filter(None, map(_words, inner))))
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}" if len(inner) > 1 else str(inner[0])
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list whose members are each {_words(inner[0])}"
    names = {bool: "true or false", int: "an integer", float: "a finite number", str: "a word"}
    return "null" if hint is type(None) else names.get(hint, "")


def _of_another(maps: Tensor, generator: torch.Generator | None) -> Tensor:
    """Returns maps rolled by a random number of inputs, so that none has its own."""
    if len(maps) < 2:
        return maps
    shift = torch.randint(1, len(maps), (), generator=generator).item()
    return maps.roll(int(shift), 0)


class ShuffledCoMixup(CoMixup):
    """Co-Mixup where each input has another input's saliency map.

    A control: the difference from `CoMixup` is the contribution of saliency.
    """

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns the labelling for maps rolled by a random number of inputs."""
        moved = None if saliency is None else _of_another(saliency, self.generator)
        return super().draw(images, moved)


class ShuffledOnePass(OnePass):
    """One-pass mixing where each image has the map of another image of its batch."""

    def maps_for(self, images: Tensor, origin: Origin) -> Tensor:
        """Returns the remembered maps, rolled by a random number of images."""
        return _of_another(super().maps_for(images, origin), self.generator)


class SpectralOnePass(OnePass):
    """Alternates clean and mixed batches, with spectral-residual saliency instead of a memory."""

    def maps_for(self, images: Tensor, origin: Origin) -> Tensor:
        """Returns the spectral residual of the images."""
        return spectral_residual(images)


MIXERS: Mapping[str, type[Mixer]] = {
    **{name: getattr(mixers, listed.mixer) for name, listed in METHODS.items()},
    "comixup-shuffled": ShuffledCoMixup,
}
"""The mixer classes by name: all methods, and a control."""

ONE_PASS: Mapping[str, type[OnePass]] = {
    "one-pass": OnePass,
    "one-pass-shuffled": ShuffledOnePass,
    "one-pass-spectral": SpectralOnePass,
}
_MEMORY_SETTINGS: Mapping[type, tuple[str, ...]] = {
    SaliencyMemory: ("cells", "momentum"),
    OnePass: ("rate",),
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
        parts = [make_mixer(part, num_classes, generator) for part in method.parts.values()]
        return Choice(parts, generator=generator, **settings)
    return kind(num_classes, generator=generator, **settings)


def make_method(
    method: Method, num_classes: int, num_examples: int, generator: torch.Generator
) -> Mixer:
    """Returns a method's mixer, with a saliency memory for one-pass methods."""
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
    """Returns the recipe with a method's settings changed, validated by building its mixer.

    Unknown, invalid or ineffective settings raise `ValueError`. The settings of a choice of methods
    are its `weights` and `p`.

    Args:
        recipe: the recipe.
        method: name of the method.
        settings: keywords of its mixer to change.
        saliency: see `Method.saliency`; None keeps it.
        memory: keywords to change in `Method.memory`.
        schedule: see `Method.schedule`; None keeps it.

    >>> from comixup.lab.training import RECIPES
    >>> change_method(RECIPES["digits"], "comixup", {"beta": 1}).methods["comixup"].settings
    {'beta': 1.0}
    """
    chosen = recipe.choose(method)
    if settings:
        checked = check_settings(mixer_class(chosen), settings)
        recipe = recipe.with_method(method, settings={**chosen.settings, **checked})
        chosen = recipe.choose(method)
    check_effect(chosen.settings)
    if saliency is not None or memory:
        if not make_mixer(chosen, 2, torch.Generator()).needs_saliency:
            raise ValueError(
                f"`{'memory' if memory else 'saliency'}` must be left out for {method}, which uses "
                "no saliency. Train the methods that do by themselves."
            )
        mode = saliency or chosen.saliency
        kept = {**({} if mode == "paper" else chosen.memory), **(memory or {})}
        recipe = recipe.with_method(method, saliency=mode, memory=kept)
    if schedule is not None:
        if chosen.mixer == UNMIXED:
            raise ValueError(
                f"`schedule` must be left out for {method}, which mixes nothing. Train the methods "
                "that do by themselves."
            )
        recipe = recipe.with_method(method, schedule=schedule)
    make_method(recipe.choose(method), 2, 1, torch.Generator())
    return recipe


def passes_per_image(method: Method) -> float:
    """Returns the number of forward and backward passes of a method per training image.

    >>> passes_per_image(Method("comixup")), passes_per_image(Method("cutmix", {"p": 0.5}))
    (2.0, 1.0)
    """
    settings = method.settings
    if method.saliency != "paper":
        return 1.0
    if method.parts:
        passes = [passes_per_image(part) for part in method.parts.values()]
        weights = settings.get("weights") or [1.0] * len(passes)
        extra = sum(w * (n - 1) for w, n in zip(weights, passes, strict=True)) / sum(weights)
        return float(1.0 + settings.get("p", 1) * extra)
    needs_saliency = MIXERS[method.mixer].needs_saliency
    clean = needs_saliency or settings.get("clean_weight", 0) > 0
    return 1.0 + (float(settings.get("p", 1)) if clean else 0.0)


def join_methods(named: Sequence[tuple[str, Method]]) -> Method:
    """Returns the random choice of several methods, with their settings and equal weights.

    >>> joined = join_methods([("input", Method("input")), ("cutmix", Method("cutmix"))])
    >>> joined.mixer, list(joined.parts)
    ('choice', ['input', 'cutmix'])
    """
    if len(dict(named)) < len(named):
        joined = JOINT.join(name for name, _ in named)
        raise ValueError(f"`method` must join different methods, got {joined}.")
    for name, method in named:
        why = None
        if method.vat is not None:
            why = "trains by virtual adversarial training"
        elif method.parts:
            why = "is a choice of several itself"
        elif mixer_class(method).mixes_inside:
            why = "mixes inside the network, for all batches"
        if why:
            raise ValueError(
                f"`method` must join methods that mix images, got {name}, which {why}. Train it by "
                "itself."
            )

    def same(what: str, of: Callable[[Method], Any], among: Sequence[tuple[str, Method]]) -> Any:
        """Returns the common value of methods; None if there are no methods."""
        values = [of(method) for _, method in among]
        for (name, _), value in zip(among, values, strict=True):
            if value != values[0]:
                raise ValueError(
                    f"`method` must join methods of the same {what}, got {values[0]!r} of "
                    f"{among[0][0]} and {value!r} of {name}. Join others, or make them alike."
                )
        return values[0] if values else None

    salient = [(name, method) for name, method in named if mixer_class(method).needs_saliency]
    p = same("p", lambda method: method.settings.get("p", 1), named)
    return Method(
        CHOICE,
        {} if p == 1 else {"p": p},
        saliency=same("saliency", lambda method: method.saliency, salient) or "paper",
        memory=same("memory", lambda method: dict(method.memory), salient) or {},
        schedule=same("schedule", lambda method: dict(method.schedule), named),
        epoch_multiplier=same("epochs", lambda method: method.epoch_multiplier, named),
        lr_multiplier=same("learning rate", lambda method: method.lr_multiplier, named),
        parts={
            name: Method(method.mixer, {k: v for k, v in method.settings.items() if k != "p"})
            for name, method in named
        },
    )
