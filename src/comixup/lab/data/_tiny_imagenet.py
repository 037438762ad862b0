"""Tiny-ImageNet in its official layout, with all classes or some of them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from comixup.lab._image_files import read_image
from comixup.lab._progress import in_threads
from comixup.lab.data._cache import cached
from comixup.lab.data._data_set import DataSet
from comixup.lab.data._in_memory import MemorySplit
from comixup.lab.data._roots import find_folder, lines_of
from comixup.lab.data._scan import scan
from comixup.lab.data._split import file_sources

TITLE = "Tiny-ImageNet"
SIZE = 64
PAD = 4  # Paper: "random crop" without a number; the official implementation has 4
MEAN = STD = (0.5, 0.5, 0.5)  # as the official implementation has them
_FOLDERS = ("tiny-imagenet-200", "tiny-imagenet", "tiny-imagenet-*")
_NEEDED = ("wnids.txt", "train", "val")
_SOURCE = "It comes as tiny-imagenet-200.zip from Stanford's course CS231n."
_SPLITS = ("train", "test")
_REMEDY = "Unpack it again."
_COORDINATE = re.compile(r"[0-9]{1,9}")

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class _Image:
    """A file with its class index and, for test images, its box."""

    file: Path
    target: int
    box: Box | None = None


def read_tiny_imagenet(name: str, root: Path, skip_bad: bool = False) -> DataSet:
    """Returns Tiny-ImageNet; JPEGs are decoded once and cached."""
    folder = find_folder(root, _FOLDERS, _NEEDED, TITLE, _SOURCE)
    wnids = _class_ids(folder)
    splits, left_out = [], list[str]()
    for split in _SPLITS:
        images, contents, bad = _list(folder, wnids, split, skip_bad)
        left_out += bad
        files = [image.file for image in images]
        pixels = torch.from_numpy(_decoded(f"{name}-{split}", files))
        targets = torch.tensor([image.target for image in images])
        sources = file_sources(files, contents)
        splits.append(MemorySplit(pixels, targets, MEAN, STD, PAD, flip=True, sources=sources))
    boxes = torch.tensor([image.box for image in images]).unsqueeze(1)
    boxes[..., 2:] += 1  # inclusive to exclusive ends
    path = folder / "words.txt"
    words = (line.partition("\t") for line in (lines_of(path, TITLE) if path.exists() else []))
    first = {wnid: names.split(",")[0].strip() for wnid, _, names in words}
    classes = tuple(first.get(wnid) or wnid for wnid in wnids)
    return DataSet(
        name,
        classes,
        (3, SIZE, SIZE),
        MEAN,
        STD,
        train=splits[0],
        test=splits[1],
        test_boxes=boxes,
        left_out=tuple(left_out),
    )


def _class_ids(folder: Path) -> list[str]:
    """Returns the classes' WordNet ids, sorted as by torchvision's ImageFolder."""
    ids = sorted(line.strip() for line in lines_of(folder / "wnids.txt", TITLE))
    if not ids or len(set(ids)) != len(ids):
        raise ValueError(f"{folder / 'wnids.txt'} lists no class, or one twice. Unpack it again.")
    for wnid in ids:
        if wnid in (".", "..") or set(wnid) & set("/\\\0"):
            raise ValueError(
                f"{folder / 'wnids.txt'} must list WordNet ids such as n01443537, no paths, got "
                f"{wnid!r:.200}. Unpack it again."
            )
    return ids


def _list(
    folder: Path, wnids: list[str], split: str, skip_bad: bool
) -> tuple[list[_Image], npt.NDArray[np.bytes_], tuple[str, ...]]:
    """Returns a split's images, digests of their files, and messages on skipped files."""
    images = _list_train(folder, wnids) if split == "train" else _list_val(folder, wnids)
    if not images:
        raise FileNotFoundError(f"{TITLE} in {folder} has no images of {split}. Unpack it again.")
    kept, rows, left_out = scan(
        folder / split,
        [os.fsencode(image.file) for image in images],
        f"{TITLE}, {split}",
        skip_bad=skip_bad,
        size=(SIZE, SIZE),
        remedy=_REMEDY,
    )
    return [images[k] for k in kept], rows["content"], left_out


def _list_train(folder: Path, wnids: list[str]) -> list[_Image]:
    listed: list[_Image] = []
    for target, wnid in enumerate(wnids):
        images, notes = folder / "train" / wnid / "images", f"{wnid}_boxes.txt"
        names = _image_names(images)
        path = images.parent / notes
        noted = _boxes(path, fields=5).keys() if path.exists() else set()
        if not names or not noted <= set(names):
            missing = next(iter(sorted(noted - set(names))), "its images")
            raise FileNotFoundError(f"{images} is incomplete: {missing} missing. Unpack it again.")
        listed += [_Image(images / name, target) for name in names]
    return listed


def _list_val(folder: Path, wnids: list[str]) -> list[_Image]:
    notes, images = folder / "val" / "val_annotations.txt", folder / "val" / "images"
    names = set(_image_names(images))
    listed: list[_Image] = []
    for name, (wnid, box) in _boxes(notes, fields=6).items():
        if wnid not in wnids:
            raise ValueError(f"{notes} has {name} of class {wnid}, which is not in wnids.txt.")
        if name not in names:
            raise FileNotFoundError(f"{images} is incomplete: {name} missing. Unpack it again.")
        listed.append(_Image(images / name, wnids.index(wnid), box))
    return listed


def _image_names(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{TITLE} is incomplete: {folder} is missing. Unpack it again.")
    return sorted(name for name in os.listdir(folder) if name.lower().endswith((".jpeg", ".jpg")))


def _boxes(path: Path, fields: int) -> dict[str, tuple[str, Box]]:
    """Returns the class (if given) and box of each image listed in an annotation file."""
    notes: dict[str, tuple[str, Box]] = {}
    for line in lines_of(path, TITLE):
        name, *rest = line.split("\t")
        box = [int(number) for number in rest[-4:] if _COORDINATE.fullmatch(number)]
        if len(rest) != fields - 1 or len(box) != 4 or name in notes:
            raise ValueError(
                f"{path} must list each image once, with a box, got the line {line!r:.200}. Unpack "
                "it again."
            )
        x0, y0, x1, y1 = box
        if not (x0 <= x1 <= SIZE and y0 <= y1 <= SIZE):
            raise ValueError(
                f"{path} must have boxes within {SIZE} x {SIZE} pixels, got the line {line!r:.200}."
            )
        notes[name] = (rest[0], (x0, y0, x1, y1))
    return notes


def _decoded(name: str, files: Sequence[Path]) -> npt.NDArray[np.uint8]:
    """Returns all images, (n, 3, 64, 64), cached, decoded by several threads."""
    shape = (len(files), 3, SIZE, SIZE)

    def make() -> npt.NDArray[np.uint8]:
        images = np.empty(shape, np.uint8)
        for number, image in enumerate(in_threads(_decode, files, f"decoding {name}")):
            images[number] = image
        return images

    return cached(name, files, shape, np.uint8, make)


def _decode(path: Path) -> npt.NDArray[np.uint8]:
    """Returns one image, (3, 64, 64)."""
    image = read_image(path, size=(SIZE, SIZE), remedy=_REMEDY)
    return np.asarray(image).transpose(2, 0, 1)
