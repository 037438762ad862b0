"""Values of options: rejected in a user's words, and settings of a method as NAME=VALUE."""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

_NUMBERS: dict[Any, str] = {int: "an integer", float: "a number"}
_SHOWN = 80
"""Letters of a wrong value that an error message repeats."""

registry = ConstructorRegistry()
"""The rules of this module, for `tyro.cli`."""


@registry.primitive_rule
def plain_rule(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Returns how an int, a float or a Literal is read, one or a tuple of them, or None of them."""
    kind, many = _without_none(info.type), False
    if typing.get_origin(kind) is tuple and typing.get_args(kind)[1:] == (...,):
        kind, many = typing.get_args(kind)[0], True
    read = _reader(kind)
    if read is None:
        return None
    return PrimitiveConstructorSpec(
        nargs="*" if many else 1,
        metavar=metavar(info.type),
        instance_from_str=lambda words: tuple(map(read, words)) if many else read(words[0]),
        is_instance=lambda value: True,
        str_from_instance=lambda value: [*map(str, value)] if many and value else [str(value)],
    )


def metavar(kind: Any) -> str:
    """Returns the placeholder of a value of a type, for help.

    >>> [metavar(kind) for kind in (int | None, tuple[str, ...], Literal["sgd", "adam"])]
    ['N', 'NAME ...', 'sgd|adam']
    """
    kind = _without_none(kind)
    if typing.get_origin(kind) is tuple:
        return f"{metavar(typing.get_args(kind)[0])} ..."
    if typing.get_origin(kind) is Literal:
        return "|".join(typing.get_args(kind))
    return {int: "N", float: "X", Path: "PATH"}.get(kind, "NAME")


def _without_none(kind: Any) -> Any:
    """Returns X for X | None, and any other type as it is."""
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return kind
    inner = [one for one in typing.get_args(kind) if one is not type(None)]
    return inner[0] if len(inner) == 1 else kind


def _reader(kind: Any) -> Callable[[str], Any] | None:
    """Returns what turns a word into a value of a type, or raises `ValueError`."""
    if kind in _NUMBERS:
        return lambda word: _number(kind, word)
    if typing.get_origin(kind) is Literal and all(
        isinstance(c, str) for c in typing.get_args(kind)
    ):
        return lambda word: _choice(typing.get_args(kind), word)
    return None


def _number(kind: Any, word: str) -> Any:
    try:
        return kind(word)
    except ValueError:
        raise ValueError(f"must be {_NUMBERS[kind]}, got {word[:_SHOWN]!r}.") from None


def _choice(choices: tuple[str, ...], word: str) -> str:
    if word not in choices:
        raise ValueError(f"must be one of {', '.join(choices)}, got {word[:_SHOWN]!r}.")
    return word


# ---- Settings -----------------------------------------------------------------------------------

_PYTHON: Mapping[str, bool | None] = {"True": True, "False": False, "None": None}
"""Python's spelling of what JSON calls true, false and null."""


def parse_value(name: str, text: str) -> Any:
    """Returns the value that a word means: JSON, or Python's True, False, None, or else a string.

    NaN, infinities and numbers that become infinite raise `ValueError`, which names the option.

    >>> [parse_value("--set", word) for word in ("2", "0.5", "false", "False", "None", "hard")]
    [2, 0.5, False, False, None, 'hard']
    """
    if text in _PYTHON:
        return _PYTHON[text]
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except json.JSONDecodeError:
        return text
    except RecursionError:
        why = "it is nested too deeply"
    except ValueError as error:  # also whole numbers of thousands of digits
        why = str(error).split(";", maxsplit=1)[0]
    raise ValueError(f"`{name}` must be followed by JSON, got {text[:_SHOWN]!r}: {why}.")


def parse_settings(words: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Returns the settings that NAME=VALUE words mean, by name."""
    settings: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise ValueError(f"`{option}` must be followed by NAME=VALUE, got {word[:_SHOWN]!r}.")
        if name in settings:
            raise ValueError(f"`{option}` must set {name} once, got it twice. Leave one out.")
        settings[name] = parse_value(option, value)
    return settings


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        short = word[:_SHOWN]
        constant = short.lstrip("-").isalpha()
        why = f"{short} is {'not a finite number' if constant else 'too large for a number'}"
        raise ValueError(why)
    return number
