"""Image files of any kind as 8-bit colours."""

from __future__ import annotations

import functools
from pathlib import Path

from PIL import Image

from comixup.lab._colours import problem_of_mode, upright_rgb
from comixup.lab.data._roots import check_regular, reason_of

REPLACE = "Replace or remove it."

_FORMATS = ("AVIF", "BMP", "DIB", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")
"""What Pillow may take a file for, whatever its name. It would run Ghostscript on an EPS file."""


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
                return upright_rgb(image)
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
    return problem_of_mode(image)
