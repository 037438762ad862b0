"""What stands for the functions that a pickle names: see `read_pickle`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bytes: TypeAlias = npt.NDArray[np.uint8]

_MAX_DIMENSIONS = 4


class PickleError(ValueError):
    """What is wrong with a pickle."""


class StoredArray:
    """An array of bytes as NumPy pickles it: made empty, then given its values."""

    def __init__(self) -> None:
        self.values: Bytes = np.empty(0, np.uint8)


@dataclass(frozen=True)
class Named:
    """A function of ours that a name in a pickle stands for."""

    call: Callable[..., object]


class ByteType:
    """NumPy's type of unsigned bytes. Its state, byte order and the like, says nothing new."""


def _byte_type(name: object, *_: object) -> ByteType:
    if name not in (b"u1", "u1"):
        raise PickleError("an array of other values where one of bytes belongs")
    return ByteType()


def _array_class(*_: object) -> None:
    raise PickleError("an array that is made in a way of its own")


def _empty_array(kind: object, *_: object) -> StoredArray:
    if kind is not KNOWN["numpy", "ndarray"]:
        raise PickleError("an array of a class of its own")
    return StoredArray()


def _array_of_buffer(data: object, kind: object, shape: object, order: object) -> StoredArray:
    """Returns an array as protocol 5 has it."""
    array = StoredArray()
    array.values = shaped(data, kind, shape, order == "F")
    return array


def _bytes(text: object = "", encoding: object = "latin1") -> bytes:
    """Returns bytes as Python 3 writes them in protocols 0 to 2: as text that is to be encoded."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise PickleError("bytes in an encoding of their own")
    return text.encode("latin-1")


KNOWN = {
    ("numpy", "dtype"): Named(_byte_type),
    ("numpy", "ndarray"): Named(_array_class),
    ("numpy.core.multiarray", "_reconstruct"): Named(_empty_array),
    ("numpy.core.numeric", "_frombuffer"): Named(_array_of_buffer),
    ("_codecs", "encode"): Named(_bytes),
    ("builtins", "bytes"): Named(_bytes),
    ("builtins", "bytearray"): Named(_bytes),
}


def shaped(data: object, kind: object, shape: object, by_columns: object) -> Bytes:
    """Returns an array of these bytes, which have to be as many as its shape tells."""
    if not isinstance(data, bytes) or not isinstance(kind, ByteType):
        raise PickleError("an array that is no plain array of bytes")
    if (
        not isinstance(shape, tuple)
        or len(shape) > _MAX_DIMENSIONS
        or not all(type(side) is int and side >= 0 for side in shape)
        or math.prod(shape) != len(data)
    ):
        raise PickleError(f"an array of {len(data)} bytes whose shape is not theirs")
    return np.frombuffer(data, np.uint8).reshape(shape, order="F" if by_columns else "C")
