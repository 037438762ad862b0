"""What the header of a file of weights says: which network, for which images and classes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comixup.lab.models._preprocessing import MAX_SIDE, Preprocessing, Shape
from comixup.lab.models._weights_file import REASON_LETTERS, find_weights, read_about


@dataclass(frozen=True)
class Header:
    """What is known of weights; None or empty where their file does not say.

    Attributes:
        model: name of the network; see `build`.
        num_classes: number of classes.
        shape: (C, H, W) of the images that the network was built for.
        width: feature maps of its first stage, where that was chosen.
        data: name of the data set that it was trained on.
        classes: their names, in the order of the class indices.
        preprocessing: how pictures become its input. Files of version 0.1 do not say.
        multi_label: whether an image may have any number of labels: probabilities are then
            sigmoids of the logits, each for itself.
    """

    model: str | None = None
    num_classes: int | None = None
    shape: Shape | None = None
    width: int | None = None
    data: str | None = None
    classes: tuple[str, ...] = ()
    preprocessing: Preprocessing | None = None
    multi_label: bool = False

    def as_metadata(self) -> dict[str, str]:
        """Returns the header as text by name, for a safetensors file; see `from_metadata`."""
        found = {
            "model": self.model,
            "num_classes": None if self.num_classes is None else str(self.num_classes),
            "shape": None if self.shape is None else json.dumps(self.shape),
            "width": None if self.width is None else str(self.width),
            "data": self.data,
            "classes": json.dumps(self.classes) if self.classes else None,
            "preprocessing": None
            if self.preprocessing is None
            else json.dumps(self.preprocessing.as_dict()),
            "multi_label": "true" if self.multi_label else None,
        }
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_metadata(cls, about: Mapping[str, str], file: Path) -> Header:
        """Returns a header as it was written; one that is damaged raises `ValueError`.

        Args:
            about: text by name.
            file: that it is from, for the error message.
        """
        count, shape = _number(about, "num_classes", file), _shape(about, file)
        return cls(
            model=about.get("model"),
            num_classes=count,
            shape=shape,
            width=_number(about, "width", file),
            data=about.get("data"),
            classes=_classes(about, count, file),
            preprocessing=_preprocessing(about, shape, file),
            multi_label=_flag(about, "multi_label", file),
        )


def read_header(path: str | Path) -> Header:
    """Returns what a run's or a file's weights say of themselves, without reading the weights.

    Args:
        path: as for `load`.
    """
    file = find_weights(Path(path))
    return Header.from_metadata(read_about(file), file)


def _flag(about: Mapping[str, str], key: str, file: Path) -> bool:
    text = about.get(key, "false")
    if text not in ("true", "false"):
        raise damaged_header(file, key, text)
    return text == "true"


def damaged_header(file: Path, name: str, value: str) -> ValueError:
    """Returns an error for something that comixup would not have written."""
    return ValueError(
        f"`path` must be a file that comixup wrote, but {name} of {file} is "
        f"{value[:REASON_LETTERS]!r}. Put back a good copy."
    )


def _number(about: Mapping[str, str], key: str, file: Path) -> int | None:
    text = about.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < len("1000000000") and int(text)):
        raise damaged_header(file, key, text)
    return int(text)


def _shape(about: Mapping[str, str], file: Path) -> Shape | None:
    if "shape" not in about:
        return None
    shape = _parsed(about, "shape", file)
    sides = shape if isinstance(shape, list) else []
    good = all(type(side) is int and 0 < side <= MAX_SIDE for side in sides)
    if len(sides) != 3 or not good:
        raise damaged_header(file, "shape", about["shape"])
    channels, height, width = sides
    return channels, height, width


def _classes(about: Mapping[str, str], count: int | None, file: Path) -> tuple[str, ...]:
    if "classes" not in about or count is None:
        return ()
    names = _parsed(about, "classes", file)
    good = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not good or len(names) != count:
        raise damaged_header(file, "classes", about["classes"])
    return tuple(names)


def _preprocessing(
    about: Mapping[str, str], shape: Shape | None, file: Path
) -> Preprocessing | None:
    if "preprocessing" not in about or shape is None:
        return None
    try:
        return Preprocessing.from_dict(_parsed(about, "preprocessing", file), shape)
    except (ValueError, LookupError, TypeError):
        raise damaged_header(file, "preprocessing", about["preprocessing"]) from None


def _parsed(about: Mapping[str, str], key: str, file: Path) -> Any:
    try:
        return json.loads(about[key])
    except (ValueError, RecursionError):
        raise damaged_header(file, key, about[key]) from None
