"""Pictures of every mode that Pillow has as upright 8-bit RGB."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from comixup.lab._orientation import TURNS, orientation_of

_WIDE = ("I;16", "I;16B", "I;16L", "I;16N")
"""Pillow's modes of 16-bit grey pixels."""
_WIDE_IN_32 = ("PNG", "PPM")
"""Formats whose grey pixels of more than 8 bits have 16, even where Pillow's mode has 32."""
_UNPREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}
_BITS_PER_SAMPLE, _PHOTOMETRIC = 258, 262
"""Tags of TIFF files."""
_WHITE_IS_ZERO = 0


def problem_of_mode(image: Image.Image) -> str | None:
    """Returns what an image's pixels must be and are not; None if `upright_rgb` takes them.

    Floats and 32-bit integers are rejected, since nothing says which of their values is white.
    """
    kind = None
    if image.mode == "F":
        kind = "floats"
    elif image.mode == "I" and image.format not in _WIDE_IN_32:
        kind = "signed or 32-bit integers"
    elif image.mode in _WIDE and _tag(image, _PHOTOMETRIC) == _WHITE_IS_ZERO:
        kind = "16-bit integers of which 0 is white"
    if kind is None:
        return None
    return (
        f"have unsigned pixels of 8 or 16 bits, got {kind} (mode {image.mode} of Pillow). Scale "
        "them to 8 bits and save the image again"
    )


def upright_rgb(image: Image.Image) -> Image.Image:
    """Returns an image in 8-bit RGB, turned as it says itself (EXIF), without metadata.

    Pixels of 16 bits are scaled by the range of their type, and transparency is dropped.

    Args:
        image: without a `problem_of_mode`.
    """
    pixels = _rgb(image)
    # Read afterwards: of TIFF files Pillow turns the pixels itself, and then takes the tag away.
    turn = TURNS.get(orientation_of(image))
    upright = pixels if turn is None else pixels.transpose(turn)
    upright.info = {}  # Pillow hands the orientation on: who applies it again would turn it twice
    return upright


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _WIDE or image.mode == "I":
        # Pillow's own conversion clips at 255, which is nearly black. Of 16-bit colours it keeps
        # the upper byte: so here.
        bits = 12 if _tag(image, _BITS_PER_SAMPLE) == (12,) else 16
        upper: npt.NDArray[np.uint8] = (np.asarray(image) >> (bits - 8)).astype(np.uint8)
        return Image.fromarray(upper).convert("RGB")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # Pillow warns of a palette's transparency that is lost
    elif image.mode in _UNPREMULTIPLIED:
        image = image.convert(_UNPREMULTIPLIED[image.mode])
    return image.convert("RGB")


def _tag(image: Image.Image, number: int) -> object:
    """Returns the value of a TIFF file's tag; None for other files."""
    tags = getattr(image, "tag_v2", None)
    return None if tags is None else tags.get(number)
