"""ImageNet and users' own images: a folder per class, as for ImageFolder, or a CSV file."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from comixup._checks import reason_of
from comixup.lab._image_files import (
    Skipped,
    check_regular,
    image_files,
    image_suffixes,
    printable,
    subfolders,
)
from comixup.lab.data._data_set import DataSet, held_out
from comixup.lab.data._on_disk import DEFAULT_SIZE, DiskSplit
from comixup.lab.data._roots import find_folder
from comixup.lab.data._scan import scan

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
"""ImageNet's standard deviation, which torchvision's networks expect."""
TEST_FRACTION = 0.2
"""Fraction of each class's images to hold out if a folder has no split for it."""
PARTS = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
"""Accepted names of splits in folders and CSV cells; the first one is the usual one."""

_IMAGENET = "It needs an account at image-net.org; torchvision.datasets.ImageNet unpacks it."
_FOLDER = (
    "It needs a folder of images for each class, or train/ and val/ (or test/, or both) with these "
    "folders in each, or a CSV file with the columns path and label."
)
_Listing: TypeAlias = tuple[Sequence[str], dict[str, DiskSplit], tuple[str, ...]]
"""Classes, the images of each split ("train" at least), and notes on skipped files."""


def read_imagenet(name: str, root: Path, skip_bad: bool = False) -> DataSet:
    """Returns ImageNet from train/ and val/, its images left on disk."""
    folders = ("imagenet", "ImageNet", "ILSVRC2012")
    folder = find_folder(root, folders, ("train", "val"), "ImageNet", _IMAGENET)
    listing = _list_folders({"train": folder / "train", "test": folder / "val"})
    # Scanning all of its files takes long: only on request.
    return _data_set(name, listing, scanned_as=folder if skip_bad else None, skip_bad=skip_bad)


def read_own(root: Path, test_fraction: float | None = None, skip_bad: bool = False) -> DataSet:
    """Returns users' own images, named after their folder or table.

    With a validation and a test split, these are `.validation` and `.test`. If only one exists, it
    is `.test`, which is evaluated on. If neither does, a fraction of each class is held out.

    Args:
        root: a folder of images, or a CSV file of paths and labels.
        test_fraction: fraction to hold out if there are no splits; None means a fifth.
        skip_bad: skip unreadable images; otherwise they raise an error that lists them.
    """
    whole = root.resolve()
    if root.suffix.lower() == ".csv":
        name, listing = whole.stem, _list_csv(root)
    else:
        name, listing = whole.name, _list_folders(_part_folders(root))
    return _data_set(name, listing, root, skip_bad, test_fraction)


def _data_set(
    name: str,
    listing: _Listing,
    scanned_as: Path | None,
    skip_bad: bool,
    test_fraction: float | None = None,
) -> DataSet:
    """Returns listed images as a data set, after scanning them; see `read_own`.

    `scanned_as` is the folder or CSV file that lists them; None skips the scan.
    """
    classes, parts, notes = listing
    left_out: tuple[str, ...] = ()
    if scanned_as is not None:
        files = [file for part in parts.values() for file in part.files.tolist()]
        kept, rows, left_out = scan(scanned_as, files, name, skip_bad=skip_bad)
        indices, first = np.array(kept), 0
        for key, part in parts.items():
            own = (first <= indices) & (indices < first + len(part))
            subset = part.subset(torch.from_numpy(indices[own] - first))
            parts[key] = replace(subset, rows=rows[own])
            first += len(part)
            if not len(subset):
                raise ValueError(f"none of the {len(part)} {key} images of {name} can be read.")
    if len(parts) == 1:
        every, fraction = parts["train"], TEST_FRACTION if test_fraction is None else test_fraction
        rest, chosen = held_out(every.targets, classes, fraction, 0, "test_fraction")
        parts = {"train": every.subset(rest), "test": every.subset(chosen)}
    elif test_fraction is not None:
        raise ValueError(
            f"`test_fraction` must be None for images that have {' and '.join(parts)}, got "
            f"{test_fraction!r}."
        )
    test = parts.pop("test", None) or parts.pop("validation")
    return DataSet(
        name,
        tuple(classes),
        (3, DEFAULT_SIZE, DEFAULT_SIZE),
        MEAN,
        STD,
        train=parts["train"],
        test=test,
        validation=parts.get("validation"),
        notes=notes,
        left_out=left_out,
    )


# ---- Folders -------------------------------------------------------------------------------------


def _part_folders(root: Path) -> dict[str, Path]:
    """Returns the folders of splits by the split's name; the root itself if it has none."""
    found = {}
    for name, words in PARTS.items():
        folders = [root / word for word in words if (root / word).is_dir()]
        if len(folders) > 1:
            raise ValueError(
                f"{root} must have one folder to {name} on, got {folders[0].name} and "
                f"{folders[1].name}. Move one of them away."
            )
        if folders:
            found[name] = folders[0]
    if found and "train" not in found:
        raise FileNotFoundError(
            f"{root} has {', '.join(path.name for path in found.values())} but no train. {_FOLDER}"
        )
    if not found and (not root.is_dir() or not subfolders(root)):
        raise FileNotFoundError(
            f"a folder of images was not found. Looked in: {root}. {_FOLDER} Name it by `root` "
            "(--data) or the environment variable COMIXUP_DATA."
        )
    return found or {"train": root}


def _list_folders(parts: Mapping[str, Path]) -> _Listing:
    train, skipped = parts["train"], Skipped()
    present = {name: subfolders(folder, skipped) for name, folder in parts.items()}
    classes = present["train"]
    for name, folder in parts.items():
        if not present[name]:
            raise FileNotFoundError(
                f"{folder} has no folders of classes. Put its images into a folder for each class."
            )
        unknown = sorted(set(present[name]) - set(classes))
        if unknown:
            raise ValueError(
                f"{folder} must have the classes of {train}, got {unknown[0]!r} besides. Remove "
                "it, or add images of it to learn from."
            )
    splits = {}
    for part, folder in parts.items():
        files: list[bytes] = []
        targets: list[int] = []
        class_of: dict[str, str] = {}
        for target, name in enumerate(classes):
            found = image_files(folder / name, skipped) if name in present[part] else {}
            if part == "train" and not found:
                raise FileNotFoundError(
                    f"{folder / name} has no images ({', '.join(image_suffixes())}). Unpack it "
                    "again, or remove the folder."
                )
            for path, real in found.items():
                if class_of.setdefault(real, name) != name:
                    raise ValueError(
                        f"{folder} must have each image in one class, got {path} in {name!r} and, "
                        f"by a link, in {class_of[real]!r}. Remove the link."
                    )
            files += map(os.fsencode, found)
            targets += [target] * len(found)
        if not files:
            raise FileNotFoundError(f"{folder} has no images in any of its folders.")
        splits[part] = DiskSplit(np.array(files), torch.tensor(targets), MEAN, STD)
    if len(classes) < 2:
        raise ValueError(f"{train} must have two class folders at least, got {classes[0]!r} alone.")
    return [*map(printable, classes)], splits, skipped.lines()


# ---- Tables of files and labels ------------------------------------------------------------------


_PATH = ("path", "file", "filename", "file_name", "filepath", "image", "image_path")
_LABEL = ("label", "class", "target", "category")
_LABELS = ("labels", "classes", "targets", "tags")
_PART = ("split", "part", "subset")
_NUMBER = ("", "id", "image_id", "index", "unnamed: 0")
"""Columns that number the rows; the last is pandas' name."""
_FORMS = (
    "Its first line names its columns: path and label; path and labels, which are separated by ; "
    "or |; or path and a column of 0 and 1 for each class. A column split may say train, val or "
    "test"
)


def _list_csv(path: Path) -> _Listing:
    """Returns the images listed in a table, with paths relative to its folder."""
    columns, rows = _read_table(path)
    own_path, own_part, label, labels = (
        next((column for column in columns if column.lower() in names), None)
        for names in (_PATH, _PART, _LABEL, _LABELS)
    )
    if own_path is None:
        raise ValueError(f"{path} must have a column path, got {', '.join(columns)}. {_FORMS}.")
    numbers = [name for name in columns if name.lower() in _NUMBER]
    flags = [name for name in columns if name not in (own_path, own_part, *numbers)]
    files: dict[bytes, None] = {}
    members: dict[str, list[int]] = {part: [] for part in PARTS}
    names: list[list[str]] = []
    for number, row in rows:
        line, file = f"{path}, line {number},", path.parent / row[own_path]
        if not row[own_path] or not os.path.isfile(file):  # `Path` raises for too long names
            raise FileNotFoundError(
                f"{line} must name an image file, but there is no {file}. Paths are relative to "
                "the table's folder."
            )
        if os.fsencode(file) in files:
            raise ValueError(
                f"{path} must have one line for each image, got two for {file}. Several labels of "
                "an image go into one column labels, separated by ;."
            )
        part = "train" if own_part is None else row[own_part]
        known = [name for name, words in PARTS.items() if part.lower() in words]
        if not known:
            raise ValueError(f"{line} must say train, val or test, got {part!r}.")
        members[known[0]].append(len(files))
        files[os.fsencode(file)] = None
        names.append(_labels_of(row, label, labels, flags, line))
    by_columns = label is None and labels is None
    classes = flags if by_columns else _sorted({name for found in names for name in found})
    if len(classes) < 2:
        raise ValueError(f"{path} must have two classes at least, got {classes}. {_FORMS}.")
    if label is not None:
        index = {name: k for k, name in enumerate(classes)}
        targets = torch.tensor([index[name] for (name,) in names])
    else:
        targets = torch.tensor([[float(name in found) for name in classes] for found in names])
    every = np.array(list(files))
    parts = {
        part: DiskSplit(every[chosen], targets[chosen], MEAN, STD)
        for part, chosen in members.items()
        if chosen
    }
    if "train" not in parts:
        raise ValueError(f"{path} must have images to train on, got {', '.join(parts)} alone.")
    trained = {name for k in members["train"] for name in names[k]}
    absent = [name for name in classes if name not in trained]
    if absent:
        raise ValueError(f"{path} must have images of class {absent[0]!r} to train on, got none.")
    notes: tuple[str, ...] = ()
    if by_columns and numbers:
        named = ", ".join(name or "without a name" for name in numbers)
        notes = (f"Left out, since it numbers the rows and is no class: column {named}.",)
    return classes, parts, notes


def _labels_of(
    row: Mapping[str, str], label: str | None, labels: str | None, flags: Sequence[str], line: str
) -> list[str]:
    """Returns a row's labels: the value of one column, or the class columns with a 1."""
    if label is not None:
        if not row[label]:
            raise ValueError(f"{line} must have a {label}, got none.")
        return [row[label]]
    if labels is not None:
        cells = row[labels].replace("|", ";").split(";")
        return [name.strip() for name in cells if name.strip()]
    for name in flags:
        if row[name] not in ("0", "1"):
            raise ValueError(
                f"{line} must have 0 or 1 in column {name}, got {row[name]!r}. {_FORMS}."
            )
    return [name for name in flags if row[name] == "1"]


def _read_table(path: Path) -> tuple[list[str], list[tuple[int, Mapping[str, str]]]]:
    """Returns the column names, and the rows with their line numbers."""
    try:
        check_regular(path)
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            columns = [name.strip() for name in next(reader, [])]
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as CSV: {reason_of(error)}.") from None
    if len(set(columns)) < len(columns) or not rows:
        what = "different columns" if rows else "lines with images"
        raise ValueError(f"{path} must have {what}, got {', '.join(columns) or 'nothing'}.")
    for number, row in rows:
        if len(row) != len(columns):
            raise ValueError(
                f"{path}, line {number}, must have {len(columns)} cells "
                f"({', '.join(columns)}), got {len(row)}."
            )
    return columns, [(number, dict(zip(columns, row, strict=True))) for number, row in rows]


def _sorted(names: set[str]) -> list[str]:
    """Returns sorted class names: numerically if all are integers, else alphabetically."""

    def value(digits: str) -> tuple[int, str, str]:
        """Sort key: integers of any length by value; ties such as 1 and 01 alphabetically."""
        significant = digits.lstrip("0")
        return len(significant), significant, digits

    numbers = all(name.isascii() and name.isdigit() for name in names)
    return sorted(names, key=value if numbers else None)
