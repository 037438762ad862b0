import errno
import os
import pickle
import struct
import threading
import time

import numpy as np
import pytest
import torch

from comixup.lab.data._cache import cached

SHAPE = (3, 4)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "a cache"
    monkeypatch.setenv("COMIXUP_CACHE", str(folder))
    return folder


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "data" / name for name in ("a", "b")]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_text("something")
    return paths


class Maker:
    """Makes arrays that differ, and counts them."""

    def __init__(self):
        self.made = 0

    def __call__(self):
        self.made += 1
        return np.arange(12, dtype=np.uint8).reshape(SHAPE) + np.uint8(self.made)


def keep(files, make, name="some"):
    return cached(name, files, SHAPE, np.uint8, make)


def test_an_array_is_made_once(cache, files):
    make = Maker()
    first, second = keep(files, make), keep(files, make)
    assert make.made == 1
    np.testing.assert_array_equal(first, make() - 1)
    np.testing.assert_array_equal(first, second)
    assert isinstance(second, np.memmap)
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("change", ["size", "time", "name"])
def test_other_files_make_another_array_that_replaces_it(cache, files, change):
    make = Maker()
    keep(files, make)
    keep(files, make, name="other")
    if change == "size":
        files[0].write_text("something longer")
    elif change == "time":
        os.utime(files[0], ns=(1, 1))
    else:
        files = [files[0].rename(files[0].with_name("c")), files[1]]
    np.testing.assert_array_equal(keep(files, make)[0], [3, 4, 5, 6])
    assert sorted(path.name.split("-")[0] for path in cache.iterdir()) == ["other", "some"]


def damage_value(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def save(array):
    def write(path):
        with path.open("wb") as file:
            np.save(file, array, allow_pickle=True)

    return write


def write_pickle(path):
    path.write_bytes(pickle.dumps(Canary(path.parent / "canary")))


def described(shape="(3, 4)", kind="'|u1'"):
    """An array's file with a header of one's choice."""
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text))
    return lambda path: path.write_bytes(start + text + bytes(12))


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


DAMAGE = {
    "one bit": damage_value,
    "empty": lambda path: path.write_bytes(b""),
    "another shape": save(np.zeros((2, 2), np.uint8)),
    "another type": save(np.zeros(SHAPE, np.float32)),
    "hostile objects": save(np.array([Canary("canary")], dtype=object)),
    "a pickle": write_pickle,
    "a huge shape": described(f"({2**40}, {2**40})"),
    "structure in depth": described("(" * 300),
    "a program": described("__import__('os').mkdir('canary')"),
    "a pipe": pipe,
    "a device": device,
}


@pytest.mark.skipif(os.name == "nt", reason="no pipes and devices on Windows")
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_damaged_file_is_made_again_with_a_message(cache, files, damage, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    make = Maker()
    keep(files, make)
    [path] = cache.iterdir()
    damage(path)
    with pytest.warns(UserWarning, match=r"is damaged: .* It is removed and made again"):
        np.testing.assert_array_equal(keep(files, make)[0], [2, 3, 4, 5])
    keep(files, make)
    assert make.made == 2
    assert not list(tmp_path.rglob("canary"))


def test_what_a_kill_left_is_removed_after_a_day(cache, files):
    cache.mkdir()
    for name, age in (("old", 10**6), ("new", 0), ("future", -(10**6))):
        (cache / f"{name}.part").write_bytes(b"x")
        os.utime(cache / f"{name}.part", (time.time() - age,) * 2)
    keep(files, Maker())
    # The new one may be another process's, and the clock may have been set back.
    assert sorted(path.name for path in cache.glob("*.part")) == ["future.part", "new.part"]


def test_a_full_disk_leaves_nothing_and_the_array_is_there(cache, files, monkeypatch):
    save_itself = np.save

    def full(file, array, **settings):
        save_itself(file, array[:1], **settings)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    make = Maker()
    with pytest.warns(UserWarning, match=r"could not be cached .* No space left .* COMIXUP_CACHE"):
        np.testing.assert_array_equal(keep(files, make)[0], [1, 2, 3, 4])
    assert list(cache.iterdir()) == []


def test_at_the_same_instant_everyone_has_a_good_array(cache, files):
    together = threading.Barrier(6, timeout=30)
    arrays = []

    def run(number):
        def make():
            together.wait()
            # Sums may come out differently in the last bit on another number of threads.
            return np.full(SHAPE, number, np.uint8)

        arrays.append((number, keep(files, make)))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(number for number, _ in arrays) == list(range(6))
    for number, array in arrays:
        np.testing.assert_array_equal(array, np.full(SHAPE, number))
    make = Maker()
    assert keep(files, make).min() == keep(files, make).max()
    assert make.made == 0


def test_off_keeps_nothing(files, monkeypatch, tmp_path):
    monkeypatch.setenv("COMIXUP_CACHE", "off")
    monkeypatch.chdir(tmp_path)
    make = Maker()
    keep(files, make)
    keep(files, make)
    assert make.made == 2
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_is_written_to_the_array_does_not_reach_the_file(cache, files):
    make = Maker()
    torch.from_numpy(keep(files, make)).zero_()  # torch warns of arrays it may not write to
    np.testing.assert_array_equal(keep(files, make)[0], [1, 2, 3, 4])
