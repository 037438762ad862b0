"""ImageNet and images of one's own: a folder for each class, as ImageFolder has them, or a CSV."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from comixup._checks import reason_of
from comixup.lab._image_files import (
    Skipped,
    check_regular,
    image_files,
    image_suffixes,
    printable,
    subfolders,
)
from comixup.lab.data._data_set import DataSet
from comixup.lab.data._on_disk import DEFAULT_SIZE, DiskSplit
from comixup.lab.data._roots import find_folder
from comixup.lab.data._scan import scan
from comixup.lab.data._subsets import held_out

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
"""ImageNet's, which torchvision's networks expect."""
TEST_FRACTION = 0.2
"""Fraction of each class's images that is held out where a folder has no part for it."""

_IMAGENET = "It needs an account at image-net.org; torchvision.datasets.ImageNet unpacks it."
_FOLDER = (
    "It needs a folder of images for each class, or train/ and val/ (or test/, or both) with these "
    "folders in each, or a CSV file with the columns path and label."
)


@dataclass(frozen=True, eq=False)
class OwnImages:
    """Images of one's own, as they lie on the disk.

    Attributes:
        classes: their names.
        parts: files and targets of "train" and, where there are such, "validation" and "test".
        notes: lines on what was left out, and why.
        left_out: error messages of damaged images that were left out.
    """

    classes: tuple[str, ...]
    parts: Mapping[str, DiskSplit]
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def is_split(self) -> bool:
        """Whether there are images to evaluate on beside those to train on."""
        return len(self.parts) > 1

    @property
    def multi_label(self) -> bool:
        """Whether an image may have any number of labels."""
        return self.parts["train"].targets.ndim > 1


def read_imagenet(name: str, root: Path, skip_bad: bool = False) -> DataSet:
    """Returns ImageNet from train/ and val/, its images left on disk."""
    folders = ("imagenet", "ImageNet", "ILSVRC2012")
    folder = find_folder(root, folders, ("train", "val"), "ImageNet", _IMAGENET)
    train, test = folder / "train", folder / "val"
    images = _list_folders({"train": train, "test": test})
    # To read all of its files takes long, and their names tell them: only on request.
    return own_data_set(name, scanned(images, folder, name, skip_bad) if skip_bad else images)


def name_of(root: Path) -> str:
    """Returns what images of one's own are called: the name of their folder, or of their table.

    >>> name_of(Path("some/pets")), name_of(Path("pets.csv"))
    ('pets', 'pets')
    """
    whole = root.resolve()
    return whole.stem if whole.suffix.lower() == ".csv" else whole.name


def list_images(root: Path) -> OwnImages:
    """Returns what a folder of images, or a CSV file of paths and labels, has; nothing is read."""
    if root.suffix.lower() == ".csv":
        return _list_csv(root)
    parts = _part_folders(root)
    if parts and "train" not in parts:
        raise FileNotFoundError(
            f"{root} has {', '.join(path.name for path in parts.values())} but no train. {_FOLDER}"
        )
    if not parts and (not root.is_dir() or not subfolders(root)):
        raise FileNotFoundError(
            f"a folder of images was not found. Looked in: {root}. {_FOLDER} Name it by `root` "
            "(--data) or the environment variable COMIXUP_DATA."
        )
    return _list_folders(parts or {"train": root})


def _list_folders(parts: Mapping[str, Path]) -> OwnImages:
    """Returns what the folders of parts have, "train" among them."""
    train, skipped = parts["train"], Skipped()
    classes = _class_folders(train, skipped)
    for name, folder in parts.items():
        if name != "train":
            _check_known(folder, train, classes)
    splits = {
        name: _split(folder, classes, skipped, every_class=name == "train")
        for name, folder in parts.items()
    }
    if len(classes) < 2:
        raise ValueError(f"{train} must have two class folders at least, got {classes[0]!r} alone.")
    return OwnImages(tuple(map(printable, classes)), splits, skipped.lines())


def _list_csv(path: Path) -> OwnImages:
    classes, parts, notes = read_csv(path)
    if "train" not in parts:
        raise ValueError(f"{path} must have images to train on, got {', '.join(parts)} alone.")
    train = parts["train"][1]
    counts = train.sum(0) if train.ndim > 1 else torch.bincount(train, minlength=len(classes))
    for name, count in zip(classes, counts.tolist(), strict=True):
        if not count:
            raise ValueError(f"{path} must have images of class {name!r} to train on, got none.")
    splits = {name: _disk_split(files, targets) for name, (files, targets) in parts.items()}
    return OwnImages(tuple(classes), splits, notes)


def scanned(images: OwnImages, root: Path, name: str, skip_bad: bool) -> OwnImages:
    """Returns the images that can be read, after a look at all of them.

    Args:
        images: from `list_images`.
        root: the folder or CSV file that they were listed from.
        name: of the data set.
        skip_bad: leave out those that cannot be read; else they are an error, which lists them.
    """
    files = [file for part in images.parts.values() for file in part.files.tolist()]
    kept, rows, left_out = scan(root, files, name, skip_bad=skip_bad)
    indices, parts, first = np.array(kept), {}, 0
    for key, part in images.parts.items():
        own = (first <= indices) & (indices < first + len(part))
        subset = part.subset(torch.from_numpy(indices[own] - first))
        parts[key] = replace(subset, rows=rows[own])
        first += len(part)
        if not len(subset):
            raise ValueError(f"none of the {len(part)} {key} images of {name} can be read.")
    return replace(images, parts=parts, left_out=left_out)


def own_data_set(name: str, images: OwnImages, test_fraction: float | None = None) -> DataSet:
    """Returns images of one's own as a data set.

    Images for validation and for test are `.validation` and `.test`. Where there are such for one
    of them, they are `.test`: what errors are of. Where there are none, a fraction of each class's
    images is held out.

    Args:
        name: of the data set.
        images: from `list_images`.
        test_fraction: to be held out where there are no parts; None means a fifth.
    """
    parts = dict(images.parts)
    if not images.is_split:
        every, fraction = parts["train"], TEST_FRACTION if test_fraction is None else test_fraction
        kept, chosen = held_out(every.targets, images.classes, fraction, 0, "test_fraction")
        parts = {"train": every.subset(kept), "test": every.subset(chosen)}
    elif test_fraction is not None:
        raise ValueError(
            f"`test_fraction` must be None for images that have {' and '.join(parts)}, got "
            f"{test_fraction!r}."
        )
    test = parts.pop("test", None) or parts.pop("validation")
    return DataSet(
        name,
        images.classes,
        (3, DEFAULT_SIZE, DEFAULT_SIZE),
        MEAN,
        STD,
        train=parts["train"],
        test=test,
        validation=parts.get("validation"),
        notes=images.notes,
        left_out=images.left_out,
    )


def _part_folders(root: Path) -> dict[str, Path]:
    """Returns the folders of parts that there are, by the part's name."""
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
    return found


def _check_known(folder: Path, train: Path, classes: list[str]) -> None:
    unknown = sorted(set(_class_folders(folder, Skipped())) - set(classes))
    if unknown:
        raise ValueError(
            f"{folder} must have the classes of {train}, got {unknown[0]!r} besides. Remove it, or "
            "add images of it to learn from."
        )


def _class_folders(folder: Path, skipped: Skipped) -> list[str]:
    """Returns the names of a split's class folders, sorted."""
    names = subfolders(folder, skipped)
    if not names:
        raise FileNotFoundError(
            f"{folder} has no folders of classes. Put its images into a folder for each class."
        )
    return names


def _split(folder: Path, classes: list[str], skipped: Skipped, *, every_class: bool) -> DiskSplit:
    files: list[bytes] = []
    targets: list[int] = []
    class_of: dict[str, str] = {}
    present = set(_class_folders(folder, skipped))
    for target, name in enumerate(classes):
        found = image_files(folder / name, skipped) if name in present else {}
        if every_class and not found:
            raise FileNotFoundError(
                f"{folder / name} has no images ({', '.join(image_suffixes())}). Unpack it again, "
                "or remove the folder."
            )
        for path, real in found.items():
            if class_of.setdefault(real, name) != name:
                raise ValueError(
                    f"{folder} must have each image in one class, got {path} in {name!r} and, by a "
                    f"link, in {class_of[real]!r}. Remove the link."
                )
        files += map(os.fsencode, found)
        targets += [target] * len(found)
    if not files:
        raise FileNotFoundError(f"{folder} has no images in any of its folders.")
    return _disk_split(files, torch.tensor(targets))


def _disk_split(files: list[bytes], targets: Tensor) -> DiskSplit:
    return DiskSplit(np.array(files), targets, MEAN, STD)


# ---- Tables of files and labels ------------------------------------------------------------------


PARTS = {
    "train": ("train", "training"),
    "validation": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing"),
}
"""What folders and cells call the parts of a data set; the first name is the usual one."""
_PATH = ("path", "file", "filename", "file_name", "filepath", "image", "image_path")
_LABEL = ("label", "class", "target", "category")
_LABELS = ("labels", "classes", "targets", "tags")
_PART = ("split", "part", "subset")
_NUMBER = ("", "id", "image_id", "index", "unnamed: 0")
"""Columns that number the rows, the last as pandas names them."""
_SEPARATORS = ";|"
"""Between the labels of an image."""
_FORMS = (
    "Its first line names its columns: path and label; path and labels, which are separated by ; "
    "or |; or path and a column of 0 and 1 for each class. A column split may say train, val or "
    "test"
)


def read_csv(
    path: Path,
) -> tuple[list[str], dict[str, tuple[list[bytes], Tensor]], tuple[str, ...]]:
    """Returns the classes, each part's files and their targets, and notes on what was left out.

    Targets are (n,) int64 class indices, or (n, classes) float32 of 0 and 1 where an image may
    have any number of labels.

    Args:
        path: the table. Files in it are relative to its folder.
    """
    columns, rows = _read_table(path)
    own_path, own_part = _column(columns, _PATH), _column(columns, _PART)
    label, labels = _column(columns, _LABEL), _column(columns, _LABELS)
    notes: tuple[str, ...] = ()
    if own_path is None:
        raise ValueError(f"{path} must have a column path, got {', '.join(columns)}. {_FORMS}.")
    files = [_file(path, row[own_path], number) for number, row in rows]
    if label is not None:
        cells = [row[label] for _, row in rows]
        classes = _sorted(set(cells))
        index = {name: k for k, name in enumerate(classes)}
        _check_filled(path, rows, label)
        targets = torch.tensor([index[cell] for cell in cells])
    elif labels is not None:
        sets = [_labels_of(row[labels]) for _, row in rows]
        classes = _sorted({name for names in sets for name in names})
        targets = torch.tensor([[float(name in names) for name in classes] for names in sets])
    else:
        numbers = [name for name in columns if name.lower() in _NUMBER]
        classes = [name for name in columns if name not in (own_path, own_part, *numbers)]
        if numbers:
            named = ", ".join(name or "without a name" for name in numbers)
            notes = (f"Left out, since it numbers the rows and is no class: column {named}.",)
        targets = torch.tensor([[_flag(path, n, row, name) for name in classes] for n, row in rows])
    if len(classes) < 2:
        raise ValueError(f"{path} must have two classes at least, got {classes}. {_FORMS}.")
    parts = ["train"] * len(rows)
    if own_part is not None:
        parts = [_part(path, number, row[own_part]) for number, row in rows]
    _check_once(path, files)
    of_part = {name: [k for k, own in enumerate(parts) if own == name] for name in PARTS}
    found = {
        name: ([files[k] for k in members], targets[members])
        for name, members in of_part.items()
        if members
    }
    return classes, found, notes


def _read_table(path: Path) -> tuple[list[str], list[tuple[int, Mapping[str, str]]]]:
    """Returns the names of the columns, and the rows with the numbers of their lines."""
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


def _column(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """Returns the column that has one of the names, in whatever case."""
    found = [column for column in columns if column.lower() in names]
    return found[0] if found else None


def _file(path: Path, cell: str, number: int) -> bytes:
    file = path.parent / cell
    if not cell or not os.path.isfile(file):  # which `Path` does not say of names too long
        raise FileNotFoundError(
            f"{path}, line {number}, must name an image file, but there is no {file}. Paths are "
            "relative to the table's folder."
        )
    return os.fsencode(file)


def _check_filled(path: Path, rows: Sequence[tuple[int, Mapping[str, str]]], column: str) -> None:
    for number, row in rows:
        if not row[column]:
            raise ValueError(f"{path}, line {number}, must have a {column}, got none.")


def _check_once(path: Path, files: Sequence[bytes]) -> None:
    seen: set[bytes] = set()
    for file in files:
        if file in seen:
            raise ValueError(
                f"{path} must have one line for each image, got two for {os.fsdecode(file)}. "
                "Several labels of an image go into one column labels, separated by ;."
            )
        seen.add(file)


def _labels_of(cell: str) -> list[str]:
    for separator in _SEPARATORS[1:]:
        cell = cell.replace(separator, _SEPARATORS[0])
    return [name.strip() for name in cell.split(_SEPARATORS[0]) if name.strip()]


def _flag(path: Path, number: int, row: Mapping[str, str], name: str) -> float:
    if row[name] not in ("0", "1"):
        raise ValueError(
            f"{path}, line {number}, must have 0 or 1 in column {name}, got {row[name]!r}. "
            f"{_FORMS}."
        )
    return float(row[name])


def _part(path: Path, number: int, cell: str) -> str:
    for name, words in PARTS.items():
        if cell.lower() in words:
            return name
    raise ValueError(f"{path}, line {number}, must say train, val or test, got {cell!r}.")


def _sorted(names: set[str]) -> list[str]:
    """Returns class names in order: by value if all are whole numbers, else by letter."""
    if all(name.isascii() and name.isdigit() for name in names):
        return sorted(names, key=_value)
    return sorted(names)


def _value(digits: str) -> tuple[int, str, str]:
    """Returns what orders whole numbers of any length by value, and 1 and 01 by letter."""
    value = digits.lstrip("0")
    return len(value), value, digits
