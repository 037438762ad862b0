"""Pickles of plain data, read without the module `pickle`.

A pickle is a program for a stack machine, and the usual reader calls whatever it names. This one
has nothing to call: it knows dicts, lists, tuples, numbers, strings, bytes and NumPy arrays of
bytes, in the forms that Python 2 and 3 write them (protocols 0 to 5), and rejects all else.

Files that are made to fill the memory or to take for ever are rejected too: lengths are compared
with the file's size before anything is allocated, memo numbers are keys of a dict (Python's own
reader allocates as many entries), keys of dicts are strings or numbers (nested tuples of tuples can
be hashed for ever), and instructions are counted.
"""

from __future__ import annotations

import codecs
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from comixup.lab.data._pickle_names import (
    KNOWN,
    ByteType,
    Named,
    PickleError,
    StoredArray,
    shaped,
)
from comixup.lab.data._roots import check_regular

_MAX_OPCODES = 100_000
_BYTES_PER_OPCODE = 100
"""A file may have so many instructions, and one more for so many bytes. Official ones have one for
700 bytes; without a limit, empty lists would take 60 times the file's size in memory."""
_MAX_DIGITS = 20
_MAX_INT_BYTES = 8
_HIGHEST_PROTOCOL = 5
_STOP = b"."


def read_pickle(path: Path) -> Any:
    """Returns the plain data that a pickle holds, arrays as `StoredArray`.

    Raises:
        PickleError: if the file is damaged, or holds anything but plain data.
        OSError: if the file cannot be read.
    """
    check_regular(path)
    with path.open("rb") as file:
        return _Machine(file, os.fstat(file.fileno()).st_size).run()


class _Mark:
    """Where the entries of a list, dict or tuple begin on the stack."""


class _Machine:
    """A pickle being read; `pickletools` of the standard library describes each instruction."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._left = size
        self._max_opcodes = _MAX_OPCODES + size // _BYTES_PER_OPCODE
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Returns what is on top of the stack at the end."""
        for _ in range(self._max_opcodes):
            opcode = self.take(1)
            if opcode == _STOP:
                return self.pop()
            if opcode not in _INSTRUCTIONS:
                raise PickleError(f"it has the instruction {opcode!r}, which is not of plain data")
            _INSTRUCTIONS[opcode](self)
        raise PickleError(f"it has more than {self._max_opcodes} instructions")

    def take(self, count: int) -> bytes:
        """Returns the next bytes of the file."""
        if not 0 <= count <= self._left:
            raise PickleError("it is truncated")
        self._left -= count
        data = self._file.read(count)
        if len(data) != count:
            raise PickleError("it is truncated")
        return data

    def line(self) -> bytes:
        """Returns the rest of a line."""
        line = self._file.readline(self._left)
        self._left -= len(line)
        if not line.endswith(b"\n"):
            raise PickleError("it is truncated")
        return line[:-1]

    def number(self, code: str) -> int:
        """Returns a number that is stored as `struct` tells."""
        return int(struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0])

    def decimal(self) -> int:
        """Returns a number that is stored as a line of text."""
        text = self.line().removesuffix(b"L")
        digits = text.removeprefix(b"-")
        if not digits.isdigit() or len(digits) > _MAX_DIGITS:
            raise PickleError("it has a line where a number belongs")
        return int(text)

    def push(self, value: object) -> None:
        """Puts a value on the stack."""
        self._stack.append(value)

    def top(self) -> Any:
        """Returns the value on top of the stack, which stays there."""
        if not self._stack or self._stack[-1] is _Mark:
            raise PickleError("it takes values that are not there")
        return self._stack[-1]

    def pop(self) -> Any:
        """Returns the value on top of the stack, taken from there."""
        value = self.top()
        del self._stack[-1]
        return value

    def pop_many(self, count: int) -> tuple[Any, ...]:
        """Returns so many values from the top of the stack."""
        return tuple([self.pop() for _ in range(count)][::-1])

    def pop_to_mark(self) -> list[Any]:
        """Returns the values above the last mark."""
        for start in range(len(self._stack) - 1, -1, -1):
            if self._stack[start] is _Mark:
                values = self._stack[start + 1 :]
                del self._stack[start:]
                return values
        raise PickleError("it takes values that are not there")

    def store(self, number: int) -> None:
        """Remembers the value on top of the stack under a number."""
        self._memo[number] = self.top()

    def memoize(self) -> None:
        """Remembers the value on top of the stack under the next number."""
        self.store(len(self._memo))

    def recall(self, number: int) -> None:
        """Puts a value that was remembered on the stack."""
        if number not in self._memo:
            raise PickleError("it recalls what it did not store")
        self.push(self._memo[number])

    def integer(self, count: int) -> None:
        """Puts a number of so many bytes on the stack."""
        if count > _MAX_INT_BYTES:
            raise PickleError(f"it has a number of {count} bytes")
        self.push(int.from_bytes(self.take(count), "little", signed=True))

    def name(self, module: str, name: str) -> None:
        """Puts what stands for a name on the stack."""
        # NumPy 2 has NumPy 1's modules with an underscore; Python 2 calls `builtins` differently.
        plain = module.replace("numpy._core.", "numpy.core.").replace("__builtin__", "builtins")
        if (plain, name) not in KNOWN:
            raise PickleError(f"it asks for {module:.50}.{name:.50}, which is no plain data")
        self.push(KNOWN[plain, name])

    def name_from_stack(self) -> None:
        """Puts what stands for a module's and a thing's name on the stack."""
        module, name = self.pop_many(2)
        if not isinstance(module, str) or not isinstance(name, str):
            raise PickleError("it has a name that is no text")
        self.name(module, name)

    def call(self) -> None:
        """Puts a function's value on the stack."""
        function, arguments = self.pop_many(2)
        if not isinstance(function, Named) or not isinstance(arguments, tuple):
            raise PickleError("it calls what is no function")
        try:
            self.push(function.call(*arguments))
        except TypeError:
            raise PickleError("it calls a function with other arguments than it has") from None

    def build(self) -> None:
        """Gives the value on top of the stack its state."""
        state, thing = self.pop(), self.top()
        if isinstance(thing, StoredArray) and isinstance(state, tuple) and len(state) == 5:
            _, shape, kind, by_columns, data = state
            thing.values = shaped(data, kind, shape, by_columns is True or by_columns == 1)
        elif not isinstance(thing, ByteType):
            raise PickleError("it gives a state to what has none")

    def extend(self, values: list[Any]) -> None:
        """Adds values to the list on top of the stack."""
        found = self.top()
        if not isinstance(found, list):
            raise PickleError("it adds entries to what is no list")
        found.extend(values)

    def update(self, values: list[Any]) -> None:
        """Adds keys and values to the dict on top of the stack."""
        found = self.top()
        if not isinstance(found, dict) or len(values) % 2:
            raise PickleError("it adds entries to what is no dict")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if type(key) not in (str, bytes, int):
                raise PickleError(f"it has a {type(key).__name__} for a dict's key")
            found[key] = value

    def new_dict(self, values: list[Any]) -> None:
        """Puts a dict on the stack."""
        self.push({})
        self.update(values)


def _quoted(line: bytes) -> bytes:
    """Returns a string of Python 2 from its source text."""
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in (b"'", b'"'):
        raise PickleError("it has a string without quotes")
    data: Any = codecs.escape_decode(line[1:-1])[0]
    return bytes(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


_INSTRUCTIONS: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": lambda m: _check_protocol(m.number("B")),
    b"\x95": lambda m: _ignore(m.number("Q")),  # the length of what follows
    b"(": lambda m: m.push(_Mark),
    b"N": lambda m: m.push(None),
    b"\x88": lambda m: m.push(True),
    b"\x89": lambda m: m.push(False),
    b"K": lambda m: m.push(m.number("B")),
    b"M": lambda m: m.push(m.number("H")),
    b"J": lambda m: m.push(m.number("i")),
    b"\x8a": lambda m: m.integer(m.number("B")),
    b"\x8b": lambda m: m.integer(m.number("I")),
    b"I": lambda m: m.push(m.decimal()),
    b"L": lambda m: m.push(m.decimal()),
    b"U": lambda m: m.push(m.take(m.number("B"))),
    b"T": lambda m: m.push(m.take(m.number("i"))),
    b"C": lambda m: m.push(m.take(m.number("B"))),
    b"B": lambda m: m.push(m.take(m.number("I"))),
    b"\x8e": lambda m: m.push(m.take(m.number("Q"))),
    b"\x96": lambda m: m.push(m.take(m.number("Q"))),  # a bytearray
    b"S": lambda m: m.push(_quoted(m.line())),
    b"V": lambda m: m.push(m.line().decode("raw-unicode-escape")),
    b"\x8c": lambda m: m.push(_text(m.take(m.number("B")))),
    b"X": lambda m: m.push(_text(m.take(m.number("I")))),
    b"\x8d": lambda m: m.push(_text(m.take(m.number("Q")))),
    b")": lambda m: m.push(()),
    b"\x85": lambda m: m.push(m.pop_many(1)),
    b"\x86": lambda m: m.push(m.pop_many(2)),
    b"\x87": lambda m: m.push(m.pop_many(3)),
    b"t": lambda m: m.push(tuple(m.pop_to_mark())),
    b"]": lambda m: m.push([]),
    b"l": lambda m: m.push(m.pop_to_mark()),
    b"a": lambda m: m.extend([m.pop()]),
    b"e": lambda m: m.extend(m.pop_to_mark()),
    b"}": lambda m: m.push({}),
    b"d": lambda m: m.new_dict(m.pop_to_mark()),
    b"s": lambda m: m.update(list(m.pop_many(2))),
    b"u": lambda m: m.update(m.pop_to_mark()),
    b"p": lambda m: m.store(m.decimal()),
    b"q": lambda m: m.store(m.number("B")),
    b"r": lambda m: m.store(m.number("I")),
    b"\x94": lambda m: m.memoize(),
    b"g": lambda m: m.recall(m.decimal()),
    b"h": lambda m: m.recall(m.number("B")),
    b"j": lambda m: m.recall(m.number("I")),
    b"c": lambda m: m.name(_text(m.line()), _text(m.line())),
    b"\x93": lambda m: m.name_from_stack(),
    b"R": lambda m: m.call(),
    b"b": lambda m: m.build(),
}


def _check_protocol(number: int) -> None:
    if number > _HIGHEST_PROTOCOL:
        raise PickleError(f"it is of protocol {number}, which is not known")


def _ignore(_: int) -> None:
    """Does nothing."""
