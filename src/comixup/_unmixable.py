"""What belongs to an image and cannot be mixed with it: boxes of detection, key points."""

from __future__ import annotations

import re

_NAMES = re.compile(
    r"(^|[_\W])(b?box(es)?|bounding_?box(es)?|key_?points?|landmarks?)($|[_\W])", re.IGNORECASE
)
_TYPES = ("BoundingBoxes", "KeyPoints")
"""Classes of torchvision's tv_tensors, by name: not every version has them, nor every user."""


def check_mixable(name: str, value: object) -> None:
    """Raises for boxes and key points, known by an entry's name or a value's type.

    >>> check_mixable("index", [3, 5])
    >>> check_mixable("boxes", None)
    Traceback (most recent call last):
    ...
    ValueError: `boxes` must be left out of a batch that is mixed, got NoneType. Boxes and key \
points have no mixture: cells cut them, and several images' would overlap. Draw boxes as masks, \
which are mixed pixel by pixel.
    """
    kind = type(value).__name__
    if kind in _TYPES or _NAMES.search(name):
        raise ValueError(
            f"`{name}` must be left out of a batch that is mixed, got {kind}. Boxes and key points "
            "have no mixture: cells cut them, and several images' would overlap. Draw boxes as "
            "masks, which are mixed pixel by pixel."
        )
