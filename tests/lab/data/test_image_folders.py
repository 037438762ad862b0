"""Folders of one's own images: parts, orientation, near copies, sizes."""

import os

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from comixup.lab._image_files import read_image
from comixup.lab.data import load
from comixup.lab.data._data_set import held_out
from comixup.lab.data._scan import median_side, near_copies, scan
from comixup.lab.models import Preprocessing
from data_files import noise, smooth_picture, write_folder


def class_folders(root, counts):
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            seed = 100 * len(name) + number
            smooth_picture(20, 16, seed=seed).save(root / name / f"{number}.png")
    return root


def test_class_folders_alone_have_a_fifth_of_each_held_out(tmp_path):
    root = class_folders(tmp_path, {"ox": 10, "cat": 5})
    data = load("folder", root)
    assert data.classes == ("cat", "ox")
    assert data.class_counts("test") == [1, 2]
    assert data.class_counts("train") == [4, 8]
    assert data.validation is None
    again = load("folder", root, seed=7)
    assert again.test.paths == data.test.paths  # whatever the run's seed


def test_the_fraction_held_out_can_be_chosen_and_more_be_held_out_to_choose_by(tmp_path):
    root = class_folders(tmp_path, {"ox": 10, "cat": 10})
    data = load("folder", root, test_fraction=0.5, validation=0.2)
    assert [len(split) for split in data.splits.values()] == [8, 2, 10]


def test_val_and_test_are_both_used(tmp_path):
    root = write_folder(tmp_path)
    write_folder(tmp_path / "more")
    (tmp_path / "more" / "val").rename(root / "test")
    data = load("folder", root)
    assert {path.parts[-3] for path in data.validation.paths} == {"val"}
    assert {path.parts[-3] for path in data.test.paths} == {"test"}


@pytest.mark.parametrize(
    ("name", "fraction", "rule"),
    [
        ("folder", 0.5, "for images that have train and validation"),
        ("folder", 1, "between 0 and 1"),
        ("digits", 0.5, "which has test images"),
    ],
)
def test_a_test_fraction_that_makes_no_sense(tmp_path, name, fraction, rule):
    with pytest.raises(ValueError, match=f"`test_fraction` must be .*{rule}"):
        load(name, write_folder(tmp_path), test_fraction=fraction)


def test_one_class_is_none(tmp_path):
    with pytest.raises(ValueError, match="two class folders at least, got 'ox' alone"):
        load("folder", class_folders(tmp_path, {"ox": 3}))


@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_as_their_camera_says(tmp_path, orientation, suffix):
    upright = Image.fromarray(noise(6, 9, 3))
    stored = {
        1: lambda p: p,
        2: lambda p: p[:, ::-1],
        3: lambda p: p[::-1, ::-1],
        4: lambda p: p[::-1],
        5: lambda p: p.transpose(1, 0, 2),
        6: lambda p: p[:, ::-1].transpose(1, 0, 2),
        7: lambda p: p[::-1, ::-1].transpose(1, 0, 2),
        8: lambda p: p[::-1].transpose(1, 0, 2),
    }[orientation](np.asarray(upright))
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"phone.{suffix}"
    Image.fromarray(np.ascontiguousarray(stored)).save(path, exif=exif, lossless=True)
    read = read_image(path)
    np.testing.assert_array_equal(np.asarray(read), np.asarray(upright))
    # Nothing is left to apply: the network's own preprocessing takes orientations into account too.
    preprocessing = Preprocessing((3, 6, 6), (0.0,) * 3, (1.0,) * 3, resize=6)
    view = preprocessing.view(upright)
    assert_close(preprocessing.view(read), view, rtol=0, atol=0)
    with Image.open(path) as opened:
        assert_close(preprocessing.view(opened), view, rtol=0, atol=0)
        # The caller's picture is as it was; of TIFF files Pillow undoes the orientation itself.
        assert suffix == "tif" or opened.getexif()[0x0112] == orientation


def test_an_orientation_that_there_is_not_changes_nothing(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 77
    path = tmp_path / "odd.jpg"
    smooth_picture(9, 6, seed=1).save(path, exif=exif)
    assert read_image(path).size == (9, 6)


def rows_of(*paths):
    return scan(paths[0].parent, [os.fsencode(path) for path in paths], "pictures")[1]


def test_near_copies_are_found_and_others_not(tmp_path):
    train = [tmp_path / f"train{number}.png" for number in range(8)]
    for number, path in enumerate(train):
        smooth_picture(60, 40, seed=number).save(path)
    resaved, resized = tmp_path / "resaved.jpg", tmp_path / "resized.png"
    Image.open(train[3]).save(resaved, quality=80)
    Image.open(train[5]).resize((45, 30)).save(resized)
    other = tmp_path / "other.png"
    smooth_picture(60, 40, seed=99).save(other)
    assert near_copies(rows_of(*train), rows_of(other, resaved, resized)) == ([(1, 3), (2, 5)], 3)


def test_of_very_many_images_a_sample_is_compared_and_all_contents(tmp_path, monkeypatch):
    train = [tmp_path / f"train{number}.png" for number in range(4)]
    for number, path in enumerate(train):
        smooth_picture(60, 40, seed=number).save(path)
    resaved = [tmp_path / f"resaved{number}.jpg" for number in range(4)]
    for path, copy in zip(train, resaved, strict=True):
        Image.open(path).save(copy, quality=80)
    same = tmp_path / "same.png"
    same.write_bytes(train[1].read_bytes())
    ours, theirs = rows_of(*train), rows_of(*resaved, same)
    assert near_copies(ours, theirs) == ([(k, k) for k in range(4)] + [(4, 1)], 5)
    # 6 images have 9 pairs at most: 4 to train on are compared with 2 of the 5 to evaluate on.
    monkeypatch.setattr("comixup.lab.data._scan.MAX_COMPARED", 6)
    monkeypatch.setattr("comixup.lab.data._scan._TRAIN_BLOCK", 3)
    assert near_copies(ours, theirs) == ([(0, 0), (2, 2), (4, 1)], 2)


def test_the_median_side(tmp_path):
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path, size in zip(paths, [(10, 30), (40, 20), (50, 50)], strict=True):
        smooth_picture(*size, seed=0).save(path)
    assert median_side(rows_of(*paths)) == 20


def test_contents_count_in_the_digest(tmp_path):
    """Files of equal sizes: one overwritten in place, and those of two classes swapped."""
    root = tmp_path / "set"
    for name, colour in (("blue", (0, 0, 255)), ("red", (255, 0, 0))):
        (root / name).mkdir(parents=True)
        for number in range(5):
            Image.new("RGB", (8, 8), (colour[0], number, colour[2])).save(
                root / name / f"{number}.bmp"
            )
    digests = [load("folder", root).digest()]
    (root / "blue").rename(root / "other")
    (root / "red").rename(root / "blue")
    (root / "other").rename(root / "red")
    digests.append(load("folder", root).digest())
    Image.new("RGB", (8, 8), (1, 2, 3)).save(root / "red" / "0.bmp")
    digests.append(load("folder", root).digest())
    assert len(set(digests)) == 3


def test_images_of_several_labels_are_held_out_by_the_rarest():
    common, rare = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0])
    targets = torch.stack([common] * 20 + [rare] * 5)
    rest, chosen = held_out(targets, ("common", "rare"), 0.2, seed=0)
    assert int(targets[chosen][:, 1].sum()) == 1
    assert len(rest) + len(chosen) == 25
