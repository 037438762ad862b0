"""Cell numbers through Kornia's augmentation of batches, against images of coordinates.

Coordinates go through the plain augmentation by nearest neighbour, as images.
"""

import importlib

import numpy as np
import pytest
import torch

from comixup import Origin, SaliencyMemory
from comixup.adapters.kornia import followed
from coordinates import coordinates, expected_numbers

pytestmark = pytest.mark.slow  # importing the library takes seconds
SIZE, GRID, BATCH = (30, 26), (5, 4), 6
STEPS = {
    "RandomHorizontalFlip": {},
    "RandomVerticalFlip": {},
    "RandomAffine": {"degrees": 30.0, "translate": (0.2, 0.2), "scale": (0.7, 1.3), "p": 0.8},
    "RandomRotation": {"degrees": 40.0, "p": 0.8},
    "RandomPerspective": {"distortion_scale": 0.4, "p": 0.8},
    "RandomCrop": {"size": (24, 20), "padding": 3},
    "RandomResizedCrop": {"size": (24, 28)},
    "CenterCrop": {"size": (20, 20)},
    "RandomErasing": {"p": 0.7},
}
RESAMPLED = {"RandomAffine", "RandomRotation", "RandomPerspective", "RandomResizedCrop"}


@pytest.fixture(scope="module")
def library():
    return importlib.import_module("kornia.augmentation")


def steps_of(library, names):
    return [
        getattr(library, name)(
            **STEPS[name], **({"resample": "nearest"} if name in RESAMPLED else {})
        )
        for name in names
    ]


def batch():
    images = coordinates(SIZE, pil=False).float().expand(BATCH, 3, *SIZE)
    cells = SaliencyMemory(1, cells=GRID).cell_numbers(SIZE).expand(BATCH, *SIZE)
    return images.clone(), torch.arange(BATCH), Origin(torch.arange(BATCH), cells)


@pytest.mark.parametrize(
    "names",
    [*([name] for name in STEPS), ["RandomAffine", "RandomAffine", "RandomHorizontalFlip"]],
    ids="+".join,
)
def test_cell_numbers_follow_every_step(library, names):
    # Twice the same step: what the first one moved out, the second one does not bring back.
    moved_some = False
    for seed in range(5):
        torch.manual_seed(seed)
        plain = library.AugmentationSequential(*steps_of(library, names))
        shown = plain(batch()[0])
        torch.manual_seed(seed)
        augmentation = library.AugmentationSequential(*steps_of(library, names))
        images, targets, origin = followed(augmentation, *batch())
        assert torch.equal(images, shown)
        assert torch.equal(targets, batch()[1])
        for image, numbers in zip(shown, origin.cells, strict=True):
            # Coordinates come back from a sum of products, so they are rounded.
            expected = expected_numbers(image.round().long(), SIZE, GRID)
            np.testing.assert_array_equal(numbers.numpy(), expected.numpy())
        moved_some |= not torch.equal(images, batch()[0])
    assert moved_some


def test_colours_leave_cell_numbers_and_images_are_the_plain_ones(library):
    steps = [library.ColorJiggle(0.2, 0.2, 0.2, 0.1), library.RandomHorizontalFlip()]
    images, targets, origin = batch()
    torch.manual_seed(0)
    shown = library.AugmentationSequential(*steps)(images / 40)
    torch.manual_seed(0)
    ours, _, moved = followed(library.AugmentationSequential(*steps), images / 40, targets, origin)
    assert torch.equal(ours, shown)
    flipped = (moved.cells != origin.cells).flatten(1).any(1)
    assert 0 < flipped.sum() < BATCH
    assert torch.equal(moved.cells[flipped], origin.cells[flipped].flip(2))


def test_masks_that_are_interpolated_are_rejected(library):
    kornia = importlib.import_module("kornia.constants")
    augmentation = library.AugmentationSequential(
        library.RandomRotation(40.0, p=1.0),
        extra_args={kornia.DataKey.MASK: {"resample": kornia.Resample.BILINEAR}},
    )
    with pytest.raises(RuntimeError, match="`augmentation` must move masks by nearest neighbour"):
        followed(augmentation, *batch())


def test_an_origin_without_cell_numbers_is_rejected(library):
    augmentation = library.AugmentationSequential(library.RandomHorizontalFlip())
    images, targets, origin = batch()
    with pytest.raises(ValueError, match="`origin` must have cell numbers"):
        followed(augmentation, images, targets, Origin(origin.indices))
