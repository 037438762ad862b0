"""Converts images of any mode to upright 8-bit RGB; the center crop of evaluation."""

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
"""Pillow's transpose method that makes an image upright, by its orientation."""
_SIDEWAYS, _LEFT_AND_RIGHT, _UPSIDE_DOWN = (5, 6, 7, 8), (2, 3, 6, 7), (3, 4, 7, 8)
"""Orientations that transpose, and then flip horizontally, vertically."""


def orientation_of(image: Image.Image) -> int:
    """Returns an image's EXIF orientation: 1 upright, 2 to 8 rotated or mirrored."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation, UPRIGHT)
    except Exception:  # damaged metadata may raise anything; viewers ignore it too
        return UPRIGHT
    return value if isinstance(value, int) and (value == UPRIGHT or value in TURNS) else UPRIGHT


def stored_size(image: Image.Image) -> tuple[int, int]:
    """Returns width and height of an image as it is stored, before it is decoded."""
    tags = getattr(image, "tag_v2", None)
    if image.format != "TIFF" or tags is None:
        return image.size
    # Pillow applies the orientation of TIFF files itself, and returns the size after it.
    return int(tags[ExifTags.Base.ImageWidth]), int(tags[ExifTags.Base.ImageLength])


def upright_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """Returns width and height of an upright image.

    >>> upright_size((40, 30), 6)
    (30, 40)
    """
    return (size[1], size[0]) if orientation in _SIDEWAYS else size


def upright_box(edges: Edges, size: tuple[int, int], orientation: int) -> Edges:
    """Returns a box in the upright image, given one in the stored image of width and height `size`.

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


# ---- Colors -------------------------------------------------------------------------------------


_WIDE = ("I;16", "I;16B", "I;16L", "I;16N")
"""Pillow's modes of 16-bit gray pixels."""
_WIDE_IN_32 = ("PNG", "PPM")
"""Formats whose gray pixels of more than 8 bits have 16, even if Pillow's mode has 32."""
_UNPREMULTIPLIED = {"La": "LA", "RGBa": "RGBA"}
_BITS_PER_SAMPLE, _PHOTOMETRIC = 258, 262
"""Tags of TIFF files."""
_WHITE_IS_ZERO = 0


def problem_of_mode(image: Image.Image) -> str | None:
    """Returns the rule that an image's pixel type breaks; None if `upright_rgb` accepts it.

    Floats and 32-bit integers are rejected, since their white level is unknown.
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
    """Returns an image in 8-bit RGB, with its EXIF orientation applied, without metadata.

    16-bit pixels are scaled by the range of their type, and transparency is dropped. Requires that
    `problem_of_mode` returned None.
    """
    pixels = _rgb(image)
    # Read afterwards: Pillow applies the orientation of TIFF files itself, and removes the tag.
    turn = TURNS.get(orientation_of(image))
    upright = pixels if turn is None else pixels.transpose(turn)
    upright.info = {}  # Pillow keeps the orientation, which must not be applied twice
    return upright


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode in _WIDE or image.mode == "I":
        # Pillow's conversion clips at 255, which is nearly black. Keep the upper byte, as it does
        # for 16-bit colors.
        bits = 12 if _tag(image, _BITS_PER_SAMPLE) == (12,) else 16
        upper: npt.NDArray[np.uint8] = (np.asarray(image) >> (bits - 8)).astype(np.uint8)
        return Image.fromarray(upper).convert("RGB")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # otherwise Pillow warns about a palette's transparency
    elif image.mode in _UNPREMULTIPLIED:
        image = image.convert(_UNPREMULTIPLIED[image.mode])
    return image.convert("RGB")


def _tag(image: Image.Image, number: int) -> object:
    """Returns the value of a TIFF file's tag; None for other files."""
    tags = getattr(image, "tag_v2", None)
    return None if tags is None else tags.get(number)


# ---- The center ----------------------------------------------------------------------------------


class CenterView:
    """Resizes an image and crops its center; see `CenterCrop`.

    Args:
        size: pixels per side of the crop.
        resize: shorter side in pixels before the crop; None for 256 / 224 of `size`.
    """

    def __init__(self, size: int, resize: int | None = None) -> None:
        self._size = size
        self._resize = resize

    def __call__(self, picture: Image.Image, *masks: Tensor) -> Any:
        """Returns the crop as a uint8 tensor, and masks of the image's size cropped alike."""
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
