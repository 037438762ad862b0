"""Cell numbers through Albumentations' pipelines, against images of coordinates in the plain ones.

A pipeline of Albumentations has generators of its own, so the plain one is a second one of the same
seed.
"""

import importlib

import numpy as np
import pytest
import torch
from skimage import data as photographs

from comixup import SaliencyMemory
from comixup.adapters import albumentations as adapter
from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import WithOrigins, tracked
from coordinates import coordinates, expected_numbers

pytestmark = pytest.mark.slow  # importing the library takes seconds
NEAREST = {"interpolation": 0}  # cv2.INTER_NEAREST


@pytest.fixture(scope="module")
def library():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")  # it asks a server for newer versions
        return importlib.import_module("albumentations")


MOVES = {
    "RandomCrop": {"height": 20, "width": 18},
    "CenterCrop": {"height": 33, "width": 21, "pad_if_needed": True},
    "RandomResizedCrop": {"size": (24, 28), **NEAREST},
    "Resize": {"height": 19, "width": 31, **NEAREST},
    "SmallestMaxSize": {"max_size": 20, **NEAREST},
    "HorizontalFlip": {"p": 0.5},
    "D4": {"p": 1},
    "Transpose": {"p": 0.5},
    "PadIfNeeded": {"min_height": 40, "min_width": 40, "border_mode": 4},
    "Affine": {"rotate": 30, "scale": (0.7, 1.3), "translate_percent": 0.2, "shear": 10, **NEAREST},
    "Rotate": {"limit": 60, **NEAREST},
    "Perspective": {"scale": (0.05, 0.2), **NEAREST},
    "ElasticTransform": {"alpha": 30, "sigma": 4, **NEAREST},
    "GridDistortion": {**NEAREST},
    "OpticalDistortion": {**NEAREST},
    "ThinPlateSpline": {**NEAREST},
    "RandomGridShuffle": {"grid": (3, 3)},
    "CoarseDropout": {"fill": 0, "fill_mask": 0, "p": 1},
    "Erasing": {"fill": 0, "fill_mask": 0, "p": 1},
}


@pytest.mark.parametrize("name", MOVES)
def test_cell_numbers_follow_every_transform(library, name):
    size, grid = (30, 26), (4, 5)
    image = np.array(coordinates(size, pil=True))
    kind = getattr(library, name)
    for seed in range(8):
        shown = library.Compose([kind(**MOVES[name])], seed=seed)(image=image)["image"]
        follow = tracked(library.Compose([kind(**MOVES[name])], seed=seed))
        moved, numbers = follow(image, CellNumbers.of(size, grid))
        np.testing.assert_array_equal(moved, shown)
        expected = expected_numbers(torch.from_numpy(shown).permute(2, 0, 1), size, grid)
        np.testing.assert_array_equal(numbers.tensor().numpy(), expected.numpy())


def pipeline(library, seed):
    return library.Compose(
        [
            library.RandomResizedCrop((48, 48)),
            library.OneOf([library.HorizontalFlip(), library.Rotate(20)], p=0.7),
            library.SomeOf([library.ColorJitter(), library.GaussNoise(), library.CLAHE()], n=2),
            library.CoarseDropout(fill_mask=0),
            library.PixelDropout(),
            library.Normalize(),
            library.ToTensorV2(),
        ],
        seed=seed,
    )


def test_photographs_are_those_of_the_plain_pipeline(library):
    pictures = [(photographs.astronaut()[::4, ::4], 0), (photographs.coffee()[::4, ::4], 1)]
    dataset = WithOrigins(pictures, SaliencyMemory(2), pipeline(library, seed=3))
    plain = pipeline(library, seed=3)
    for index in (0, 1, 1, 0, 1):
        image, target, origin = dataset[index]
        assert torch.equal(image, plain(image=pictures[index][0])["image"])
        assert (target, int(origin.indices)) == (index, index)
        assert origin.cells.shape == image.shape[1:] == (48, 48)
        assert len(origin.cells.unique()) > 5


def test_what_masks_do_not_follow_is_rejected_by_name(library):
    def check(transform, message):
        with pytest.raises(ValueError, match=f"`transform` must .*{message}"):
            tracked(library.Compose([library.OneOf([transform])]))

    check(library.CoarseDropout(), r"got CoarseDropout with fill_mask=None.*fill_mask=0\)")
    check(library.PixelDropout(mask_drop_value=0), "got PixelDropout with mask_drop_value=0")
    check(library.Rotate(fill_mask=7), r"got Rotate with fill_mask=7")
    check(
        library.Resize(8, 8, mask_interpolation=1),
        r"nearest neighbour, got Resize with mask_interpolation=1",
    )
    check(library.Morphological(), "got Morphological: it dilates")
    check(library.CropNonEmptyMaskIfExists(8, 8), "chooses a crop by the mask")
    check(library.Lambda(image=np.fliplr, name="flip"), "got Lambda: what it does to a mask")


def test_names_of_albumentations_that_the_adapter_uses(library):
    # If an update of Albumentations breaks the package, this fails first: adapt the adapter.
    assert library.__version__.startswith("2.0.")
    for module, steps in adapter.STEPS.items():
        for name in steps:
            assert hasattr(importlib.import_module(module), name)
    assert all(hasattr(library, name) for name in adapter._REASONS)
    cv2 = importlib.import_module("cv2")
    assert (cv2.INTER_NEAREST, cv2.INTER_NEAREST_EXACT) == adapter._NEAREST
