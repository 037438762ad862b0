import os
import pickle
import shutil

import numpy as np
import pytest
import torch

from comixup.lab.data import load
from data_files import assert_same, batches, noise, python2_pickle, write_cifar10, write_cifar100


@pytest.fixture
def written(tmp_path):
    return write_cifar100(tmp_path)


@pytest.fixture
def folder(tmp_path, written):
    return tmp_path / "cifar-100-python"


def test_the_tests_files_are_what_python_2_wrote(folder, written):
    content = pickle.loads((folder / "train").read_bytes(), encoding="bytes")
    np.testing.assert_array_equal(content[b"data"], written["train"][0])
    assert content[b"fine_labels"] == written["train"][1]


def test_cifar100_is_read(tmp_path, written):
    data = load("cifar100", tmp_path)
    assert data.classes == ("thing 0", "thing 1", "thing 2", "thing 3")
    assert (data.name, data.shape, data.validation) == ("cifar100", (3, 32, 32), None)
    for split, name in ((data.train, "train"), (data.test, "test")):
        pixels, labels = written[name]
        images = torch.from_numpy(pixels).view(-1, 3, 32, 32)
        torch.testing.assert_close(split.images, images, rtol=0, atol=0)
        assert split.targets.tolist() == labels
        assert split.targets.dtype == torch.int64
    assert (data.train.pad, data.train.flip) == (2, True)
    assert data.mean == (129.3 / 255, 124.1 / 255, 112.4 / 255)
    assert data.std == (68.2 / 255, 65.4 / 255, 70.4 / 255)


def test_cifar10_is_read_from_all_five_files(tmp_path):
    written = write_cifar10(tmp_path)
    data = load("cifar10", tmp_path)
    pixels = np.concatenate([written[f"data_batch_{i}"][0] for i in range(1, 6)])
    torch.testing.assert_close(data.train.images.flatten(1), torch.from_numpy(pixels))
    torch.testing.assert_close(
        data.test.images.flatten(1), torch.from_numpy(written["test_batch"][0])
    )
    assert data.train.targets[6:12].tolist() == written["data_batch_2"][1]
    assert data.classes == ("kind 0", "kind 1", "kind 2")


def test_the_root_may_be_the_folder_itself(folder):
    assert len(load("cifar100", folder).test) == 20


def with_labels(count=4, labels=None, data=None):
    data = noise(count, 3072) if data is None else data
    labels = [0] * count if labels is None else labels
    return python2_pickle({b"data": data, b"fine_labels": labels})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is truncated"),
        (b"no pickle at all", "instruction b'n', which is not of plain data"),
        (with_labels()[:5000], "truncated"),
        (python2_pickle([1, 2]), "it holds a list instead of a dict"),
        (python2_pickle({b"data": noise(4, 3072)}), "it has no 'data' and 'fine_labels'"),
        (with_labels(data=[1, 2]), "it has no 'data' and 'fine_labels'"),
        (with_labels(labels=[0, 1]), "it has 4 images and 2 labels"),
        (with_labels(labels=[0, 1, 2, 4]), "it has labels outside of the 4 classes"),
        (with_labels(labels=[0, 1, 2, -1]), "it has labels outside of the 4 classes"),
        (with_labels(labels=[0, 1, 2, b"3"]), "it has labels outside of the 4 classes"),
        (with_labels(data=noise(4, 100)), r"its images have shape \(4, 100\)"),
        (with_labels(0), "its images have shape"),
        (with_labels().replace(b"U\x02u1", b"U\x02f8"), "where one of bytes belongs"),
        (
            with_labels().replace(b"J\x00\x0c\x00\x00", b"J\x00\x0d\x00\x00"),
            "whose shape is not theirs",
        ),
    ],
)
def test_damaged_files_are_named(tmp_path, folder, content, message):
    (folder / "test").write_bytes(content)
    with pytest.raises(ValueError, match=rf"cifar-100-python.test is damaged .*{message}"):
        load("cifar100", tmp_path)


def test_damaged_names_are_named(tmp_path, folder):
    (folder / "meta").write_bytes(python2_pickle({b"fine_label_names": [1, 2]}))
    with pytest.raises(ValueError, match=r"meta is damaged .* it has no list 'fine_label_names'"):
        load("cifar100", tmp_path)


def test_a_missing_file_is_named(tmp_path, folder):
    (folder / "test").unlink()
    with pytest.raises(FileNotFoundError, match="cifar-100-python is not whole: test missing"):
        load("cifar100", tmp_path)


def test_a_missing_folder_is_looked_for_aloud(tmp_path):
    expected = (
        rf"cifar10 was not found. Looked in: .*cifar-10-batches-py, {tmp_path}.* COMIXUP_DATA"
    )
    with pytest.raises(FileNotFoundError, match=expected):
        load("cifar10", tmp_path)


def test_a_changed_file_of_official_length_is_noticed(tmp_path):
    write_cifar100(tmp_path, test=10_000)
    with pytest.warns(UserWarning, match="test is not the official file of CIFAR100"):
        load("cifar100", tmp_path)


def test_what_is_there_is_not_fetched_again(tmp_path, written):
    # There is no network to be asked, and none is.
    assert len(load("cifar100", tmp_path, download=True).train) == 40


@pytest.mark.data
def test_the_official_files():
    data = load("cifar100")  # would warn of any other
    assert (len(data.train), len(data.test), data.num_classes) == (50_000, 10_000, 100)
    assert data.train.targets.bincount().tolist() == [500] * 100
    assert data.test.targets.bincount().tolist() == [100] * 100
    assert (data.classes[0], data.classes[99]) == ("apple", "worm")
    pixels = data.train.images[:5000].float() / 255
    torch.testing.assert_close(pixels.mean((0, 2, 3)), torch.tensor(data.mean), rtol=0, atol=0.01)
    torch.testing.assert_close(pixels.std((0, 2, 3)), torch.tensor(data.std), rtol=0, atol=0.01)
    whole = batches(data.test, 1000)
    assert_same(batches(data.test, 1000, first_step=7), whole[7:])


@pytest.mark.data
def test_a_cut_official_file_is_noticed(tmp_path):
    folder = tmp_path / "cifar-100-python"
    shutil.copytree(os.path.join(os.environ["COMIXUP_DATA"], "cifar-100-python"), folder)
    with (folder / "train").open("rb+") as file:
        file.truncate(10**8)
    with pytest.raises(ValueError, match=r"train is damaged .* truncated"):
        load("cifar100", tmp_path)
