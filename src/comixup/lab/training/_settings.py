"""Settings of a method, checked by the annotations of its mixer."""

from __future__ import annotations

import inspect
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

from comixup import NoMix
from comixup._did_you_mean import did_you_mean
from comixup.lab.training._method import Settings

Scalar: TypeAlias = float | bool | str | None
"""A value that a sweep can try."""

_NOT_SETTINGS = ("num_classes", "generator", "mixers")
"""Keywords of mixers that the data set, the seed and the parts of a method decide."""
_SWITCHES: Mapping[str, tuple[str, bool | None]] = {
    "clean_weight": ("keep_gradients", False),
    "t_eps": ("transport", False),
    "t_size": ("transport", False),
    "eta": ("alpha", None),
}
"""Settings without effect, by the setting and the value of it that switches them off."""
_SHOWN = 80
"""Letters of a wrong value that an error message repeats."""


def keywords_of(kind: type[object]) -> dict[str, inspect.Parameter]:
    """Returns the keywords of a class that are settings; `NoMix` has none that has an effect."""
    if kind is NoMix:
        return {}
    parameters = inspect.signature(kind).parameters
    return {name: value for name, value in parameters.items() if name not in _NOT_SETTINGS}


def check_settings(kind: type[object], settings: Settings) -> dict[str, Any]:
    """Returns settings as a mixer takes them: numbers for floats made float, lists made tuples.

    A name that the mixer does not have, or a value that is not of its annotated type, raises
    `ValueError`.

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
    return {name: _converted(name, value, hints[name]) for name, value in settings.items()}


def check_effect(settings: Settings) -> None:
    """Raises `ValueError` if one setting switches off another that is given too."""
    for name, (switch, off) in _SWITCHES.items():
        if name in settings and switch in settings and settings[switch] is off:
            raise ValueError(
                f"`{name}` must be left out with {switch}={json.dumps(off)}, where it has no "
                f"effect, got {settings[name]!r}."
            )


def plain(value: Scalar) -> str:
    """Returns a value in a form for names and tables: a number with all its digits and no others.

    >>> [plain(value) for value in (0.0005, 1.0, 20, True, None, "soft")]
    ['0.0005', '1', '20', 'true', 'none', 'soft']
    """
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else repr(value).removesuffix(".0")


# ---- Annotations --------------------------------------------------------------------------------

_WRONG = object()
"""What `_fitted` returns for a value that is not of the annotated type."""


def _converted(name: str, value: Any, hint: Any) -> Any:
    fitted = _fitted(value, hint)
    if fitted is _WRONG:
        shown = repr(value)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
        raise ValueError(f"`{name}` must be {_words(hint)}, got {shown}.")
    return fitted


def _fitted(value: Any, hint: Any) -> Any:
    """Returns a value as an annotation wants it, or `_WRONG`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        found = (_fitted(value, choice) for choice in inner)
        return next((fitted for fitted in found if fitted is not _WRONG), _WRONG)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        members = [_fitted(member, inner[0]) for member in value] if _is_list(value) else [_WRONG]
        return _WRONG if _WRONG in members else tuple(members)
    if hint in (int, float) and isinstance(value, Real) and not isinstance(value, bool):
        return _number(value, hint)
    if origin is Literal:
        fits = any(type(value) is type(choice) and value == choice for choice in inner)
    else:  # tensors and functions cannot be written down
        fits = hint in (bool, str, type(None)) and isinstance(value, hint)
    return value if fits else _WRONG


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _number(value: Any, hint: type) -> Any:
    if hint is int:
        return int(value) if isinstance(value, Integral) or float(value).is_integer() else _WRONG
    try:
        number = float(value)
    except OverflowError:
        return _WRONG
    return number + 0.0 if math.isfinite(number) else _WRONG  # the sum turns -0 into 0


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
