"""Data sets by name, with fewer classes or images, or some held out for validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from comixup._checks import check_count, check_fraction
from comixup._did_you_mean import did_you_mean
from comixup.lab.data._cifar import KINDS, read_cifar
from comixup.lab.data._data_set import DataSet
from comixup.lab.data._digits import read_digits
from comixup.lab.data._folder import list_images, name_of, own_data_set, read_imagenet, scanned
from comixup.lab.data._roots import data_root
from comixup.lab.data._speech import read_speech
from comixup.lab.data._subsets import hold_out, keep_classes, keep_images
from comixup.lab.data._tiny_imagenet import read_tiny_imagenet

_OF_IMAGE_FILES: dict[str, Callable[[str, Path, bool], DataSet]] = {
    "imagenet": read_imagenet,
    "tiny-imagenet": read_tiny_imagenet,
}
_FOLDER = "folder"
_SPEECH = "speech-commands"
_DIGITS = "digits"


def names() -> list[str]:
    """Returns the names of the data sets that `load` knows, sorted.

    >>> "cifar100" in names()
    True
    """
    return sorted([*_OF_IMAGE_FILES, _FOLDER, *KINDS, _SPEECH, _DIGITS])


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
        root: the folder that data sets lie in, or that of the set itself; for "folder" also a CSV
            file of paths and labels. None means the environment variable COMIXUP_DATA, or else
            ./data. The digits need none.
        classes: the classes to keep in every split, by name or by index; they are numbered anew,
            in the data set's own order. None keeps all.
        images_per_class: how many training images of each class to keep, drawn by `seed`; None
            keeps all.
        validation: fraction of the training images of each class that is held out as `.validation`
            before anything else; None holds out nothing.
        validation_seed: decides which images are held out, so that they can be the same ones for
            every `seed`; None means `seed`.
        test_fraction: fraction of each class's images that is held out as `.test` of a folder or
            CSV file that has no part to evaluate on, the same ones for every seed; None means a
            fifth.
        seed: decides which images are kept, and held out if nothing else does.
        download: fetch CIFAR if it is not there; others have to be fetched by hand.
        skip_bad: leave out damaged images, with a warning that counts and names them, rather than
            reject the set with a list of them. `DataSet.left_out` has what was left out. Images of
            ImageNet are looked at for this alone; those of other sets always, once.

    >>> digits = load("digits", images_per_class=5)
    >>> digits.num_classes, len(digits.train), len(digits.test)
    (10, 50, 1000)
    """
    _check(name, images_per_class, validation, validation_seed, seed, download, skip_bad)
    if test_fraction is not None:
        _check_test_fraction(name, test_fraction)
    if name == _DIGITS:
        data = read_digits(name)
    elif name == _SPEECH:
        data = read_speech(name, data_root(root))
    elif name in KINDS:
        data = read_cifar(name, data_root(root), download)
    elif name == _FOLDER:
        place = data_root(root, or_csv=True)
        own = name_of(place)
        data = own_data_set(own, scanned(list_images(place), place, own, skip_bad), test_fraction)
    else:
        data = _OF_IMAGE_FILES[name](name, data_root(root), skip_bad)
    if classes is not None:
        data = keep_classes(data, classes)
    if validation is not None:
        data = hold_out(data, validation, seed if validation_seed is None else validation_seed)
    if images_per_class is not None:
        data = keep_images(data, images_per_class, seed)
    return data


def _check_test_fraction(name: str, fraction: float) -> None:
    if name != _FOLDER:
        raise ValueError(
            f"`test_fraction` must be None for {name!r}, which has test images, got {fraction!r}."
        )
    check_fraction("test_fraction", fraction)


def _check(
    name: str,
    images_per_class: int | None,
    validation: float | None,
    validation_seed: int | None,
    seed: int,
    download: bool,
    skip_bad: bool,
) -> None:
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
