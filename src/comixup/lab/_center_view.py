"""The centre of a picture as evaluation shows it; `_crops.py` has its geometry."""

from __future__ import annotations

from typing import Any

from PIL import Image
from torch import Tensor
from torchvision.transforms import v2  # type: ignore[import-untyped]

from comixup.lab._crops import CenterCrop


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
