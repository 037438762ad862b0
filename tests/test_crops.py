"""The crop that evaluation shows is torchvision's, and boxes are where its pixels are."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from comixup.lab._pictures import CenterView
from comixup.lab._preprocess import CenterCrop


@pytest.mark.parametrize("size", [(100, 60), (61, 97), (300, 300), (20, 20), (160, 10), (7, 110)])
@pytest.mark.parametrize("side", [56, 33])
def test_the_pixels_are_those_of_torchvision(size, side):
    width, height = size
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    image = Image.fromarray(pixels)
    resize = v2.Resize(round(side * 256 / 224), antialias=True)
    expected = v2.Compose([resize, v2.CenterCrop(side), v2.PILToTensor()])(image)
    torch.testing.assert_close(CenterView(side)(image), expected, rtol=0, atol=0)


@pytest.mark.parametrize("size", [(100, 60), (61, 97), (300, 300), (2001, 60), (61, 1800)])
def test_what_the_model_sees_is_where_the_box_is(size):
    width, height = size
    x, y = max(0, width // 2 - 50), max(0, height // 2 - 50)
    for x0, y0, x1, y1 in ((10, 5, 60, 40), (30, 20, 50, 57), (0, 0, 61, 60)):
        box = x0 + x, y0 + y, min(x1 + x, width), min(y1 + y, height)
        pixels = np.zeros((height, width, 3), np.uint8)
        pixels[box[1] : box[3], box[0] : box[2]] = 255
        seen = CenterView(56)(Image.fromarray(pixels))[0] > 127
        rows, columns = seen.any(1).nonzero()[:, 0], seen.any(0).nonzero()[:, 0]
        expected = (columns[0], rows[0], columns[-1] + 1, rows[-1] + 1)
        found = CenterCrop.of(size, 56).box(box)
        assert max(abs(int(a) - b) for a, b in zip(expected, found, strict=True)) <= 1


@pytest.mark.parametrize("size", [(100, 60), (3000, 60), (60, 3000)])
def test_a_box_that_the_crop_does_not_show_is_none(size):
    crop = CenterCrop.of(size, 56)
    assert crop.box((0, 0, 3, 3)) is None
    assert crop.box((size[0] - 3, size[1] - 3, *size)) is None
    assert crop.box((0, 0, *size)) == (0, 0, 56, 56)


def test_a_whole_image_keeps_its_boxes():
    crop = CenterCrop.of((40, 30), None)
    assert crop.box((1, 2, 3, 4)) == (1, 2, 3, 4)
    assert crop.box((5, 5, 5.2, 5.2)) == (5, 5, 6, 6)  # no box is lost by rounding
    assert crop.box((39.6, 0, 40, 30)) is None  # but those beyond the last column
