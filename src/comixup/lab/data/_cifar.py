"""CIFAR-10 and CIFAR-100, by torchvision's readers.

The official files are pickles, which can run any program when they are read. So none is read
before its MD5 is known to be that of the official file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock
from torchvision import datasets  # type: ignore[import-untyped]
from torchvision.datasets.utils import (  # type: ignore[import-untyped]
    check_integrity,
    download_and_extract_archive,
)

from comixup._checks import reason_of
from comixup.lab._preprocess import BLACK_TO_WHITE
from comixup.lab.data._data_set import DataSet
from comixup.lab.data._in_memory import MemorySplit
from comixup.lab.data._roots import find_folder

SHAPE = (3, 32, 32)
PAD = 2  # Paper: "random crop" without a number; the official implementation has 2


@dataclass(frozen=True)
class _Kind:
    """What tells the two sets apart: torchvision's reader, and what images are normalised by."""

    reader: Any
    mean: tuple[float, ...]
    std: tuple[float, ...]


def _colours(*values: float) -> tuple[float, ...]:
    return tuple(value / BLACK_TO_WHITE for value in values)


KINDS = {
    "cifar10": _Kind(datasets.CIFAR10, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": _Kind(datasets.CIFAR100, _colours(129.3, 124.1, 112.4), _colours(68.2, 65.4, 70.4)),
}


def read_cifar(name: str, root: Path, download: bool) -> DataSet:
    """Returns CIFAR-10 or CIFAR-100 from `root`, or from the folder that its archive unpacks to."""
    kind = KINDS[name]
    reader = kind.reader
    files = dict([*reader.train_list, *reader.test_list])
    files[reader.meta["filename"]] = reader.meta["md5"]
    if download and not any(_has(place, files) for place in (root, root / reader.base_folder)):
        _fetch(reader, files, root)
    source = "`download=True` (--download) fetches it."
    place = find_folder(root, [reader.base_folder], tuple(files), name, source)
    for file, md5 in files.items():
        if not check_integrity(place / file, md5):
            raise ValueError(
                f"{place / file} is damaged or changed: its MD5 is not that of the official "
                f"file of {reader.__name__}, {md5}, so it is not read. Remove it and use "
                "download=True (--download), or unpack the official archive 'for Python' again."
            )
    # A reader of the same files that lie in `place` itself.
    here = type(reader.__name__, (reader,), {"base_folder": ""})
    train, test = (here(place, train=part) for part in (True, False))
    norm = (kind.mean, kind.std)
    return DataSet(
        name, tuple(train.classes), SHAPE, *norm, train=_split(train, norm), test=_split(test, norm)
    )


def _split(found: Any, norm: tuple[tuple[float, ...], tuple[float, ...]]) -> MemorySplit:
    images = np.ascontiguousarray(found.data.transpose(0, 3, 1, 2))
    targets = torch.tensor(found.targets)
    return MemorySplit(torch.from_numpy(images), targets, *norm, pad=PAD, flip=True)


def _has(folder: Path, files: Iterable[str]) -> bool:
    return all((folder / file).is_file() for file in files)


def _fetch(reader: Any, files: Iterable[str], root: Path) -> None:
    """Unpacks the official archive into `root`, after a download unless it lies there already."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{reader.filename}.lock"):  # of several processes one fetches it
            if not _has(root / reader.base_folder, files):
                download_and_extract_archive(
                    reader.url, root, filename=reader.filename, md5=reader.tgz_md5
                )
    except Exception as error:  # servers and file systems raise all kinds of them
        raise RuntimeError(
            f"{reader.__name__} could not be fetched from {reader.url}: {reason_of(error)}. Fetch "
            f"it by other means, and put {reader.filename} into {root}."
        ) from error
