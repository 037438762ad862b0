from dataclasses import replace

import pytest
import torch

from comixup.lab._preprocess import normalize
from comixup.lab.data import DataSet, load
from data_files import MEAN, STD, memory_split


def data_set(mean=MEAN, std=STD):
    split = memory_split()
    classes = tuple("abcde")
    return DataSet("some", classes, (3, 6, 6), mean, std, train=split, test=split)


def test_pixels_undo_normalization():
    data = data_set()
    images = next(data.test.loader(23).epoch(0))[0]
    before = images.clone()
    pixels = data.pixels(images)
    torch.testing.assert_close(pixels, data.test.images / 255)
    assert pixels.min() >= 0
    assert pixels.max() <= 1
    torch.testing.assert_close(images, before, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_floats_are_not_divided_by_255(dtype):
    images = torch.full((1, 1, 2, 2), 3.0, dtype=dtype)
    torch.testing.assert_close(normalize(images, (1.0,), (4.0,)), torch.full((1, 1, 2, 2), 0.5))


def test_classes_without_images_are_named():
    data = load("digits", images_per_class=1)
    assert data.missing_note is None
    few = replace(data, test=data.test.subset((data.test.targets < 9).nonzero()[:, 0]))
    assert few.missing_note.startswith("Classes of digits without images: '9' in test.")
    fewer = replace(data, test=data.test.subset((data.test.targets < 2).nonzero()[:, 0]))
    assert "'6' and 3 more in test" in fewer.missing_note
