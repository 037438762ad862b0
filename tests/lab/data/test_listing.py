"""Links in folders of images: every real file once in a class, and no way back up the tree."""

import os
import shutil

import pytest

from comixup.lab._image_files import image_files, subfolders
from comixup.lab.data import load
from data_files import write_folder

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")


@pytest.fixture
def root(tmp_path):
    return write_folder(tmp_path / "set", train=3, test=2)


def link(path, target):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def shown(split, root):
    return [os.path.relpath(path.decode(), root) for path in split.files]


ANT = [f"train/ant/{name}" for name in ("00.jpg", "01.png", "02.jpg")]
BEE = [path.replace("ant", "bee") for path in ANT]


@pytest.mark.parametrize(
    ("place", "target"),
    [
        ("train/ant/loop", ".."),
        ("train/ant/loop", "/"),
        ("train/ant/deep/er/loop", "../.."),
        ("train/loop", "."),
        ("train/loop", "loop"),
        ("train/ant/loop", "nowhere"),
    ],
    ids=str,
)
def test_links_back_up_the_tree_are_not_followed(root, place, target):
    link(root / place, target)
    data = load("folder", root)
    assert shown(data.train, root) == ANT + BEE
    assert data.classes == ("ant", "bee")


def test_a_class_folder_that_is_a_link_knows_where_it_hangs(root, tmp_path):
    (root / "train/ant").rename(tmp_path / "ants")
    link(root / "train/ant", tmp_path / "ants")
    link(tmp_path / "ants/up", root / "train")
    link(tmp_path / "ants/out", tmp_path)
    assert shown(load("folder", root).train, root) == ANT + BEE


def test_a_folder_that_two_links_lead_to_counts_once(root, tmp_path):
    shutil.copytree(root / "train/bee", tmp_path / "more")
    for name in ("z", "a", "m/n"):
        link(root / "train/ant" / name, tmp_path / "more")
    expected = [*ANT, *(f"train/ant/a/{name}" for name in ("00.jpg", "01.png", "02.jpg"))]
    assert shown(load("folder", root).train, root) == expected + BEE


@pytest.mark.parametrize(
    ("place", "target"),
    [
        ("train/ant/others", "../bee"),
        ("train/cow", "bee"),
        ("train/bee/9.jpg", "../ant/00.jpg"),
        ("val/bee/others", "../ant"),
    ],
)
def test_a_link_to_a_sibling_is_rejected(root, place, target):
    link(root / place, target)
    with pytest.raises(ValueError, match=r"must have each image in one class, got .*, by a link"):
        load("folder", root)


def test_hidden_names_and_images_without_a_class_are_left_out(root):
    before = load("folder", root)
    assert before.notes == ()
    for place in (".ipynb_checkpoints", "ant/.ipynb_checkpoints", ".git"):
        shutil.copytree(root / "train/bee", root / "train" / place)
    for name in ("ant/._00.jpg", "._x.png", "ant/.DS_Store", ".DS_Store"):
        (root / "train" / name).write_bytes(b"no image")
    for name in ("1.jpg", "2.jpg", "3.jpg", "4.jpg", "readme.txt"):
        shutil.copy(root / "val/ant/00.jpg", root / "val" / name)
    data = load("folder", root)
    assert data.digest() == before.digest()
    assert data.notes == (
        "Left out, since their names begin with a dot: ._x.png, .git, .ipynb_checkpoints and 2 "
        "more.",
        "Left out, since their folder is no class's: 1.jpg, 2.jpg, 3.jpg and 1 more.",
    )


def test_links_to_files_count_once(root, tmp_path):
    shutil.copy(root / "train/bee/00.jpg", tmp_path / "away.jpg")
    link(root / "train/ant/00_again.jpg", "00.jpg")
    link(root / "train/ant/a/00_again.jpg", "../00.jpg")
    link(root / "train/ant/y.jpg", tmp_path / "away.jpg")
    link(root / "train/ant/x.jpg", tmp_path / "away.jpg")
    assert shown(load("folder", root).train, root) == [*ANT, "train/ant/x.jpg", *BEE]


def test_the_order_of_listing_does_not_matter(root, tmp_path, monkeypatch):
    shutil.copytree(root / "train/bee", tmp_path / "more")
    for name in ("z", "a", "ant2"):
        link(root / "train/ant" / name, tmp_path / "more")
    link(root / "train/ant/9.jpg", tmp_path / "more/00.jpg")
    link(root / "train/ant/8.jpg", tmp_path / "set/val/ant/00.jpg")
    link(root / "train/ant/7.jpg", tmp_path / "set/val/ant/00.jpg")
    before = image_files(root / "train/ant")
    scandir = os.scandir

    class Backwards:
        def __init__(self, path):
            with scandir(path) as entries:
                self.entries = iter(list(entries)[::-1])

        def __iter__(self):
            return self.entries

        def __next__(self):
            return next(self.entries)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.entries = iter(())

        close = __exit__

    monkeypatch.setattr(os, "scandir", Backwards)
    assert image_files(root / "train/ant") == before
    assert len(before) == 3 + 3 + 1
    assert subfolders(root / "train") == ["ant", "bee"]


def test_folders_that_cannot_be_listed_are_not_left_out_silently(root, monkeypatch):
    (root / "train/ant/locked").mkdir()
    scandir = os.scandir

    def refusing(path):
        if os.fspath(path).endswith("locked"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(PermissionError, match="locked"):
        load("folder", root)
