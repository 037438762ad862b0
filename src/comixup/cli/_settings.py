"""Settings of a method as words of a command line: NAME=VALUE, where VALUE is JSON or a word."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

_PYTHON: Mapping[str, bool | None] = {"True": True, "False": False, "None": None}
"""Python's spelling of what JSON calls true, false and null."""
_SHOWN = 80
"""Letters of a wrong value that an error message repeats."""


def parse_json(name: str, text: str) -> Any:
    """Returns the value of a JSON text without NaN, infinities, or numbers that become infinite.

    Args:
        name: of the option that the text was given to, for error messages.
        text: the JSON text. A text that is not JSON raises `json.JSONDecodeError`.
    """
    try:
        return json.loads(text, parse_constant=_reject_constant, parse_float=_finite)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        why = "it is nested too deeply"
    except ValueError as error:  # also whole numbers of thousands of digits
        why = str(error).split(";", maxsplit=1)[0]
    raise ValueError(f"`{name}` must be followed by JSON, got {text[:_SHOWN]!r}: {why}.")


def parse_value(name: str, text: str) -> Any:
    """Returns the value that a word means: JSON, or Python's True, False, None, or else a string.

    >>> [parse_value("--set", word) for word in ("2", "0.5", "false", "False", "None", "hard")]
    [2, 0.5, False, False, None, 'hard']
    """
    if text in _PYTHON:
        return _PYTHON[text]
    try:
        return parse_json(name, text)
    except json.JSONDecodeError:
        return text


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


def _reject_constant(word: str) -> float:
    raise ValueError(f"{word} is not a finite number")


def _finite(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise ValueError(f"{word[:_SHOWN]} is too large for a number")
    return number
