"""Numbers and choices of options, rejected in a user's words and not in those of Python's types."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Any, Literal

from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

_NUMBERS: dict[Any, str] = {int: "an integer", float: "a number"}
_SHOWN = 40
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
        metavar="VALUE",
        instance_from_str=lambda words: tuple(map(read, words)) if many else read(words[0]),
        is_instance=lambda value: True,
        str_from_instance=lambda value: [*map(str, value)] if many and value else [str(value)],
    )


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
