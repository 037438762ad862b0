"""How images of a data set are prepared when a run evaluates them: what its weights remember."""

from __future__ import annotations

from comixup.lab._preprocess import Shape
from comixup.lab.data import DataSet
from comixup.lab.models import Preprocessing


def preprocessing_of(data: DataSet, image_size: int | None = None) -> Preprocessing:
    """Returns how unaugmented images of a data set become a network's input.

    Args:
        data: the data set.
        image_size: pixels per side, as for `Split.loader`; None means the set's own.
    """
    shape = shape_of(data, image_size)
    resize = data.test.resized_side(shape[1])
    return Preprocessing(
        shape, tuple(data.mean), tuple(data.std), min(shape[1:]) if resize is None else resize
    )


def shape_of(data: DataSet, image_size: int | None = None) -> Shape:
    """Returns (C, H, W) of the images that a data set's loaders yield; see `preprocessing_of`."""
    channels, height, width = data.shape
    return (channels, height, width) if image_size is None else (channels, image_size, image_size)
