"""Tables of image files and their labels: CSV, with one label for each image or any number."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from comixup.lab.data._roots import check_regular, reason_of

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
_SEPARATORS = ";|"
"""Between the labels of an image."""
_FORMS = (
    "Its first line names its columns: path and label; path and labels, which are separated by ; "
    "or |; or path and a column of 0 and 1 for each class. A column split may say train, val or "
    "test"
)


def read_csv(path: Path) -> tuple[list[str], dict[str, tuple[list[bytes], Tensor]]]:
    """Returns the classes, and for each part that there is its files and their targets.

    Targets are (n,) int64 class indices, or (n, classes) float32 of 0 and 1 where an image may
    have any number of labels.

    Args:
        path: the table. Files in it are relative to its folder.
    """
    columns, rows = _read(path)
    own_path, own_part = _column(columns, _PATH), _column(columns, _PART)
    label, labels = _column(columns, _LABEL), _column(columns, _LABELS)
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
        sets = [_split(row[labels]) for _, row in rows]
        classes = _sorted({name for names in sets for name in names})
        targets = torch.tensor([[float(name in names) for name in classes] for names in sets])
    else:
        classes = [name for name in columns if name not in (own_path, own_part)]
        targets = torch.tensor([[_flag(path, n, row, name) for name in classes] for n, row in rows])
    if len(classes) < 2:
        raise ValueError(f"{path} must have two classes at least, got {classes}. {_FORMS}.")
    parts = ["train"] * len(rows)
    if own_part is not None:
        parts = [_part(path, number, row[own_part]) for number, row in rows]
    _check_once(path, files)
    of_part = {name: [k for k, own in enumerate(parts) if own == name] for name in PARTS}
    return classes, {
        name: ([files[k] for k in members], targets[members])
        for name, members in of_part.items()
        if members
    }


def _read(path: Path) -> tuple[list[str], list[tuple[int, Mapping[str, str]]]]:
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
    if not cell or not file.is_file():
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


def _split(cell: str) -> list[str]:
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
        return sorted(names, key=int)
    return sorted(names)
