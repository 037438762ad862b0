"""How cameras note that an image is stored turned or mirrored (EXIF), and how to undo it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from PIL import ExifTags, Image

Edges: TypeAlias = tuple[float, float, float, float]
"""x0, y0, x1, y1 of a box; x1 and y1 are exclusive ends."""

UPRIGHT = 1
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What makes an image upright again, by its orientation."""
_BOXES: dict[int, Callable[[float, float, float, float, float, float], Edges]] = {
    1: lambda w, h, x0, y0, x1, y1: (x0, y0, x1, y1),
    2: lambda w, h, x0, y0, x1, y1: (w - x1, y0, w - x0, y1),
    3: lambda w, h, x0, y0, x1, y1: (w - x1, h - y1, w - x0, h - y0),
    4: lambda w, h, x0, y0, x1, y1: (x0, h - y1, x1, h - y0),
    5: lambda w, h, x0, y0, x1, y1: (y0, x0, y1, x1),
    6: lambda w, h, x0, y0, x1, y1: (h - y1, x0, h - y0, x1),
    7: lambda w, h, x0, y0, x1, y1: (h - y1, w - x1, h - y0, w - x0),
    8: lambda w, h, x0, y0, x1, y1: (y0, w - x1, y1, w - x0),
}
"""The same of a box in an image of width w and height h."""
_SIDEWAYS = (5, 6, 7, 8)


def orientation_of(image: Image.Image) -> int:
    """Returns how an image is stored: 1 upright, 2 to 8 turned or mirrored, as EXIF numbers it."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation, UPRIGHT)
    except Exception:  # damaged metadata raises anything; viewers ignore it too
        return UPRIGHT
    return value if isinstance(value, int) and (value == UPRIGHT or value in TURNS) else UPRIGHT


def stored_size(image: Image.Image) -> tuple[int, int]:
    """Returns width and height of an image as it is stored, before it is decoded."""
    tags = getattr(image, "tag_v2", None)
    if image.format != "TIFF" or tags is None:
        return image.size
    # Of TIFF files Pillow turns the pixels itself, and tells the size that they will have.
    return int(tags[ExifTags.Base.ImageWidth]), int(tags[ExifTags.Base.ImageLength])


def upright_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """Returns width and height of an image once it is upright.

    >>> upright_size((40, 30), 6)
    (30, 40)
    """
    return (size[1], size[0]) if orientation in _SIDEWAYS else size


def upright_box(edges: Edges, size: tuple[int, int], orientation: int) -> Edges:
    """Returns a box of a stored image as the upright image has it.

    Args:
        edges: x0, y0, x1, y1 in the stored image.
        size: width and height of the stored image.
        orientation: from `orientation_of`.

    >>> upright_box((0, 0, 10, 5), (40, 30), 6)
    (25, 0, 30, 10)
    """
    return _BOXES[orientation](*size, *edges)
