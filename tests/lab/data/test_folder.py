import pytest
from torchvision.datasets import ImageFolder

from comixup.lab.data import load
from data_files import smooth_picture, write_folder


@pytest.fixture
def root(tmp_path):
    return write_folder(tmp_path)


def test_the_same_images_and_classes_as_torchvisions(root):
    deeper = root / "train" / "ant" / "more" / "and more"
    deeper.mkdir(parents=True)
    smooth_picture(30, 30, seed=5).save(deeper / "a.PNG")
    data = load("folder", root)
    for split, name in ((data.train, "train"), (data.test, "val")):
        theirs = ImageFolder(root / name)
        assert [path.decode() for path in split.files] == [path for path, _ in theirs.samples]
        assert split.targets.tolist() == theirs.targets
        assert list(data.classes) == theirs.classes
    assert len(data.train) == 15


def test_imagenet_is_found_in_its_folder_or_as_the_root(tmp_path):
    root = write_folder(tmp_path / "imagenet", classes=("n01", "n02"))
    assert load("imagenet", tmp_path).classes == ("n01", "n02")
    assert load("imagenet", root).name == "imagenet"


def test_test_may_lack_a_class_and_keeps_the_others_numbers(root):
    for path in (root / "val" / "ant").iterdir():
        path.unlink()
    (root / "val" / "ant").rmdir()
    assert load("folder", root).test.targets.tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["folder", "imagenet"])
def test_missing_folders_are_looked_for_aloud(tmp_path, name):
    with pytest.raises(
        FileNotFoundError, match=f"not found. Looked in: .*{tmp_path}.*COMIXUP_DATA"
    ):
        load(name, tmp_path)
