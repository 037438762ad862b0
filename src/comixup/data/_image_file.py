"""Image files of any kind as 8-bit colours."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from comixup._orientation import TURNS, orientation_of
from comixup.data._places import check_regular, reason_of

REPLACE = "Replace or remove it."

_FORMATS = ("AVIF", "BMP", "DIB", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")
"""What Pillow may take a file for, whatever its name. It would run Ghostscript on an EPS file."""
_WIDE = ("I;16", "I;16B", "I;16L", "I;16N")
"""Pillow's modes of 16-bit grey pixels."""
_WIDE_IN_32 = ("PNG", "PPM")
"""Formats whose grey pixels of more than 8 bits have 16, even where Pillow's mode has 32."""
_UNPREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}
_BITS_PER_SAMPLE, _PHOTOMETRIC = 258, 262
"""Tags of TIFF files."""
_WHITE_IS_ZERO = 0


def read_image(
    path: Path,
    *,
    size: tuple[int, int] | None = None,
    max_pixels: int | None = None,
    remedy: str = REPLACE,
) -> Image.Image:
    """Returns an image in 8-bit RGB: of a file with several frames, the first.

    Pixels of 16 bits are scaled by the range of their type, transparency is dropped, and what a
    camera notes as its orientation (EXIF) is undone, as viewers do. Floats and 32-bit integers are
    rejected, since nothing says which of their values is white.

    Args:
        path: the file.
        size: width and height that it has to have; None allows any.
        max_pixels: more are rejected before they are decoded, for files of strangers: a few
            kilobytes can hold gigabytes of one colour. None leaves it to Pillow's own bound.
        remedy: what to do about a damaged file, for the error message.
    """
    try:
        check_regular(path)
        with Image.open(path, formats=_formats()) as image:
            problem = _problem(image, size, max_pixels)
            if problem is None:
                return _upright(image, _rgb(image))
    # Decoders raise all kinds of exceptions on damaged files, MemoryError included.
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read as an image: {reason_of(error)}. {remedy}"
        ) from None
    raise ValueError(f"{path} must {problem}.")


@functools.cache
def _formats() -> list[str]:
    """Returns the formats that this build of Pillow can read."""
    Image.init()
    return [name for name in _FORMATS if name in Image.OPEN]


def _problem(
    image: Image.Image, size: tuple[int, int] | None, max_pixels: int | None
) -> str | None:
    """Returns what an image must have and has not, before anything is decoded."""
    if max_pixels is not None and image.width * image.height > max_pixels:
        return (
            f"have at most {max_pixels} pixels, got {image.width} x {image.height}. Make it smaller"
        )
    if size is not None and image.size != size:
        return f"be {size[0]} x {size[1]} pixels, got {image.width} x {image.height}"
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


def _upright(stored: Image.Image, pixels: Image.Image) -> Image.Image:
    """Returns pixels turned as the file that they come from says."""
    turn = TURNS.get(orientation_of(stored))
    return pixels if turn is None else pixels.transpose(turn)


def _tag(image: Image.Image, number: int) -> object:
    """Returns the value of a TIFF file's tag; None for other files."""
    tags = getattr(image, "tag_v2", None)
    return None if tags is None else tags.get(number)
