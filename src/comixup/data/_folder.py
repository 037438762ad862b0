"""ImageNet and other images in a folder for each class, as torchvision's ImageFolder has them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
from torchvision.datasets.folder import IMG_EXTENSIONS  # type: ignore[import-untyped]

from comixup.data._damaged import readable
from comixup.data._disk import DEFAULT_SIZE, DiskSplit, problem_of
from comixup.data._listing import files_below, subfolders
from comixup.data._places import find_folder
from comixup.data._sets import DataSet

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
"""ImageNet's, which torchvision's networks expect."""

_IMAGENET = "It needs an account at image-net.org; torchvision.datasets.ImageNet unpacks it."
_FOLDER = "It needs train/ and val/ (or test/), with a folder of images for each class in both."


def read_imagenet(name: str, root: Path, skip_bad: bool = False) -> DataSet:
    """Returns ImageNet from train/ and val/, its images left on disk."""
    folders = ("imagenet", "ImageNet", "ILSVRC2012")
    folder = find_folder(root, folders, ("train", "val"), "ImageNet", _IMAGENET)
    return _read(name, folder / "train", folder / "val", skip_bad)


def read_folder(name: str, root: Path, skip_bad: bool = False) -> DataSet:
    """Returns the images in train/ and val/, or train/ and test/, left on disk."""
    if not (root / "train").is_dir() or not any(_evaluated(root)):
        raise FileNotFoundError(
            f"a folder of images was not found. Looked in: {root}. {_FOLDER} Name the folder above "
            "them by `root` (--data) or the environment variable COMIXUP_DATA."
        )
    return _read(name, root / "train", _evaluated(root)[0], skip_bad)


def _evaluated(root: Path) -> list[Path]:
    return [root / name for name in ("val", "test") if (root / name).is_dir()]


def _read(name: str, train: Path, test: Path, skip_bad: bool) -> DataSet:
    classes = _class_folders(train)
    unknown = sorted(set(_class_folders(test)) - set(classes))
    if unknown:
        raise ValueError(
            f"{test} must have the classes of {train}, got {unknown[0]!r} besides. Remove it, or "
            "add images of it to learn from."
        )
    shown = _split(test, classes, every_class=False)
    if skip_bad:
        files = [Path(os.fsdecode(file)) for file in shown.files]
        shown = shown.subset(torch.tensor(readable(files, problem_of, str(test))))
    return DataSet(
        name,
        tuple(classes),
        (3, DEFAULT_SIZE, DEFAULT_SIZE),
        MEAN,
        STD,
        train=_split(train, classes, every_class=True),
        test=shown,
    )


def _class_folders(folder: Path) -> list[str]:
    """Returns the names of a split's class folders, sorted."""
    names = subfolders(folder)
    if not names:
        raise FileNotFoundError(
            f"{folder} has no folders of classes. Put its images into a folder for each class."
        )
    return names


def _split(folder: Path, classes: list[str], *, every_class: bool) -> DiskSplit:
    files: list[bytes] = []
    targets: list[int] = []
    present = set(_class_folders(folder))
    for target, name in enumerate(classes):
        found = files_below(folder / name, IMG_EXTENSIONS) if name in present else []
        if every_class and not found:
            raise FileNotFoundError(
                f"{folder / name} has no images ({', '.join(IMG_EXTENSIONS)}). Unpack it again, or "
                "remove the folder."
            )
        files += map(os.fsencode, found)
        targets += [target] * len(found)
    if not files:
        raise FileNotFoundError(f"{folder} has no images in any of its folders.")
    return DiskSplit(np.array(files), torch.tensor(targets), MEAN, STD)
