"""Images that cannot be read: rejected by name, or left out, counted and named on request."""

import pytest
import torch

from comixup.lab._image_files import readable
from comixup.lab.data import load, tiny_imagenet_boxes
from data_files import batches, write_cifar100, write_folder, write_tiny_imagenet


@pytest.fixture
def tiny(tmp_path):
    return write_tiny_imagenet(tmp_path, each=3, val=7)


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path)


def shorten(path, share=0.5):
    """Leaves the first part of a file, as a download that broke off does."""
    content = path.read_bytes()
    path.write_bytes(content[: round(share * len(content))])
    return path


def test_all_that_can_be_read_stays_in_order(recwarn):
    assert readable(["c", "a", "b"], lambda path: None, "letters") == [0, 1, 2]
    assert not recwarn.list


def test_what_cannot_be_read_is_counted_and_named():
    tried = [str(number) for number in range(9)]

    def problem_of(path):
        return f"{path} is odd." if int(path) % 2 else None

    with pytest.warns(UserWarning, match="4 of 9 images of numbers are left out") as caught:
        assert readable(tried, problem_of, "numbers") == [0, 2, 4, 6, 8]
    (warning,) = caught
    assert str(warning.message).endswith("left out. 1 is odd. 3 is odd. 5 is odd. 7 is odd.")


def test_of_many_only_some_are_named():
    with pytest.warns(UserWarning, match="8 of 9 images") as caught:
        assert readable([*"abcdefghi"], lambda path: f"{path}!" if path != "e" else None, "x") == [
            4
        ]
    assert str(caught[0].message).endswith("left out. a! b! c! d! f! And 3 more.")


@pytest.mark.filterwarnings("ignore:3 of 3 images")
def test_a_set_of_which_nothing_is_left_is_rejected():
    with pytest.raises(ValueError, match=r"none of the 3 images of pictures can be read\. a!"):
        readable([*"abc"], lambda path: f"{path}!", "pictures")


# ---- Tiny-ImageNet ------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["val/images/val_3.JPEG", "train/n01/images/n01_1.JPEG"])
def test_tiny_imagenet_rejects_a_damaged_image_by_name(tiny, place):
    path = shorten(tiny / place)
    with pytest.raises(ValueError, match=f"{path.name} cannot be read as an image"):
        load("tiny-imagenet", tiny)


def test_tiny_imagenet_leaves_out_damaged_images_of_both_splits(tiny):
    whole, boxes = load("tiny-imagenet", tiny), tiny_imagenet_boxes(tiny)
    shorten(tiny / "val/images/val_3.JPEG")
    (tiny / "train/n01/images/n01_1.JPEG").write_bytes(b"")
    with pytest.warns(UserWarning, match="are left out") as caught:
        data = load("tiny-imagenet", tiny, skip_bad=True)
    said = sorted(str(warning.message) for warning in caught)
    assert len(said) == 2
    assert said[0].startswith("1 of 7 images of Tiny-ImageNet, test are left out. ")
    assert "val_3.JPEG cannot be read" in said[0]
    assert said[1].startswith("1 of 9 images of Tiny-ImageNet, train are left out. ")
    assert "n01_1.JPEG cannot be read" in said[1]
    kept = torch.tensor([0, 1, 2, 4, 5, 6])
    torch.testing.assert_close(data.test.images, whole.test.images[kept])
    torch.testing.assert_close(data.test.targets, whole.test.targets[kept])
    rest = torch.tensor([0, 2, 3, 4, 5, 6, 7, 8])  # the classes are sorted, so n01 comes first
    torch.testing.assert_close(data.train.images, whole.train.images[rest])
    # The boxes are of the same images.
    with pytest.warns(UserWarning, match="1 of 7 images"):
        left = tiny_imagenet_boxes(tiny, skip_bad=True)
    torch.testing.assert_close(left, boxes[kept])


def test_tiny_imagenet_leaves_out_images_of_another_size(tiny):
    path = tiny / "val/images/val_0.JPEG"
    path.write_bytes((write_folder(tiny / "other") / "val/ant/00.jpg").read_bytes())
    with pytest.warns(UserWarning, match=r"val_0\.JPEG must be 64 x 64 pixels, got 40 x 52"):
        assert len(load("tiny-imagenet", tiny, skip_bad=True).test) == 6


def test_skipping_changes_nothing_where_all_is_well(tiny, recwarn):
    plain, skipping = (load("tiny-imagenet", tiny, skip_bad=skip) for skip in (False, True))
    for split in ("train", "test"):
        torch.testing.assert_close(getattr(skipping, split).images, getattr(plain, split).images)
    assert not recwarn.list


# ---- Folders ------------------------------------------------------------------------------------


def test_a_folder_s_damaged_image_stops_the_epoch_by_name(folder):
    path = shorten(folder / "val" / "bee" / "01.png")
    data = load("folder", folder)
    with pytest.raises(ValueError, match=f"{path.name} cannot be read as an image"):
        batches(data.test, 2, image_size=32)


def test_a_folder_s_damaged_test_images_are_left_out(folder):
    whole = load("folder", folder)
    paths = [shorten(folder / "val" / "bee" / "01.png"), shorten(folder / "val" / "ant" / "02.jpg")]
    with pytest.warns(UserWarning, match="2 of 6 images") as caught:
        data = load("folder", folder, skip_bad=True)
    assert all(str(path) in str(caught[0].message) for path in paths)
    kept = [0, 1, 3, 5]
    assert data.test.files.tolist() == whole.test.files[kept].tolist()
    assert data.test.targets.tolist() == [0, 0, 1, 1]
    shown = batches(data.test, 3, image_size=32)
    assert [len(images) for images, _ in shown] == [3, 1]


def test_a_folder_s_damaged_training_images_are_not_tried(folder, recwarn):
    path = shorten(folder / "train" / "ant" / "03.png")
    data = load("folder", folder, skip_bad=True)
    assert len(data.train) == 14
    assert not recwarn.list
    with pytest.raises(ValueError, match=f"{path.name} cannot be read as an image"):
        batches(data.train, 14, image_size=32)


def test_a_folder_without_a_good_image_is_rejected(folder):
    for path in (folder / "val").rglob("*.*g"):
        path.write_bytes(b"no picture")
    with (
        pytest.warns(UserWarning, match=r"And 1 more\."),
        pytest.raises(ValueError, match="none of the 6 images"),
    ):
        load("folder", folder, skip_bad=True)


def test_sets_without_a_file_for_each_image_cannot_skip(tmp_path):
    write_cifar100(tmp_path)
    with pytest.raises(ValueError, match="`skip_bad` must be False for 'cifar100', got True"):
        load("cifar100", tmp_path, skip_bad=True)
    with pytest.raises(ValueError, match="Only folder, imagenet, tiny-imagenet"):
        load("digits", skip_bad=True)
