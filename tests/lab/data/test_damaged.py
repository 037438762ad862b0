"""Images that cannot be read: rejected by name, or left out, counted and named on request."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from comixup.lab.data import load
from data_files import batches, write_folder, write_tiny_imagenet


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


# ---- Tiny-ImageNet ------------------------------------------------------------------------------


def test_tiny_imagenet_leaves_out_damaged_images_of_both_splits(tiny):
    whole = load("tiny-imagenet", tiny)
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
    torch.testing.assert_close(data.test_boxes, whole.test_boxes[kept])


# ---- Folders ------------------------------------------------------------------------------------


def test_a_folder_s_damaged_images_are_left_out_of_every_part(folder):
    whole = load("folder", folder)
    bad = [shorten(folder / f"val/{name}") for name in ("ant/02.jpg", "bee/01.png")]
    bad += [shorten(folder / "train/ant/03.png")]
    with pytest.warns(UserWarning, match=r"3 of 20 images of .* are left out") as caught:
        data = load("folder", folder, skip_bad=True)
    assert all(str(path) in str(caught[0].message) for path in bad)
    assert len(data.left_out) == 3
    kept = [0, 1, 3, 5]
    assert data.test.files.tolist() == whole.test.files[kept].tolist()
    assert data.test.targets.tolist() == [0, 0, 1, 1]
    assert len(data.train) == len(whole.train) - 1
    shown = batches(data.test, 3, image_size=32)
    assert [len(images) for images, _ in shown] == [3, 1]


def test_files_are_read_once_and_again_when_they_change(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("COMIXUP_CACHE", str(tmp_path / "cache"))
    read, looked_at = Path.read_bytes, []

    def counted(path):
        looked_at.append(path.name)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    digest = load("folder", folder).digest()
    assert len(looked_at) == 20
    assert load("folder", folder).digest() == digest
    assert len(looked_at) == 20
    changed = folder / "train/ant/03.png"
    Image.new("RGB", (9, 9), "red").save(changed)
    assert load("folder", folder).digest() != digest
    assert looked_at[20:] == ["03.png"]
    shorten(changed)  # what was good once is looked at again
    with pytest.raises(ValueError, match=r"1 of 20 images"):
        load("folder", folder)
