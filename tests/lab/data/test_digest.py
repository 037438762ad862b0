"""What tells data sets apart: names, counts, sizes and contents; not places, times or listings."""

import itertools
import os
import shutil
import sys
import unicodedata
from dataclasses import replace

import numpy as np
import pytest
import torch

from comixup.lab.data import DataSet, load
from comixup.lab.data._split import file_sources
from data_files import (
    memory_split,
    python2_pickle,
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


def test_it_is_the_same_wherever_the_set_lies(root, tmp_path, monkeypatch):
    before = digest(root)
    shutil.copytree(root, tmp_path / "a much longer/path with spaces/set")
    assert digest(tmp_path / "a much longer/path with spaces/set") == before
    (tmp_path / "link").symlink_to(root)
    assert digest(tmp_path / "link") == before
    assert digest(tmp_path / "set" / ".." / "link" / ".") == before
    monkeypatch.chdir(tmp_path)
    assert digest("set") == before
    monkeypatch.chdir(root)
    assert digest(".") == before


def test_it_does_not_depend_on_times(root):
    before = digest(root)
    for path in root.rglob("*"):
        os.utime(path, (1, 1))
    assert digest(root) == before


def test_it_does_not_depend_on_the_kind_of_file(root, tmp_path):
    before = digest(root)
    for number, path in enumerate(sorted(root.rglob("*.*g"))):
        path.rename(tmp_path / f"{number}")
        path.symlink_to(tmp_path / f"{number}")
    assert digest(root) == before
    (root / "train/ant").rename(tmp_path / "ants")
    (root / "train/ant").symlink_to(tmp_path / "ants")
    assert digest(root) == before


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


def test_cached_sets_have_the_digest_of_decoded_ones(tmp_path, monkeypatch):
    write_tiny_imagenet(tmp_path)
    first, second = (load("tiny-imagenet", tmp_path).digest() for _ in range(2))
    monkeypatch.setenv("COMIXUP_CACHE", "off")
    assert first == second == load("tiny-imagenet", tmp_path).digest()


# ---- What it depends on -------------------------------------------------------------------------


def rename(old, new):
    def change(root):
        (root / new).parent.mkdir(parents=True, exist_ok=True)
        (root / old).rename(root / new)

    return change


CHANGES = {
    "size": lambda root: (root / "train/ant/0.jpg").write_bytes(row_of(4)),
    "name": rename("train/ant/0.jpg", "train/ant/9.jpg"),
    "case of a name": rename("train/ant/0.jpg", "train/ant/0.JPG"),
    "folder in a class": rename("train/ant/sub/2.jpg", "train/ant/more/2.jpg"),
    "one image less": lambda root: (root / "train/ant/1.png").unlink(),
    "one test image less": lambda root: (root / "val/bee/0.jpg").unlink(),
    "one image more": lambda root: (root / "train/bee/5.jpg").write_bytes(row_of(1)),
    "class of an image": rename("train/ant/1.png", "train/bee/1.png"),
    "split of an image": rename("train/ant/1.png", "val/ant/1.png"),
    "names of classes": lambda root: [
        (root / split / "ant").rename(root / split / "asp") for split in ("train", "val")
    ],
    "case of classes": lambda root: [
        (root / split / "ant").rename(root / split / "Ant") for split in ("train", "val")
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


@pytest.mark.parametrize("place", ["class", "file"])
def test_forms_of_unicode_are_different_names(tmp_path, place):
    digests = []
    for form in ("NFC", "NFD"):
        name = unicodedata.normalize(form, "caf\u00e9")
        path = f"train/{name}/0.jpg" if place == "class" else f"train/a/{name}.jpg"
        files = {path: 1, path.replace("train", "val"): 2, "train/b/0.jpg": 3}
        digests.append(digest(write_files(tmp_path / form, files)))
    assert digests[0] != digests[1]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_no_unicode_have_a_digest(tmp_path):
    digests = set()
    for name in (b"\xff\xfe", b"\xff", "\u00ff".encode()):
        place = os.fsencode(tmp_path) + b"/" + name.hex().encode()
        for split, class_name in itertools.product((b"train", b"val"), (b"other", name)):
            os.makedirs(os.path.join(place, split, class_name))
            with open(os.path.join(place, split, class_name, name + b".jpg"), "wb") as file:
                file.write(row_of(1))
        digests.add(digest(os.fsdecode(place)))
    assert len(digests) == 3


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


def test_layouts_in_memory_do_not_count():
    images = memory_split().images
    assert a_set(images=images.to(memory_format=torch.channels_last)).digest() == a_set().digest()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("a\0b",), ("a", "b")),
        (("a\\0b",), ("a\0b",)),
        (("a\\", "b"), ("a\\\0b",)),
        (("a", ""), ("a",)),
        (("ab", "c"), ("a", "bc")),
        (("a", "\0train"), ("a", "", "train")),
    ],
)
def test_names_of_classes_do_not_run_together(first, second):
    assert a_set(classes=first).digest() != a_set(classes=second).digest()


def test_names_of_files_do_not_run_together(tmp_path):
    for name, size in (("1", 23), ("12", 3), ("a", 1), ("b", 1)):
        (tmp_path / name).write_bytes(b"x" * size)
    names = ("1", "12", "a", "b")
    one, two, a, b = (file_sources([tmp_path / name], None).tolist() for name in names)
    assert one != two
    assert a != b


def test_the_held_out_images_count(root):
    settings = {"validation": 0.5, "classes": ["ant"]}
    digests = {digest(root, **settings, validation_seed=seed) for seed in range(6)}
    assert len(digests) > 1


def test_copies_of_cifar_with_other_pixels_differ(tmp_path):
    written = write_cifar100(tmp_path)
    before = load("cifar100", tmp_path).digest()
    pixels, labels = written["train"]
    changed = np.copy(pixels)
    changed[0, 0] ^= 1
    content = python2_pickle({b"data": changed, b"fine_labels": labels})
    (tmp_path / "cifar-100-python" / "train").write_bytes(content)
    assert load("cifar100", tmp_path).digest() != before


@pytest.mark.data
def test_the_official_set_keeps_its_digest():
    assert load("cifar100").digest() == "3bd658f07d02718d"
