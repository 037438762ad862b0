"""CIFAR-10 and CIFAR-100, from the official files for Python.

Those files are pickles, which can run any program when they are read in the usual way. Here they
cannot: `read_pickle` knows plain data alone.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torchvision import datasets  # type: ignore[import-untyped]

from comixup.lab._normalize import BLACK_TO_WHITE
from comixup.lab.data._data_set import DataSet
from comixup.lab.data._download import Archive, fetch
from comixup.lab.data._in_memory import MemorySplit
from comixup.lab.data._pickle_names import PickleError, StoredArray
from comixup.lab.data._plain_pickle import read_pickle
from comixup.lab.data._roots import find_folder, reason_of

SHAPE = (3, 32, 32)
PAD = 2  # Paper: "random crop" without a number; the official implementation has 2
_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class _Kind:
    """What tells the two sets apart; `official` are the images of the official files."""

    title: str
    archive: Archive
    train: tuple[str, ...]
    test: str
    meta: str
    label_key: bytes
    names_key: bytes
    official: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]


def _colours(*values: float) -> tuple[float, ...]:
    return tuple(value / BLACK_TO_WHITE for value in values)


KINDS = {
    "cifar10": _Kind(
        title="CIFAR10",
        archive=Archive(
            url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            size=170_498_071,
            sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            folder="cifar-10-batches-py",
        ),
        train=tuple(f"data_batch_{number}" for number in range(1, 6)),
        test="test_batch",
        meta="batches.meta",
        label_key=b"labels",
        names_key=b"label_names",
        official=(10_000, 10_000),
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
    ),
    "cifar100": _Kind(
        title="CIFAR100",
        archive=Archive(
            url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
            size=169_001_437,
            sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
            folder="cifar-100-python",
        ),
        train=("train",),
        test="test",
        meta="meta",
        label_key=b"fine_labels",
        names_key=b"fine_label_names",
        official=(50_000, 10_000),
        mean=_colours(129.3, 124.1, 112.4),
        std=_colours(68.2, 65.4, 70.4),
    ),
}


def read_cifar(name: str, root: Path, download: bool) -> DataSet:
    """Returns CIFAR-10 or CIFAR-100 from `root`, or from the folder that its archive unpacks to."""
    kind = KINDS[name]
    needed = (*kind.train, kind.test, kind.meta)
    folder = kind.archive.folder
    if download and _missing(root, needed) and _missing(root / folder, needed):
        fetch(kind.archive, _missing(root / folder, needed), root, kind.title)
    source = "`download=True` (--download) fetches it."
    place = find_folder(root, [folder], needed, name, source)
    classes = _class_names(place / kind.meta, kind)
    train = [_read_images(place / file, kind, len(classes), 0) for file in kind.train]
    images, targets = (torch.cat(parts) for parts in zip(*train, strict=True))
    normalisation = (kind.mean, kind.std)
    return DataSet(
        name,
        classes,
        SHAPE,
        *normalisation,
        train=MemorySplit(images, targets, *normalisation, pad=PAD, flip=True),
        test=MemorySplit(
            *_read_images(place / kind.test, kind, len(classes), 1),
            *normalisation,
            pad=PAD,
            flip=True,
        ),
    )


def _missing(folder: Path, files: Sequence[str]) -> list[str]:
    return [file for file in files if not (folder / file).is_file()]


def _content(path: Path) -> dict[bytes, Any]:
    """Returns a file's dict, its keys as bytes, without ever running what it asks for."""
    try:
        content = read_pickle(path)
        if not isinstance(content, dict):
            raise PickleError(f"it holds a {type(content).__name__} instead of a dict")
        entries = [(key.encode() if isinstance(key, str) else key, content[key]) for key in content]
        if len(dict(entries)) != len(entries):
            raise PickleError("it has a key twice, as text and as bytes")
    except (OSError, ValueError, MemoryError) as error:
        raise _damaged(path, reason_of(error)) from None
    return dict(entries)


def _class_names(path: Path, kind: _Kind) -> tuple[str, ...]:
    names = _content(path).get(kind.names_key)
    if not isinstance(names, list) or not all(isinstance(name, (bytes, str)) for name in names):
        raise _damaged(path, f"it has no list {kind.names_key.decode()!r}")
    try:
        encoded = [name.encode() if isinstance(name, str) else name for name in names]
        return tuple(name.decode() for name in encoded)
    except UnicodeError as error:
        raise _damaged(path, f"it has a class name that is no text ({error})") from None


def _read_images(path: Path, kind: _Kind, num_classes: int, split: int) -> tuple[Tensor, Tensor]:
    """Returns the images (n, 3, 32, 32) uint8 and class indices of one file."""
    content = _content(path)
    stored, labels = content.get(b"data"), content.get(kind.label_key)
    if not isinstance(stored, StoredArray) or not isinstance(labels, list):
        raise _damaged(path, f"it has no 'data' and {kind.label_key.decode()!r}")
    values = stored.values
    if values.ndim != 2 or values.shape[1] != _PIXELS or not len(values):
        raise _damaged(path, f"its images have shape {values.shape} instead of (n, {_PIXELS})")
    if len(labels) != len(values):
        raise _damaged(path, f"it has {len(values)} images and {len(labels)} labels")
    if not all(type(label) is int and 0 <= label < num_classes for label in labels):
        raise _damaged(path, f"it has labels outside of the {num_classes} classes")
    if len(values) == kind.official[split]:
        _compare_with_official(path, kind)
    return torch.from_numpy(values.copy()).view(-1, *SHAPE), torch.tensor(labels)


def _compare_with_official(path: Path, kind: _Kind) -> None:
    """Warns if a file as long as the official one is another: someone's own labels, or damage."""
    listed = getattr(datasets, kind.title)
    official = dict([*listed.train_list, *listed.test_list])[path.name]
    with path.open("rb") as file:
        digest = hashlib.md5(usedforsecurity=False)
        while chunk := file.read(2**22):
            digest.update(chunk)
    if digest.hexdigest() != official:
        warnings.warn(
            f"{path} is not the official file of {kind.title} (MD5 {digest.hexdigest()}, official "
            f"{official}). Unless you changed it on purpose, remove it and use download=True.",
            stacklevel=2,
        )


def _damaged(path: Path, what: str) -> ValueError:
    return ValueError(
        f"{path} is damaged or no CIFAR file: {what}. Remove it and use download=True, or unpack "
        "the official archive 'for Python' again."
    )
