"""What the header of a file of weights says: which network, for which images and classes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from comixup.lab._limits import MAX_SIDE
from comixup.lab._preprocess import Shape
from comixup.lab._weights_file import damaged_header, find_weights, read_about
from comixup.lab.models._preprocessing import Preprocessing

MAX_COUNT = 10**9
"""Of classes and feature maps: a larger one is damage."""
_TEXTS = ("model", "data")
"""Fields that are written as they are; the others as JSON."""


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
        preprocessing: how pictures become its input.
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
        found: dict[str, Any] = {
            name: value for name, value in vars(self).items() if value not in (None, (), False)
        }
        if self.preprocessing is not None:
            found["preprocessing"] = self.preprocessing.as_dict()
        return {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in found.items()
        }

    @classmethod
    def from_metadata(cls, about: Mapping[str, str], file: Path) -> Header:
        """Returns a header as it was written; one that is damaged raises `ValueError`.

        Args:
            about: text by name.
            file: that it is from, for the error message.
        """
        found: dict[str, Any] = {}
        for field in fields(cls):
            text = about.get(field.name)
            if text is None:
                continue
            try:
                value = text if field.name in _TEXTS else json.loads(text)
                found[field.name] = _checked(field.name, value, found)
            except (ValueError, LookupError, TypeError, RecursionError):
                raise damaged_header(file, field.name, text) from None
        return cls(**found)


def read_header(path: str | Path) -> Header:
    """Returns what a run's or a file's weights say of themselves, without reading the weights.

    Args:
        path: as for `load`.
    """
    file = find_weights(Path(path))
    return Header.from_metadata(read_about(file), file)


def _checked(name: str, value: Any, before: Mapping[str, Any]) -> Any:
    """Returns a field of a header; what comixup would not have written raises.

    Args:
        name: of the field.
        value: from a file, so it may be anything.
        before: the fields in front of it.
    """
    if name == "preprocessing":
        return Preprocessing.from_dict(value, before["shape"])
    if name in ("num_classes", "width"):
        good = _is_count(value, MAX_COUNT)
    elif name == "shape":
        good = len(value) == 3 and all(_is_count(side, MAX_SIDE) for side in value)
    elif name == "classes":
        named = isinstance(value, list) and all(isinstance(word, str) for word in value)
        good = named and len(value) == before["num_classes"]
    else:
        good = isinstance(value, bool if name == "multi_label" else str)
    if not good:
        raise ValueError(name)
    return tuple(value) if isinstance(value, list) else value


def _is_count(value: object, most: int) -> bool:
    return type(value) is int and 0 < value <= most
