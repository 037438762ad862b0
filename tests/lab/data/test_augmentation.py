"""Augmented batches whose cell numbers tell where every pixel comes from, in memory and on disk."""

import dataclasses

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from comixup import SaliencyMemory
from comixup.lab._augmentation import AUGMENTATIONS
from comixup.lab.data import load
from comixup.lab.data._in_memory import MemorySplit
from data_files import memory_split

COUNT, SIDE, CELLS = 12, 32, 4
COLOUR_FUNCTIONS = (
    *("adjust_brightness", "adjust_saturation", "adjust_contrast", "adjust_sharpness"),
    *("posterize", "solarize", "autocontrast", "equalize", "invert"),
)


@pytest.fixture
def without_colours(monkeypatch):
    """Lets operations on colours be drawn, but change nothing: colours are coordinates here."""
    for name in COLOUR_FUNCTIONS:
        monkeypatch.setattr(v2.functional, name, lambda image, *args, **kwargs: image)


def coordinates(height, width):
    """Returns an image whose first two channels are a pixel's row and column, from 1."""
    rows, columns = np.meshgrid(np.arange(1, height + 1), np.arange(1, width + 1), indexing="ij")
    return np.stack([rows, columns, 0 * rows], -1).astype(np.uint8)


def cells_shown(rows, columns, height, width):
    """Returns the cells that pixels of these coordinates lie in; 0 where they show nothing."""
    cell = (rows.long() - 1) * CELLS // height * CELLS + (columns.long() - 1) * CELLS // width
    return torch.where((rows >= 1) & (columns >= 1), cell + 1, 0)


@pytest.mark.usefixtures("without_colours")
@pytest.mark.parametrize("augment", AUGMENTATIONS)
def test_cells_are_those_that_images_in_memory_show(augment):
    images = torch.from_numpy(coordinates(SIDE, SIDE)).permute(2, 0, 1).repeat(COUNT, 1, 1, 1)
    split = MemorySplit(images, torch.zeros(COUNT).long(), (0.0,) * 3, (1.0,) * 3, pad=4, flip=True)
    loader = split.loader(5, augment=augment, seed=3)
    memory = SaliencyMemory(COUNT, cells=CELLS)
    for epoch in range(4):
        plain = list(loader.epoch(epoch))
        tracked = list(loader.epoch_with_origins(epoch, memory))
        for (images, targets, origin), (alone, _) in zip(tracked, plain, strict=True):
            torch.testing.assert_close(images, alone, rtol=0, atol=0)
            rows, columns, _ = (images * 255).round().unbind(1)
            assert torch.equal(origin.cells.long(), cells_shown(rows, columns, SIDE, SIDE))
            assert len(targets) == len(origin.indices)


@pytest.mark.usefixtures("without_colours")
@pytest.mark.parametrize("augment", AUGMENTATIONS)
def test_cells_are_those_that_images_on_disk_show(augment, tmp_path):
    for name in ("train/a", "train/b", "test/a", "test/b"):
        (tmp_path / name).mkdir(parents=True)
        for k in range(3):
            Image.fromarray(coordinates(100, 80)).save(tmp_path / name / f"{k}.png")
    data = load("folder", tmp_path)
    loader = data.train.loader(3, augment=augment, seed=1, image_size=SIDE, min_scale=0.3)
    memory = SaliencyMemory(len(data.train), cells=CELLS)
    compared = 0
    for epoch in range(4):
        for images, _, origin in loader.epoch_with_origins(epoch, memory):
            rows, columns, _ = (data.pixels(images) * 255).unbind(1)
            # Pixels are averaged where images are resized: not at the borders of what is shown,
            # where black is averaged in, and not at those of cells.
            inside = torch.nn.functional.avg_pool2d((rows > 0).float(), 5, 1, 2) == 1
            for place, step in ((rows - 0.5, 25), (columns - 0.5, 20)):
                inside &= (place % step - step / 2).abs() < step / 2 - 3
            expected = cells_shown(rows.round(), columns.round(), 100, 80)
            assert torch.equal(origin.cells.long()[inside], expected[inside])
            compared += int(inside.sum())
    assert compared > 2000


def test_operations_change_images_and_leave_the_global_generator_alone():
    split = memory_split()
    torch.manual_seed(0)
    state = torch.get_rng_state()
    shown = {
        augment: torch.cat([images for images, _ in split.loader(8, augment=augment).epoch(0)])
        for augment in AUGMENTATIONS
    }
    assert torch.equal(torch.get_rng_state(), state)
    for augment in ("trivial", "rand", "auto", "none"):
        assert (shown[augment] != shown["crop-flip"]).any()
    torch.manual_seed(1)
    again = torch.cat([images for images, _ in split.loader(8, augment="rand").epoch(0)])
    assert torch.equal(again, shown["rand"])


def test_what_cannot_be_augmented_is_rejected():
    with pytest.raises(ValueError, match=r"`augment` must be .*, got 'flip'"):
        memory_split().loader(8, augment="flip")
    floats = dataclasses.replace(memory_split(), images=torch.rand(23, 3, 6, 6))
    with pytest.raises(
        ValueError, match='`augment` must be "crop-flip" or "none" for spectrograms'
    ):
        floats.loader(8, augment="trivial")
