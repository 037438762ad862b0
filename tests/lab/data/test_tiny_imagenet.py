import numpy as np
import pytest
import torch
from PIL import Image

from comixup.lab.data import load
from data_files import write_tiny_imagenet


@pytest.fixture
def folder(tmp_path):
    return write_tiny_imagenet(tmp_path)


def pixels(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB")).transpose(2, 0, 1)


def test_images_and_classes(tmp_path, folder):
    data = load("tiny-imagenet", tmp_path)
    assert data.classes == ("name of n01", "name of n02", "name of n03")  # sorted by id
    assert (data.shape, data.mean, data.std) == ((3, 64, 64), (0.5,) * 3, (0.5,) * 3)
    assert data.train.targets.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert data.test.targets.tolist() == [2, 0, 1, 2, 0]  # as the notes list them
    assert (data.train.pad, data.train.flip) == (4, True)
    for number, wnid in enumerate(["n01", "n02", "n03"]):
        for k in (1, 2):  # a grey one, too
            path = folder / "train" / wnid / "images" / f"{wnid}_{k}.JPEG"
            expected = pixels(path)
            np.testing.assert_array_equal(data.train.images[4 * number + k].numpy(), expected)
    val = pixels(folder / "val" / "images" / "val_3.JPEG")
    np.testing.assert_array_equal(data.test.images[3].numpy(), val)


@pytest.mark.usefixtures("folder")
def test_the_second_time_nothing_is_decoded(tmp_path, monkeypatch):
    first = load("tiny-imagenet", tmp_path).train.images.clone()
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("an image was opened"))
    torch.testing.assert_close(load("tiny-imagenet", tmp_path).train.images, first)


def test_boxes_are_in_the_order_of_the_images(tmp_path, folder):
    # In files they end with the last pixel inside, here behind it.
    whole = load("tiny-imagenet", tmp_path)
    assert whole.test_boxes.tolist() == [[[n, 1, n + 6, 10]] for n in range(5)]
    some = load("tiny-imagenet", tmp_path, classes=[1])
    assert torch.equal(some.test_boxes, whole.test_boxes[whole.test.targets == 1])
    assert 0 < len(some.test_boxes) == len(some.test) < 5


def test_a_selection_of_classes_is_found_by_its_name(tmp_path, folder):
    other = folder.rename(tmp_path / "tiny-imagenet-3")
    assert load("tiny-imagenet", tmp_path).num_classes == 3
    assert load("tiny-imagenet", other).num_classes == 3
    write_tiny_imagenet(tmp_path, wnids=("n05", "n06"))
    assert load("tiny-imagenet", tmp_path).num_classes == 2  # the official name goes first
    (tmp_path / "tiny-imagenet-200").rename(tmp_path / "tiny-imagenet-2")
    with pytest.raises(ValueError, match=r"`root` must hold one Tiny-ImageNet, got 2: .* Name one"):
        load("tiny-imagenet", tmp_path)


def drop(*paths):
    def change(folder):
        for path in paths:
            (folder / path).unlink()

    return change


def write(path, text):
    return lambda folder: (folder / path).write_text(text, encoding="utf-8")


def note(*numbers, name="val_0.JPEG", times=1):
    line = "\t".join([name, "n01", *numbers])
    return write("val/val_annotations.txt", f"{line}\n" * times)


def cut(path):
    return lambda folder: (folder / path).write_bytes((folder / path).read_bytes()[:200])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (drop("train/n01/images/n01_3.JPEG"), FileNotFoundError, "incomplete: n01_3.JPEG missing"),
        (drop("val/val_annotations.txt"), FileNotFoundError, "val_annotations.txt is missing"),
        (write("wnids.txt", "n01\nn04\n"), FileNotFoundError, "n04.images is missing"),
        (write("wnids.txt", "n01\nn01\n"), ValueError, "lists no class, or one twice"),
        (write("wnids.txt", "n01\nn02\n"), ValueError, "class n03, which is not in wnids.txt"),
        (write("wnids.txt", "n01\n../n02\n"), ValueError, "no paths, got '../n02'"),
        (write("val/val_annotations.txt", "a\tb"), ValueError, "once, with a box, got the line"),
        (note("0", "0", "9", "-9"), ValueError, "once, with a box"),
        (note("0", "0", "9", "nan"), ValueError, "once, with a box"),
        (note("0", "0", "9", "65"), ValueError, "boxes within 64 x 64 pixels"),
        (note("0", "0", "65", "9"), ValueError, "boxes within 64 x 64 pixels"),
        (note("9", "0", "8", "9"), ValueError, "boxes within 64 x 64 pixels"),
        (note("0", "0", "9", "9", times=2), ValueError, "each image once"),
        (note("0", "0", "9", "9", name="../images/val_0.JPEG"), FileNotFoundError, "missing"),
        (write("val/val_annotations.txt", ""), FileNotFoundError, "no images of test"),
        (cut("train/n02/images/n02_1.JPEG"), ValueError, "n02_1.JPEG cannot be read as an image"),
    ],
)
def test_what_is_missing_or_damaged_is_named(tmp_path, folder, change, error, message):
    change(folder)
    with pytest.raises(error, match=message):
        load("tiny-imagenet", tmp_path)


@pytest.mark.data
def test_the_real_set():
    data = load("tiny-imagenet")
    assert data.train.targets.bincount().tolist() == [500] * data.num_classes
    assert data.test.targets.bincount().tolist() == [50] * data.num_classes
    boxes = data.test_boxes
    assert boxes.shape == (len(data.test), 1, 4)
    assert boxes.min() == 0
    assert boxes.max() == 64
    assert (boxes[..., 2:] > boxes[..., :2]).all()
