"""What tells data sets apart: names, counts, sizes and contents; not places, times or listings."""

import os
import shutil
from dataclasses import replace

import pytest

from cases import each_case
from comixup.lab.data import DataSet, load
from data_files import (
    memory_split,
    write_cifar100,
    write_speech,
    write_tiny_imagenet,
)


def write_files(root, files):
    """A set of images of one row: the number of its pixels for each relative path."""
    for path, size in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(row_of(size))
    return root


def row_of(pixels):
    """Returns a picture of some pixels, as the bytes of a PGM file."""
    return b"P5 %d 1 255\n" % pixels + b"x" * pixels


FILES = {
    "train/ant/0.jpg": 3,
    "train/ant/1.png": 4,
    "train/ant/sub/2.jpg": 5,
    "train/bee/0.jpg": 6,
    "val/ant/0.jpg": 7,
    "val/bee/0.jpg": 8,
}


@pytest.fixture
def root(tmp_path):
    return write_files(tmp_path / "set", FILES)


def digest(root, **settings):
    return load("folder", root, **settings).digest()


# ---- What it does not depend on -----------------------------------------------------------------


def test_digests_stay_what_they_are(root, tmp_path):
    """Runs that were begun compare theirs with them."""
    assert digest(root) == "219c1f907d0b0fc9"
    assert digest(root, classes=["bee"]) == "30834cf20aefc70e"
    write_cifar100(tmp_path / "cifar")
    assert load("cifar100", tmp_path / "cifar").digest() == "9c54782d8717fe8c"
    write_speech(tmp_path / "speech")
    assert load("speech-commands", tmp_path / "speech").digest() == "f795a69fe9b53bcd"


def test_it_is_the_same_wherever_and_whenever_the_set_was_written(root, tmp_path, monkeypatch):
    before = digest(root)
    for path in root.rglob("*"):
        os.utime(path, (1, 1))
    shutil.copytree(root, tmp_path / "a much longer/path with spaces/set")
    assert digest(tmp_path / "a much longer/path with spaces/set") == before
    (tmp_path / "link").symlink_to(root)
    assert digest(tmp_path / "link") == before
    assert digest(tmp_path / "set" / ".." / "link" / ".") == before
    monkeypatch.chdir(tmp_path)
    assert digest("set") == before
    monkeypatch.chdir(root)
    assert digest(".") == before


def test_it_does_not_depend_on_the_order_of_listing(root, tmp_path, monkeypatch):
    write_speech(tmp_path / "speech")
    write_tiny_imagenet(tmp_path / "tiny")
    names = {
        "folder": root,
        "speech-commands": tmp_path / "speech",
        "tiny-imagenet": tmp_path / "tiny",
    }
    before = {name: load(name, place).digest() for name, place in names.items()}
    listdir, walk = os.listdir, os.walk
    monkeypatch.setattr(os, "listdir", lambda path=".": listdir(path)[::-1])

    def backwards(top, **settings):
        for place, folders, files in walk(top, **settings):
            folders.reverse()
            yield place, folders, files[::-1]

    monkeypatch.setattr(os, "walk", backwards)
    assert {name: load(name, place).digest() for name, place in names.items()} == before


# ---- What it depends on -------------------------------------------------------------------------


def rename(old, new):
    def change(root):
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / old).rename(root / new)

    return change


CHANGES = {
    "size": lambda root: (root / "train/ant/0.jpg").write_bytes(row_of(4)),
    "name": rename("train/ant/0.jpg", "train/ant/9.jpg"),
    "one image less": lambda root: (root / "train/ant/1.png").unlink(),
    "class of an image": rename("train/ant/1.png", "train/bee/1.png"),
    "split of an image": rename("train/ant/1.png", "val/ant/1.png"),
    "names of classes": lambda root: [
        (root / split / "ant").rename(root / split / "asp") for split in ("train", "val")
    ],
    "classes that change places": lambda root: [
        (root / split / old).rename(root / split / new)
        for split in ("train", "val")
        for old, new in (("ant", "x"), ("bee", "ant"), ("x", "bee"))
    ],
    "sizes that change places": lambda root: (
        (root / "train/ant/0.jpg").write_bytes(row_of(4)),
        (root / "train/ant/1.png").write_bytes(row_of(3)),
    ),
    "a link to nothing in particular": lambda root: (root / "train/ant/3.jpg").symlink_to("0.jpg"),
}
UNCHANGED = "a link to nothing in particular"


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_the_files_tells(root, change):
    before = digest(root)
    change(root)
    assert (digest(root) == before) == (change is CHANGES[UNCHANGED])


def a_set(classes=("a", "b"), **changes):
    split = replace(memory_split(), **changes)
    return DataSet("some", classes, (3, 6, 6), split.mean, split.std, train=split, test=split)


def test_images_in_memory_count_pixel_by_pixel():
    plain = a_set().digest()
    split = memory_split()
    images, targets = split.images.clone(), split.targets.clone()
    images[3, 1, 2, 4] += 1
    targets[5] += 1
    others = [
        a_set(images=images),
        a_set(targets=targets),
        a_set(images=split.images.flip(0)),
        a_set(images=split.images.view(23, 3, 4, 9)),
        a_set(images=split.images.float()),
        a_set(images=split.images[:-1], targets=split.targets[:-1]),
        a_set(classes=("b", "a")),
        a_set(classes=("a", "b", "c")),
    ]
    digests = [other.digest() for other in others]
    assert plain == a_set().digest()
    assert len({plain, *digests}) == 1 + len(others)


@each_case(
    ("first", "second"),
    [
        (("a\0b",), ("a", "b")),
        (("a\\", "b"), ("a\\\0b",)),
        (("a", ""), ("a",)),
        (("a", "\0train"), ("a", "", "train")),
    ],
)
def test_names_of_classes_do_not_run_together(first, second):
    assert a_set(classes=first).digest() != a_set(classes=second).digest()


@pytest.mark.data
def test_the_official_set_keeps_its_digest():
    assert load("cifar100").digest() == "3bd658f07d02718d"
