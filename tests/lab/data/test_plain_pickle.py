"""Pickles of CIFAR: those that any Python and NumPy wrote are read, hostile ones run nothing."""

import contextlib
import io
import os
import pickle
import pickletools
import struct
import time
import tracemalloc

import numpy as np
import pytest
import torch

from comixup.lab.data import load
from comixup.lab.data._plain_pickle import PickleError, StoredArray, read_pickle
from data_files import noise, python2_pickle, write_cifar100


def read(content, tmp_path):
    path = tmp_path / "pickle"
    path.write_bytes(content)
    return read_pickle(path)


def same(value, other):
    """Whether two things of plain data are equal, arrays included."""
    if isinstance(other, np.ndarray):
        return isinstance(value, StoredArray) and np.array_equal(value.values, other)
    if isinstance(other, dict):
        return value.keys() == other.keys() and all(same(value[key], other[key]) for key in other)
    return value == other


# ---- What Python 3 writes -----------------------------------------------------------------------


NUMPY_1, NUMPY_2 = b"numpy.core.", b"numpy._core."


def renamed(content, core):
    """A pickle with the names of NumPy's modules that one version has."""
    for other in {NUMPY_1, NUMPY_2} - {core}:
        for module in (b"multiarray", b"numeric"):
            old, new = other + module, core + module
            content = content.replace(b"c" + old + b"\n", b"c" + new + b"\n")
            content = content.replace(
                b"\x8c" + bytes([len(old)]) + old, b"\x8c" + bytes([len(new)]) + new
            )
    return pickletools.optimize(content)  # puts the lengths of frames right


@pytest.mark.parametrize("core", [NUMPY_1, NUMPY_2])
@pytest.mark.parametrize("keys", [str, str.encode])
@pytest.mark.parametrize("protocol", range(6))
def test_files_that_python_3_saved_again_are_read(tmp_path, protocol, keys, core):
    written = write_cifar100(tmp_path)
    for name, (pixels, labels) in written.items():
        stored = {keys("data"): pixels, keys("fine_labels"): labels, keys("filenames"): ["a", b"b"]}
        content = renamed(pickle.dumps(stored, protocol), core)
        assert core in content
        path = tmp_path / "cifar-100-python" / name
        path.write_bytes(content)
    meta = {keys("fine_label_names"): [keys(name) for name in "abcd"]}
    (tmp_path / "cifar-100-python" / "meta").write_bytes(pickle.dumps(meta, protocol))
    data = load("cifar100", tmp_path)
    assert data.classes == ("a", "b", "c", "d")
    for split in ("train", "test"):
        pixels, labels = written[split]
        images = torch.from_numpy(pixels).view(-1, 3, 32, 32)
        torch.testing.assert_close(data.splits[split].images, images, rtol=0, atol=0)
        assert data.splits[split].targets.tolist() == labels


PLAIN = {
    "numbers": [0, 1, -1, 255, 256, 65535, 65536, 2**31 - 1, -(2**31), 2**40, -(2**62)],
    b"constants": [None, True, False, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    7: ["", "a", "h\u00e9", "\u20ac", "\U0001f600", "line\nbreak \\ back", "x" * 300, "x" * 70_000],
    "bytes": [b"", b"a", bytes(range(256)), b"\n" * 70_000],
    "nested": {"list": [[], [[]], [{}]], "tuple": ((), ((),))},
    "arrays": {"c": noise(5, 7), "f": np.asfortranarray(noise(4, 6)), "empty": noise(0, 3)},
    "read-only": np.frombuffer(b"abcdef", np.uint8),
}


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("key", PLAIN, ids=str)
def test_plain_data_come_back(tmp_path, key, protocol):
    assert same(read(pickle.dumps({key: PLAIN[key]}, protocol), tmp_path), {key: PLAIN[key]})


@pytest.mark.parametrize("protocol", range(6))
def test_bytearrays_come_back_as_bytes(tmp_path, protocol):
    content = pickle.dumps([bytearray(b"ab\xff"), bytearray()], protocol)
    assert read(content, tmp_path) == [b"ab\xff", b""]


@pytest.mark.parametrize("protocol", range(6))
def test_shared_and_recursive_lists_are_themselves(tmp_path, protocol):
    shared = [1]
    shared.append(shared)
    first, second = read(pickle.dumps([shared, shared], protocol), tmp_path)
    assert first is second
    assert first[1] is first


def test_python_2_strings_of_protocol_0(tmp_path):
    assert read(b"(dp0\nS'data'\np1\nS\"a\\x00\\n'\"\nsS'n'\nI5\ns.", tmp_path) == {
        b"data": b"a\0\n'",
        b"n": 5,
    }


# ---- Hostile ones -------------------------------------------------------------------------------


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


class Persistent(pickle.Pickler):
    def persistent_id(self, thing):
        return "something" if isinstance(thing, Canary) else None


def persistent(canary):
    buffer = io.BytesIO()
    Persistent(buffer, 4).dump({b"data": Canary(canary)})
    return buffer.getvalue()


def doubled(levels, before=b"", after=b""):
    """A tuple of itself, itself of itself: as many leaves as a chess board has grains."""
    return before + b")" + b"q\x00h\x00\x86" * levels + after


HOSTILE = {
    "reduce": lambda path: pickle.dumps({b"data": Canary(path)}, protocol=2),
    "reduce, protocol 4": lambda path: pickle.dumps({b"data": Canary(path)}, protocol=4),
    "reduce, protocol 0": lambda path: pickle.dumps({b"data": Canary(path)}, protocol=0),
    "os.system": lambda path: b"cos\nsystem\n(S'touch %s'\ntR." % path,
    "builtins by INST": lambda path: b"(S'%s'\nS'w'\nibuiltins\nopen\n." % path,
    "builtins by OBJ": lambda path: b"(cbuiltins\nopen\nS'%s'\nS'w'\no." % path,
    "eval": lambda path: b"c__builtin__\neval\n(S'open(%r)'\ntR." % path,
    "numpy's own loader": lambda path: b"cnumpy\nload\n(S'%s'\ntR." % path,
    "a module's other names": lambda path: b"cnumpy.core.multiarray\nfromfile\n(S'%s'\ntR." % path,
    "dotted names": lambda path: b"\x80\x04\x8c\x05numpy\x8c\x0bdtype.__new__\x93.",
    "dotted builtins": lambda path: b"\x80\x04\x8c\x08builtins\x8c\x0ebytes.__class__\x93.",
    "codecs": lambda path: b"c_codecs\ndecode\n(S'cHJpbnQ='\nS'base64'\ntR.",
    "other encodings": lambda path: b"c_codecs\nencode\n(Vabc\nVzlib\ntR.",
    "new object": lambda path: b"\x80\x02cnumpy\ndtype\n(S'u1'\nt\x81.",
    "new object with keywords": lambda path: b"\x80\x04cnumpy\ndtype\n)}\x92.",
    "extension registry": lambda path: b"\x80\x02\x82\x01.",
    "persistent names": persistent,
    "persistent names as text": lambda path: b"Psomething\n.",
    "buffers from outside": lambda path: b"\x80\x05\x97.",
    "state for a class": lambda path: b"\x80\x02cnumpy\ndtype\nN}U\x01xK\x01s\x86b.",
    "state for a dict": lambda path: b"}}U\x08__init__K\x01sb.",
    "a call of data": lambda path: b"U\x01a)R.",
    "a call of an array's class": lambda path: b"cnumpy\nndarray\n(K\x05tR.",
    "an array of objects": lambda path: pickle.dumps({"data": np.array([Canary(path)])}, 4),
    "an array in an array's place": lambda path: pickle.dumps({"data": np.float64(1)}, 4),
    "a function as data": lambda path: b"}U\x04datac_codecs\nencode\ns.",
    "the mark as data": lambda path: b"(q\x00h\x00.",
    "numbers of a megabyte": lambda path: b"\x8b" + struct.pack("<I", 10**6) + bytes(10**6) + b".",
    "numbers as text": lambda path: b"I" + b"9" * 5000 + b"\n.",
    "numbers with underscores": lambda path: b"I1_0\n.",
    "a name as long as the file": lambda path: b"c" + b"x" * 10**6 + b"\ny\n.",
    "names that are no text": lambda path: b"c\xff\xfe\ny\n.",
    "keys that are no text": lambda path: b"}X\x03\x00\x00\x00\xed\xa0\x80K\x01s.",
    "keys twice": lambda path: pickle.dumps({b"data": 1, "data": 2}, 4),
    "endless hashing": lambda path: b"}" + doubled(60) + b"Ns.",
    "endless messages": lambda path: b"cnumpy\ndtype\n" + doubled(60) + b"\x85R.",
    "protocol 9": lambda path: b"\x80\x09}.",
}
BOMBS = {
    "memo": b"}r" + struct.pack("<I", 2**32 - 1) + b"Q.",
    "memo as text": b"}p99999999999999\nQ.",
    "string": b"T" + struct.pack("<i", 2**31 - 1) + b"x.",
    "negative string": b"T" + struct.pack("<i", -1) + b"x.",
    "bytes": b"\x8e" + struct.pack("<Q", 2**40) + b"x.",
    "bytes without end": b"\x8e" + struct.pack("<Q", 2**64 - 1) + b"x.",
    "bytearray": b"\x96" + struct.pack("<Q", 2**38) + b"x.",
    "text": b"\x8d" + struct.pack("<Q", 2**40) + b"x.",
    "frame": b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b"}",
    "number": b"\x8b" + struct.pack("<I", 2**31 - 1) + b"x.",
    "bytes of a size": b"cbuiltins\nbytes\n(J" + struct.pack("<i", 2**31 - 1) + b"tR.",
    "bytearray of a size": b"cbuiltins\nbytearray\n(\x8a\x06" + bytes(5) + b"\x10tR.",
    "empty lists": b"]" * 3_000_000 + b".",
    "marks": b"(" * 3_000_000 + b".",
    "nested lists": b"(" * 90_000 + b"l" * 90_000 + b".",
}


@pytest.mark.parametrize("kind", [*HOSTILE, *BOMBS])
def test_hostile_pickles_run_nothing(tmp_path, kind):
    write_cifar100(tmp_path)
    canary = tmp_path / "canary"
    make = HOSTILE.get(kind)
    content = BOMBS[kind] if make is None else make(os.fsencode(canary))
    (tmp_path / "cifar-100-python" / "test").write_bytes(content)
    start = time.perf_counter()
    with pytest.raises(
        ValueError, match=r"test is damaged or no CIFAR file: .* download=True"
    ) as caught:
        load("cifar100", tmp_path)
    assert time.perf_counter() - start < 30  # and not for ever
    assert len(str(caught.value)) < 1000
    assert not canary.exists()


def test_the_canary_sings_where_pickles_are_trusted(tmp_path):
    canary = tmp_path / "canary"
    pickle.loads(pickle.dumps(Canary(canary))).close()
    assert canary.exists()


@pytest.mark.parametrize("kind", BOMBS)
def test_bombs_take_no_memory(tmp_path, kind):
    path = tmp_path / "bomb"
    path.write_bytes(BOMBS[kind])
    tracemalloc.start()
    try:
        with pytest.raises(PickleError):
            read_pickle(path)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


SHAPES = {
    "too large": (4, 3073),
    "huge": (2**40, 3072),
    "overflowing": (2**62, 4, 2**62),
    "negative": (-1, 3072),
    "negative twice": (-4, -3072),
    "true": (True, 4 * 3072),
    "many": (1,) * 50,
    "no tuple": [4, 3072],
    "text": ("4", "3072"),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("protocol", [2, 5])
def test_arrays_of_other_shapes_are_rejected(tmp_path, shape, protocol):
    class Shaped:
        def __init__(self, values):
            self.values = values

        def __reduce__(self):
            if protocol == 5:
                made, (data, kind, _, order) = self.values.__reduce_ex__(5)
                return made, (bytes(data), kind, shape, order)
            made, arguments, (version, _, kind, by_columns, data) = self.values.__reduce__()
            return made, arguments, (version, shape, kind, by_columns, data)

    content = pickle.dumps(Shaped(noise(4, 3072)), protocol)
    with pytest.raises(PickleError, match="an array of 12288 bytes whose shape is not theirs"):
        read(content, tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_pickles_raise_nothing_else(tmp_path, seed):
    rng = np.random.default_rng(seed)
    stored = {"data": noise(3, 3072), "fine_labels": [1, 2, 3], "filenames": ["a", b"b"]}
    contents = [pickle.dumps(stored, protocol) for protocol in range(6)]
    contents += [python2_pickle({b"data": noise(3, 3072), b"fine_labels": [0, 1, 2]})]
    for content in contents:
        for _ in range(60):
            damaged = bytearray(content)
            # Pixels may be anything: the damage is done where the structure is.
            for place in rng.integers(0, 200, rng.integers(1, 4)):
                damaged[-place if rng.integers(2) else place] = rng.integers(256)
            if rng.integers(3) == 0:
                del damaged[rng.integers(len(damaged)) :]
            with contextlib.suppress(ValueError):
                read(bytes(damaged), tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_pickle(tmp_path):
    write_cifar100(tmp_path)
    path = tmp_path / "cifar-100-python" / "test"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ValueError, match="it is not a regular file"):
        load("cifar100", tmp_path)


def test_class_names_that_are_no_text_are_named(tmp_path):
    write_cifar100(tmp_path)
    content = python2_pickle({b"fine_label_names": [b"a", b"\xff\xfe"]})
    (tmp_path / "cifar-100-python" / "meta").write_bytes(content)
    with pytest.raises(ValueError, match=r"meta is damaged .* a class name that is no text"):
        load("cifar100", tmp_path)
