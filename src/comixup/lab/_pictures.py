"""Pictures of every kind as upright 8-bit RGB, and their centre as evaluation shows it."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image
from torch import Tensor
from torchvision.transforms import v2  # type: ignore[import-untyped]

from comixup.lab._preprocess import CenterCrop

# ---- Orientation ---------------------------------------------------------------------------------


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
_SIDEWAYS, _LEFT_AND_RIGHT, _UPSIDE_DOWN = (5, 6, 7, 8), (2, 3, 6, 7), (3, 4, 7, 8)
"""Orientations that exchange rows and columns, and after that turn left and right, top and bottom
round."""


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
    """Returns a box of a stored image, of width and height `size`, as the upright image has it.

    >>> upright_box((0, 0, 10, 5), (40, 30), 6)
    (25, 0, 30, 10)
    """
    x0, y0, x1, y1 = edges
    width, height = upright_size(size, orientation)
    if orientation in _SIDEWAYS:
        x0, y0, x1, y1 = y0, x0, y1, x1
    if orientation in _LEFT_AND_RIGHT:
        x0, x1 = width - x1, width - x0
    if orientation in _UPSIDE_DOWN:
        y0, y1 = height - y1, height - y0
    return x0, y0, x1, y1


# ---- Colours -------------------------------------------------------------------------------------


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

    Pixels of 16 bits are scaled by the range of their type, and transparency is dropped. The image
    has no `problem_of_mode`.
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


# ---- The centre ----------------------------------------------------------------------------------


class CenterView:
    """Shows the centre of a picture, resized; see `CenterCrop`.

    Args:
        size: pixels per side of the crop.
        resize: pixels of the shorter side before the crop; None for 256 / 224 of `size`.
    """

    def __init__(self, size: int, resize: int | None = None) -> None:
        self._size = size
        self._resize = resize

    def __call__(self, picture: Image.Image, *masks: Tensor) -> Any:
        """Returns the crop as a uint8 tensor; masks of its size follow, cropped alike."""
        crop = CenterCrop.of(picture.size, self._size, self._resize)
        (x, y), (width, height) = crop.cut, crop.cut_size
        views: list[Any] = [picture, *masks]
        if (width, height) != picture.size:
            views = [v2.functional.crop(view, y, x, height, width) for view in views]
        columns, rows = crop.resized
        views = [v2.functional.resize(view, [rows, columns], antialias=True) for view in views]
        (left, top), (width, height) = crop.offset, crop.size
        views = [v2.functional.crop(view, top, left, height, width) for view in views]
        views[0] = v2.functional.pil_to_tensor(views[0])
        return tuple(views) if masks else views[0]
