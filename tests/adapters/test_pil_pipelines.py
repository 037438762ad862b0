"""Cell numbers through pipelines that draw from Python's, NumPy's and torch's generators.

torchvision's first transforms and timm's. The independent computation is that of test_origins.py:
an image of coordinates goes through the plain transform.
"""

import pickle
import random

import numpy as np
import pytest
import timm
import torch
import torchvision
import torchvision.transforms as v1
from PIL import Image, ImageEnhance, ImageOps
from skimage import data as photographs
from timm.data import create_transform
from timm.data import transforms as of_timm
from timm.data.auto_augment import NAME_TO_OP, AugmentOp, rand_augment_ops
from timm.data.random_erasing import RandomErasing

from comixup import SaliencyMemory
from comixup.adapters import _replayed
from comixup.adapters import timm as adapter
from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import WithOrigins, tracked
from coordinates import coordinates, expected_numbers

NEAREST = v1.InterpolationMode.NEAREST
RRC = of_timm.RandomResizedCropAndInterpolation


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


def next_draws():
    """Returns what all generators draw next."""
    return random.random(), np.random.rand(), float(torch.rand(()))  # noqa: NPY002


def shown_by(transform, image, seed):
    """Returns what a plain transform makes of an image, and the draws after it."""
    seed_all(seed)
    shown = transform(image)
    return shown, next_draws()


def assert_follows(transform, size, grid, pil, seed):
    image = coordinates(size, pil)
    shown, after = shown_by(transform, image, seed)
    seed_all(seed)
    moved, numbers = tracked(transform)(image, CellNumbers.of(size, grid))
    assert next_draws() == after
    np.testing.assert_array_equal(np.asarray(moved), np.asarray(shown))
    expected = expected_numbers(shown, size, grid)
    np.testing.assert_array_equal(numbers.tensor().numpy(), expected.numpy())


FIRST_MOVES = [
    v1.RandomCrop(24, padding=4, pad_if_needed=True),
    v1.RandomCrop(28, padding=3, padding_mode="reflect", pad_if_needed=True),
    v1.Pad([1, 2, 3, 4], padding_mode="edge"),
    v1.CenterCrop([33, 21]),
    v1.RandomHorizontalFlip(),
    v1.RandomVerticalFlip(),
    v1.Resize([19, 31], interpolation=NEAREST),
    v1.Resize(18, max_size=21, interpolation=NEAREST),
    v1.RandomResizedCrop(26, interpolation=NEAREST),
    v1.RandomRotation(40, expand=True),
    v1.RandomAffine(30, (0.2, 0.2), (0.6, 1.4), 10),
    v1.RandomPerspective(0.5, p=0.8, interpolation=NEAREST),
    v1.ElasticTransform(40.0, sigma=1.5, interpolation=NEAREST),
    v1.TrivialAugmentWide(),
    v1.RandAugment(3, magnitude=20),
    v1.AutoAugment(v1.AutoAugmentPolicy.CIFAR10),
    v1.RandomApply([v1.RandomHorizontalFlip(p=1), v1.RandomRotation(10)], p=0.5),
    v1.RandomApply(torch.nn.ModuleList([v1.RandomVerticalFlip(p=1)]), p=0.5),
    v1.RandomChoice([v1.CenterCrop(20), v1.RandomRotation(20), v1.RandAugment()]),
    v1.RandomOrder([v1.RandomHorizontalFlip(), v1.RandomAffine(20), v1.Pad(2)]),
]
TIMM_MOVES = [
    RRC(24, interpolation="nearest"),
    of_timm.CenterCropOrPad((33, 21)),
    of_timm.RandomCropOrPad((33, 21), padding_mode="reflect"),
    of_timm.RandomPad((40, 40)),
    of_timm.ResizeKeepRatio(24, interpolation="nearest", random_scale_prob=0.5),
    of_timm.TrimBorder(3),
]


@pytest.fixture
def without_colours(monkeypatch):
    """Lets operations on colours change nothing, in torchvision and in Pillow."""
    for name in (
        *("adjust_brightness", "adjust_saturation", "adjust_contrast", "adjust_sharpness"),
        *("posterize", "solarize", "autocontrast", "equalize", "invert"),
    ):
        monkeypatch.setattr(v1.functional, name, lambda image, *args, **kwargs: image)
    for name in ("autocontrast", "equalize", "invert", "posterize", "solarize"):
        monkeypatch.setattr(ImageOps, name, lambda image, *args: image)
    for name in ("Brightness", "Color", "Contrast", "Sharpness"):
        monkeypatch.setattr(getattr(ImageEnhance, name), "enhance", lambda self, _: self.image)


@pytest.mark.usefixtures("without_colours")
@pytest.mark.parametrize("pil", [False, True])
@pytest.mark.parametrize("transform", [*FIRST_MOVES, *TIMM_MOVES], ids=lambda t: type(t).__name__)
def test_cell_numbers_follow_every_step(transform, pil):
    for seed in range(3):
        assert_follows(transform, (30, 26), (4, 5), pil, seed)


@pytest.fixture
def magnitude_below_ten(monkeypatch):
    """Keeps timm's operations below magnitude 10, where Pillow 13 rejects its posterize."""
    original = AugmentOp.__init__

    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self.magnitude_max = 9.9

    monkeypatch.setattr(AugmentOp, "__init__", init)


@pytest.mark.usefixtures("magnitude_below_ten")
@pytest.mark.parametrize(
    "settings",
    [
        {"auto_augment": "rand-m9-mstd0.5-inc1"},
        {"auto_augment": "rand-m9-n3-p1-tweights"},
        {"auto_augment": "original-mstd0.5"},
        {"auto_augment": "v0r"},
        {"auto_augment": "3a"},
        {"train_crop_mode": "rkrr", "auto_augment": "rand-m7-inc1"},
        {"train_crop_mode": "rkrc", "vflip": 0.5},
    ],
    ids=str,
)
def test_cell_numbers_follow_timms_pipeline(settings, monkeypatch):
    # Colours would change the coordinates: their steps draw, and then leave the image as it is.
    settings = {"interpolation": "nearest", "is_training": True, "use_prefetcher": True} | settings
    size = (40, 34)
    for name in set(NAME_TO_OP) - adapter._MOVING_OPERATIONS:
        monkeypatch.setitem(NAME_TO_OP, name, _draws_and_changes_nothing(NAME_TO_OP[name]))
    monkeypatch.setattr(v1.ColorJitter, "forward", lambda self, image: image)
    transform = create_transform((26, 30), **settings)
    for seed in range(8):
        image = coordinates(size, pil=True)
        for step in transform.transforms:  # timm fills with the mean colour: a coordinate
            for operation in _operations(step):
                operation.kwargs["fillcolor"] = (0, 0, 0)
        shown, after = shown_by(transform, image, seed)
        seed_all(seed)
        moved, numbers = tracked(transform)(image, CellNumbers.of(size, (8, 8)))
        assert next_draws() == after
        assert torch.equal(moved, shown)
        assert torch.equal(numbers.tensor(), expected_numbers(shown, size, (8, 8)).byte())


def _draws_and_changes_nothing(operation):
    def unchanged(image, *args, **kwargs):
        operation(image, *args, **kwargs)
        return image

    return unchanged


def _operations(step):
    yield from getattr(step, "ops", ())
    for policy in getattr(step, "policy", ()):
        yield from policy


def pictures():
    """Photographs, small."""
    shown = (photographs.astronaut(), photographs.coffee(), photographs.chelsea())
    return [(Image.fromarray(photo[::6, ::6]), k) for k, photo in enumerate(shown)]


@pytest.mark.usefixtures("magnitude_below_ten")
@pytest.mark.parametrize("auto_augment", ["rand-m9-mstd0.5-inc1", "3a", "original", None])
@pytest.mark.parametrize("re_mode", ["const", "pixel"])
def test_photographs_are_those_of_timms_plain_pipeline(auto_augment, re_mode):
    # Interpolation is drawn at random for every image and operation, as timm's scripts do.
    transform = create_transform(
        48,
        is_training=True,
        auto_augment=auto_augment,
        interpolation="random",
        re_prob=0.5,
        re_mode=re_mode,
        re_count=2,
    )
    dataset = WithOrigins(pictures(), SaliencyMemory(3), transform)
    for seed in range(2):
        for index, (picture, _) in enumerate(pictures()):
            shown, after = shown_by(transform, picture, seed)
            seed_all(seed)
            image, target, origin = dataset[index]
            assert next_draws() == after
            assert torch.equal(image, shown)
            assert (target, int(origin.indices)) == (index, index)
            assert origin.cells.shape == (48, 48)
            if re_mode == "const":
                erased = (image == 0).all(0)
                assert not origin.cells[erased].any()


@pytest.mark.parametrize(
    "erase",
    [
        v1.RandomErasing(0.7),
        v1.RandomErasing(0.7, value="random"),
        v1.RandomErasing(0.7, value=(1.0, 2.0, 3.0), inplace=True),
        RandomErasing(0.7, mode="pixel", max_count=3, device="cpu"),
        RandomErasing(0.7, mode="rand", device="cpu"),
    ],
)
def test_erased_pixels_count_for_no_cell(erase):
    some = 0
    for seed in range(12):
        unseen, after = shown_by(erase, torch.full((3, 30, 26), -9.0), seed)
        seed_all(seed)
        image, numbers = tracked(erase)(
            torch.full((3, 30, 26), -9.0), CellNumbers.of((30, 26), 2 * [4])
        )
        assert next_draws() == after
        assert torch.equal(image, unseen)
        assert torch.equal(numbers.tensor() == 0, image[0] != -9)
        some += int((image != -9).any())
    assert 4 < some < 12


def test_the_callers_transforms_stay_as_they_are_and_can_be_pickled():
    transform = create_transform(24, is_training=True, auto_augment="rand-m5-inc1", re_prob=0.2)
    before = repr(transform), repr(vars(transform.transforms[2].ops[3]))
    dataset = WithOrigins(pictures(), SaliencyMemory(3), transform)
    dataset = pickle.loads(pickle.dumps(dataset))
    dataset[0]
    assert (repr(transform), repr(vars(transform.transforms[2].ops[3]))) == before


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (create_transform(24, is_training=True, auto_augment="augmix-m5-w4-d2"), "got AugMixAug"),
        (create_transform(24, is_training=True, naflex=True, patchify=True), "NaFlex"),
        (v1.FiveCrop(8), "got FiveCrop"),
        (v1.LinearTransformation(torch.eye(12), torch.zeros(12)), "got LinearTransformation"),
    ],
)
def test_what_cannot_be_followed_is_rejected_by_name(transform, message):
    with pytest.raises(ValueError, match=f"`transform` must be one that .*{message}"):
        WithOrigins(pictures(), SaliencyMemory(3), transform)


# ---- Names of the libraries ----------------------------------------------------------------------


def test_names_of_timm_that_the_adapter_uses():
    # If an update of timm breaks the package, this fails first: adapt comixup/adapters/timm.py.
    assert timm.__version__.startswith("1.0.")
    for module, steps in adapter.STEPS.items():
        for name in steps:
            assert hasattr(__import__(module, fromlist=[name]), name)
    assert set(NAME_TO_OP) == adapter._MOVING_OPERATIONS | adapter._COLOUR_OPERATIONS
    (operation,) = rand_augment_ops(hparams={"img_mean": (1, 2, 3)}, transforms=["ShearX"])
    assert operation.kwargs["fillcolor"] == (1, 2, 3)
    assert isinstance(operation.kwargs["resample"], tuple)
    assert operation.name == "ShearX"


def test_names_of_torchvision_that_the_adapter_uses(monkeypatch):
    # If an update of torchvision breaks the package, this fails first: adapt _replayed.py.
    for module, steps in _replayed.TORCHVISION.items():
        for name in steps:
            assert hasattr(__import__(module, fromlist=[name]), name)
    monkeypatch.delattr(torchvision.transforms.autoaugment, "_apply_op")
    with pytest.raises(TypeError, match=r"has no _apply_op\. Use torchvision.transforms.v2.RandAu"):
        tracked(v1.RandAugment())
