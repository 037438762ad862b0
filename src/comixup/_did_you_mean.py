"""Suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_CUTOFF = 0.5
"""Lowest similarity at which a known name is suggested: difflib's ratio, from 0 to 1."""
_MOST = 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean ...?" with the known names closest to `name`, or "" if none is close.

    >>> did_you_mean("comixupp", ["comixup", "cutmix"])
    ' Did you mean comixup or cutmix?'
    """
    close = difflib.get_close_matches(name, list(known), n=_MOST, cutoff=_CUTOFF)
    return f" Did you mean {' or '.join(close)}?" if close else ""
