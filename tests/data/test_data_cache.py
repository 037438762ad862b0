import os
from pathlib import Path

import numpy as np
import pytest
import torch

from comixup.data._cache import cache_folder, kept, progress

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
    return kept(name, files, SHAPE, np.uint8, make)


def test_an_array_is_made_once(cache, files):
    make = Maker()
    first, second = keep(files, make), keep(files, make)
    assert make.made == 1
    np.testing.assert_array_equal(first, make() - 1)
    np.testing.assert_array_equal(first, second)
    assert isinstance(second, np.memmap)
    assert len(list(cache.iterdir())) == 1


def test_what_is_written_to_the_array_does_not_reach_the_file(cache, files):
    make = Maker()
    torch.from_numpy(keep(files, make)).zero_()  # torch warns of arrays it may not write to
    np.testing.assert_array_equal(keep(files, make)[0], [1, 2, 3, 4])


@pytest.mark.parametrize("change", ["size", "time", "name", "number"])
def test_other_files_make_another_array_that_replaces_it(cache, files, change):
    make = Maker()
    keep(files, make)
    keep(files, make, name="other")
    if change == "size":
        files[0].write_text("something longer")
    elif change == "time":
        os.utime(files[0], ns=(1, 1))
    elif change == "name":
        files = [files[0].rename(files[0].with_name("c")), files[1]]
    else:
        files = [*files, files[0].with_name("d")]
        files[-1].write_text("more")
    np.testing.assert_array_equal(keep(files, make)[0], [3, 4, 5, 6])
    assert sorted(path.name.split("-")[0] for path in cache.iterdir()) == ["other", "some"]


def damage_value(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        damage_value,
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:20]),
        lambda path: path.write_bytes(b""),
        lambda path: np.save(path.open("wb"), np.zeros((2, 2), np.uint8)),
        lambda path: np.save(path.open("wb"), np.array([{}], dtype=object)),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_damaged_file_is_made_again_with_a_sentence(cache, files, damage):
    make = Maker()
    keep(files, make)
    [path] = cache.iterdir()
    damage(path)
    with pytest.warns(UserWarning, match=r"is damaged. It is removed and made again"):
        np.testing.assert_array_equal(keep(files, make)[0], [2, 3, 4, 5])
    keep(files, make)
    assert make.made == 2


def test_an_interrupted_write_leaves_nothing(cache, files, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        keep(files, Maker())
    assert list(cache.iterdir()) == []


def test_off_keeps_nothing(files, monkeypatch, tmp_path):
    monkeypatch.setenv("COMIXUP_CACHE", "off")
    monkeypatch.chdir(tmp_path)
    make = Maker()
    keep(files, make)
    keep(files, make)
    assert make.made == 2
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_where_nothing_can_be_written_there_is_a_sentence(files, monkeypatch):
    monkeypatch.setenv("COMIXUP_CACHE", str(files[0]))  # a file, not a folder
    with pytest.warns(UserWarning, match=r"could not be kept in .* COMIXUP_CACHE"):
        np.testing.assert_array_equal(keep(files, Maker())[0], [1, 2, 3, 4])


def test_the_folder_is_the_users(monkeypatch, tmp_path):
    monkeypatch.delenv("COMIXUP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "comixup"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "comixup"


def test_progress_passes_everything_on():
    assert list(progress(iter("abc"), 3, "letters")) == ["a", "b", "c"]
