"""CIFAR-10 and CIFAR-100, by torchvision's readers.

The official files are pickles, which can run arbitrary code when read. So the MD5 of each file is
verified before it is read.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from comixup.lab.data._data_set import DataSet
from comixup.lab.data._in_memory import MemorySplit
from comixup.lab.data._roots import find_folder

SHAPE = (3, 32, 32)
PAD = 2  # Paper: "random crop" without a number; the official implementation has 2


KINDS: dict[str, tuple[Any, tuple[float, ...], tuple[float, ...]]] = {
    "cifar10": (datasets.CIFAR10, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": (
        datasets.CIFAR100,
        (129.3 / 255, 124.1 / 255, 112.4 / 255),
        (68.2 / 255, 65.4 / 255, 70.4 / 255),
    ),
}
"""torchvision's readers, and the mean and standard deviation that images are normalized by."""


def read_cifar(name: str, root: Path, download: bool) -> DataSet:
    """Returns CIFAR-10 or CIFAR-100 from `root`, or from the folder that its archive unpacks to."""
    reader, mean, std = KINDS[name]
    files = dict([*reader.train_list, *reader.test_list])
    files[reader.meta["filename"]] = reader.meta["md5"]
    places = (root, root / reader.base_folder)
    # By MD5: another process may be unpacking them at this moment.
    if download and not any(
        all(check_integrity(place / file, md5) for file, md5 in files.items()) for place in places
    ):
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
    # A reader of files directly in `place`.
    here = type(reader.__name__, (reader,), {"base_folder": ""})
    splits = []
    for part in (True, False):
        found = here(place, train=part)
        images = torch.from_numpy(np.ascontiguousarray(found.data.transpose(0, 3, 1, 2)))
        targets = torch.tensor(found.targets)
        splits.append(MemorySplit(images, targets, mean, std, pad=PAD, flip=True))
    return DataSet(name, tuple(found.classes), SHAPE, mean, std, train=splits[0], test=splits[1])


def _has(folder: Path, files: Iterable[str]) -> bool:
    return all((folder / file).is_file() for file in files)


def _fetch(reader: Any, files: Iterable[str], root: Path) -> None:
    """Unpacks the official archive into `root`, downloading it if it is missing."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{reader.filename}.lock"):  # one of several processes fetches it
            if not _has(root / reader.base_folder, files):
                download_and_extract_archive(
                    reader.url, root, filename=reader.filename, md5=reader.tgz_md5
                )
    except Exception as error:  # servers and file systems raise many types
        raise RuntimeError(
            f"{reader.__name__} could not be fetched from {reader.url}: {reason_of(error)}. Fetch "
            f"it by other means, and put {reader.filename} into {root}."
        ) from error
