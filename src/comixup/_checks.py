"""Argument checks; error messages name argument, rule, value and remedy.

Imports no torch; checks of tensors are in `core/tensors.py`.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from numbers import Integral, Real
from typing import Any

MAX_MAGNITUDE = 1e30
"""Largest cost, compatibility or weight: the kernel adds up a whole grid of them in float32."""
_MAX_REASON = 300
"""Most characters of an exception's message that an error message quotes."""


def check_number(name: str, value: Any, high: float = MAX_MAGNITUDE) -> None:
    """Raises unless a value is a number from 0 to `high`."""
    rule = f"a number from 0 to {high:g}"
    if isinstance(value, bool) or not issubclass(type(value), Real):
        raise TypeError(f"`{name}` must be {rule}, got {value!r}.")
    if not 0 <= value <= high:  # rejects NaN too
        raise ValueError(f"`{name}` must be {rule}, got {value!r}.")


def check_positive(name: str, value: Any, hint: str = "") -> None:
    """Raises unless a value is a number above 0; the hint says what to do instead."""
    check_number(name, value)
    if value == 0:
        raise ValueError(f"`{name}` must be above 0, got {value!r}. {hint}".rstrip())


def check_fraction(name: str, value: Any) -> None:
    """Raises unless a value is a number between 0 and 1, both exclusive."""
    check_number(name, value, high=1)
    if value in (0, 1):
        raise ValueError(
            f"`{name}` must be between 0 and 1, got {value!r}. Leave it out to hold out nothing."
        )


def check_count(name: str, value: object, low: int = 1, high: int | None = None) -> None:
    """Raises unless a value is an integer of at least `low`, and at most `high` if given."""
    # `int` comes first: `isinstance` with an abstract base class is slow.
    if isinstance(value, bool) or not isinstance(value, (int, Integral)) or value < low:
        rule = "a positive integer" if low == 1 else f"an integer of at least {low}"
        raise ValueError(f"`{name}` must be {rule}, got {value!r}.")
    if high is not None and int(value) > high:
        raise ValueError(f"`{name}` must be an integer from {low} to {high}, got {value!r}.")


def check_boolean(name: str, value: object) -> None:
    """Raises unless a value is True or False; other truthy values are mistakes."""
    if not isinstance(value, bool):
        raise TypeError(f"`{name}` must be True or False, got {value!r}.")


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raises unless a value is one of the choices."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {list(choices)}, got {value!r}.")


class SetOnce:
    """Base class whose constructor arguments become attributes that cannot be changed later.

    Properties with a validating setter can be set at any time.
    """

    _remedy = "Make another one: {kind}({name}=...)."

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            self._check_unset(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._check_unset(name)
        super().__delattr__(name)

    def _check_unset(self, name: str) -> None:
        values, kind = vars(self), type(self).__name__
        is_set = name in values or name in values.get("_modules", ())  # of a torch module
        if is_set and self._is_fixed(name):
            raise AttributeError(
                f"`{name}` must not be changed: a {kind} is checked when it is made. "
                f"{self._remedy.format(kind=kind, name=name)}"
            )

    def _is_fixed(self, name: str) -> bool:
        """Whether a name is a constructor argument."""
        inits = [vars(kind)["__init__"] for kind in type(self).__mro__ if "__init__" in vars(kind)]
        return any(name in inspect.signature(init).parameters for init in inits)


_OURS = ("comixup.", "torch.")  # modules call their `forward` through torch


def warn_caller(message: str) -> None:
    """Issues a warning at the caller's line, skipping frames of this package and of torch."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def reason_of(error: BaseException) -> str:
    r"""Returns an exception's message as one printable line.

    Messages of decoders and servers may contain raw bytes of their input.

    >>> reason_of(ValueError("\x1b[31mfirst line.\nsecond line."))
    '?[31mfirst line. second line'
    """
    words = " ".join(str(error).split())
    text = "".join(letter if letter.isprintable() else "?" for letter in words)
    return text[:_MAX_REASON].rstrip(". ") or type(error).__name__
