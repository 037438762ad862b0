"""Data sets that carry their cells' numbers through torchvision's transforms.

The independent computation: an image whose colours are the coordinates of its pixels goes through
the plain transform, without any of our code. What it shows in the end is where a pixel comes from.
"""

from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
import torchvision
import torchvision.transforms as v1
from hypothesis import given, settings
from PIL import Image
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torchvision.datasets import FakeData
from torchvision.transforms import v2

from comixup import CoMixup, OnePass, SaliencyMemory
from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import WithOrigins, tracked
from coordinates import coordinates, expected_numbers

EXAMPLES = 5
NEAREST = v2.InterpolationMode.NEAREST
EXACT = v2.InterpolationMode.NEAREST_EXACT
COLOUR_FUNCTIONS = (
    *("adjust_brightness", "adjust_saturation", "adjust_contrast", "adjust_sharpness"),
    *("posterize", "solarize", "autocontrast", "equalize", "invert"),
)
MOVES = [
    v2.RandomCrop(24, padding=4, pad_if_needed=True),
    v2.RandomCrop(28, padding=3, padding_mode="reflect", pad_if_needed=True),
    v2.Pad([1, 2, 3, 4], padding_mode="edge"),
    v2.Pad(2, padding_mode="symmetric"),
    v2.CenterCrop(20),
    v2.CenterCrop([33, 21]),
    v2.RandomHorizontalFlip(),
    v2.RandomVerticalFlip(),
    v2.Resize(20, interpolation=EXACT),
    v2.Resize([19, 31], interpolation=NEAREST),
    v2.Resize(18, max_size=21, interpolation=NEAREST),
    v2.Resize([19, 31], interpolation=0),
    v2.RandomResizedCrop(20, interpolation=0),
    v2.RandomResizedCrop(20, interpolation=EXACT),
    v2.RandomResizedCrop(26, interpolation=NEAREST),
    v2.RandomResize(16, 30, interpolation=NEAREST),
    v2.RandomShortestSize([17, 23], max_size=30, interpolation=NEAREST),
    v2.ScaleJitter((20, 24), interpolation=NEAREST),
    v2.RandomZoomOut(side_range=(1.0, 1.6)),
    v2.RandomRotation(90),
    v2.RandomRotation(40, expand=True),
    v2.RandomAffine(30, (0.2, 0.2), (0.6, 1.4), 10),
    v2.RandomPerspective(0.5, p=1, interpolation=NEAREST),
    v2.ElasticTransform(40.0, sigma=1.5, interpolation=NEAREST),
    v2.TrivialAugmentWide(),
    v2.RandAugment(3, magnitude=20),
    v2.AutoAugment(v2.AutoAugmentPolicy.CIFAR10),
    v2.AutoAugment(v2.AutoAugmentPolicy.SVHN),
    v2.RandomApply([v2.RandomHorizontalFlip(p=1), v2.RandomCrop(20, pad_if_needed=True)], p=0.5),
    v2.RandomChoice([v2.CenterCrop(20), v2.RandomRotation(20), v2.RandAugment()]),
    v2.RandomOrder([v2.RandomHorizontalFlip(), v2.RandomAffine(20), v2.Pad(2)]),
    nn.Sequential(v2.RandomHorizontalFlip(), v2.RandomRotation(10)),
    v1.Compose([v2.RandomVerticalFlip(), v2.Compose([v2.Pad(1)])]),
]


@pytest.fixture
def without_colours(monkeypatch):
    """Lets auto-augment transforms draw operations on colours, which then change nothing."""
    for name in COLOUR_FUNCTIONS:
        monkeypatch.setattr(v2.functional, name, lambda image, *args, **kwargs: image)


def assert_follows(transform, size, grid, pil, seed):
    """Compares cell numbers with an image of coordinates that goes through the plain transform."""
    image = coordinates(size, pil)
    torch.manual_seed(seed)
    shown = transform(image)
    after = torch.get_rng_state()
    torch.manual_seed(seed)
    moved, numbers = tracked(transform)(image, CellNumbers.of(size, grid))
    assert torch.equal(torch.get_rng_state(), after)  # no draw more or less
    np.testing.assert_array_equal(np.asarray(moved), np.asarray(shown))
    expected = expected_numbers(shown, size, grid)
    np.testing.assert_array_equal(numbers.tensor().numpy(), expected.numpy())


@pytest.mark.parametrize("pil", [False, True])
@pytest.mark.parametrize("transform", MOVES, ids=lambda transform: type(transform).__name__)
def test_cell_numbers_follow_every_transform(transform, pil, without_colours):
    for seed in range(3):
        assert_follows(transform, (30, 26), (4, 5), pil, seed)


@pytest.mark.usefixtures("without_colours")
def test_cell_numbers_follow_any_composition():
    @settings(max_examples=30, deadline=None)
    @given(
        steps=st.lists(st.sampled_from(MOVES), min_size=2, max_size=5),
        size=st.tuples(st.integers(16, 40), st.integers(16, 40)),
        cells=st.integers(1, 8),
        pil=st.booleans(),
        seed=st.integers(0, 2**31),
    )
    def follow(steps, size, cells, pil, seed):
        assert_follows(v2.Compose(steps), size, (cells, cells), pil, seed)

    follow()


def test_what_a_step_moved_out_of_the_image_no_later_one_brings_back():
    shift = [v2.RandomAffine(0, translate=None, shear=None) for _ in range(2)]
    for transform, pixels in zip(shift, (10, -10), strict=True):
        transform.make_params = lambda flat, pixels=pixels: {
            "angle": 0.0, "translate": (pixels, 0), "scale": 1.0, "shear": (0.0, 0.0)
        }  # fmt: skip
    both = tracked(v2.Compose(shift), moves_pixels=[v2.RandomAffine])
    _, numbers = both(torch.rand(3, 8, 32), CellNumbers.of((8, 32), (1, 8)))
    assert numbers.tensor()[0].tolist() == [1 + k // 4 for k in range(22)] + [0] * 10


PIPELINES = {
    "TrivialAugment": [v2.RandomCrop(32, padding=4), v2.TrivialAugmentWide()],
    "3-Augment": [
        v2.RandomResizedCrop(28),
        v2.RandomHorizontalFlip(),
        v2.RandomChoice([v2.Grayscale(3), v2.RandomSolarize(128, p=1), v2.GaussianBlur(3)]),
        v2.ColorJitter(0.3, 0.3, 0.3),
    ],
    "RandAugment": [v2.RandomRotation(10), v2.RandAugment(), v2.RandomHorizontalFlip()],
    "AutoAugment": [v2.AutoAugment(), v2.RandomResizedCrop(24), v2.JPEG((40, 60))],
}
TAIL = [
    v2.ToImage(),
    v2.ToDtype(torch.float32, scale=True),
    v2.Normalize([0.5] * 3, [0.25] * 3),
    v2.RandomErasing(p=1, value="random"),
    v2.ToPureTensor(),
]


@pytest.mark.parametrize("name", PIPELINES)
def test_images_are_those_of_the_plain_pipeline(name):
    draws = np.random.default_rng(0).integers(0, 256, (EXAMPLES, 40, 36, 3), np.uint8)
    pictures = [(Image.fromarray(draw), k) for k, draw in enumerate(draws)]
    transform = v2.Compose([*PIPELINES[name], *TAIL])
    dataset = WithOrigins(pictures, SaliencyMemory(EXAMPLES), transform)
    for index, (picture, _) in enumerate(pictures):
        torch.manual_seed(index)
        image, target, origin = dataset[index]
        torch.manual_seed(index)
        torch.testing.assert_close(image, transform(picture), rtol=0, atol=0)
        assert type(image) is torch.Tensor
        assert (target, int(origin.indices)) == (index, index)
        assert origin.cells.shape == image.shape[1:]


def test_erased_pixels_count_for_no_cell():
    erase = v2.RandomErasing(p=1, value=7)
    torch.manual_seed(0)
    image, numbers = tracked(erase)(torch.zeros(3, 30, 40), CellNumbers.of((30, 40), (4, 4)))
    assert 0 < (image[0] == 7).sum() < 1200
    assert torch.equal(numbers.tensor() == 0, image[0] == 7)


@pytest.mark.parametrize("fill", [3, (1, 2, 3)])
def test_cell_numbers_are_filled_with_nothing_whatever_the_image_is_filled_with(fill):
    pictures, memory = [(torch.ones(3, 32, 32), 0)], SaliencyMemory(1)
    pad = v2.Pad(2, fill=fill)
    image, _, origin = WithOrigins(pictures, memory, pad)[0]
    assert origin.cells[0].tolist() == [0] * 36
    assert image[0, 0].unique().tolist() == [fill if isinstance(fill, int) else fill[0]]


PHOTO_PIPELINES = {
    "crops, flips and rotations": [
        v2.RandomCrop(32, padding=4, pad_if_needed=True),
        v2.RandomHorizontalFlip(),
        v2.RandomRotation(40),
    ],
    "resized crops": [v2.RandomResizedCrop(28, interpolation=NEAREST), v2.RandomVerticalFlip()],
    "resizes and shears": [
        v2.Resize([24, 40], interpolation=NEAREST),
        v2.RandomAffine(20, (0.3, 0.3), (0.5, 1.5), 15),
    ],
    "perspective": [v2.RandomPerspective(0.6, p=1, interpolation=NEAREST), v2.CenterCrop(30)],
}


def map_by_pixels(shown, norms, size, cells, before, momentum):
    """Returns an example's new map, (cells, cells) in 0..255, pixel by pixel from coordinates.

    Args:
        shown: (2, height, width) the row and column of the example that each pixel shows, from 1.
        norms: (height, width) of the gradient at each pixel.
        size: of the example.
        cells: per side.
        before: (cells, cells) the previous map; None for none.
        momentum: its weight.
    """
    values = {}
    for row, column, norm in zip(
        *(part.flatten().tolist() for part in (*shown, norms)), strict=True
    ):
        if row and column:
            cell = (int(row - 1) * cells // size[0], int(column - 1) * cells // size[1])
            values.setdefault(cell, []).append(norm)
    if not values:
        return before
    means = {cell: sum(norms) / len(norms) for cell, norms in values.items()}
    # Old and new are brought to a mean of 1 over the cells that are shown.
    level = sum(means.values()) / len(means)
    old = np.ones((cells, cells)) if before is None else before.astype(float)
    old /= max(sum(old[cell] for cell in means) / len(means), 1.0)
    new = old.copy()
    for cell, mean in means.items():
        new[cell] = mean / level
        if before is not None:
            new[cell] += momentum * (old[cell] - new[cell])
    return new * (255 / new.max())


@pytest.mark.parametrize("momentum", [0.0, 0.3])
@pytest.mark.parametrize("pipeline", PHOTO_PIPELINES.values(), ids=PHOTO_PIPELINES)
def test_the_memory_keeps_and_shows_what_every_pixel_says(pipeline, momentum):
    size, cells = (30, 24), 4
    memory = SaliencyMemory(EXAMPLES, cells=cells, momentum=momentum)
    mixup = OnePass(CoMixup(7), memory)
    pictures = [(coordinates(size, pil=False), k) for k in range(EXAMPLES)]
    dataset = WithOrigins(pictures, memory, v2.Compose([*pipeline, v2.ToDtype(torch.float32)]))
    torch.manual_seed(4)
    for epoch in range(2):
        before = memory.state_dict()["maps"].view(-1, cells, cells).numpy()
        images, _, origin = next(iter(DataLoader(dataset, EXAMPLES, shuffle=True)))
        read = memory.read(origin)
        for k, example in enumerate(origin.indices.tolist()):
            for place in zip(*np.nonzero(np.ones(images.shape[2:])), strict=True):
                row, column = (int(images[k, axis][place]) for axis in (0, 1))
                known = before[example] if epoch else np.ones((cells, cells))
                cell = ((row - 1) * cells // size[0], (column - 1) * cells // size[1])
                assert read[k][place] == (known[cell] if row and column else 0)

        # A loss whose gradient by the images is known without any backward pass.
        slopes = torch.randn(images.shape)
        (mixup.track(images, origin) * slopes).sum().backward()
        mixup.end_epoch()
        norms = slopes.double().square().sum(1).sqrt().numpy()
        found = memory.state_dict()["maps"].view(-1, cells, cells).double().numpy()
        for k, example in enumerate(origin.indices.tolist()):
            previous = before[example] if before[example].any() else None
            expected = map_by_pixels(
                images[k, :2].numpy(), norms[k], size, cells, previous, momentum
            )
            np.testing.assert_allclose(found[example], expected, rtol=0, atol=0.501)


def noise(image):
    return image + torch.rand_like(image)


class Mirror:
    """Calls as v2 transforms are: with an image alone, or with its cell numbers."""

    def __call__(self, *inputs):
        return tuple(v2.functional.horizontal_flip(each) for each in inputs)


class FlippingJitter(v2.ColorJitter):
    def forward(self, *inputs):
        return v2.functional.horizontal_flip(super().forward(*inputs))


class FlippingCompose(v2.Compose):
    def forward(self, *inputs):
        return v2.functional.horizontal_flip(super().forward(*inputs))


class FlippingTrivialAugment(v2.TrivialAugmentWide):
    def _apply_image_or_video_transform(self, image, *args, **kwargs):
        return v2.functional.horizontal_flip(image)


def hooked():
    crop = v2.RandomCrop(8)
    crop.register_forward_hook(lambda module, inputs, output: output)
    return crop


class Brighter(v2.Transform):
    def transform(self, inpt, params):
        return inpt * 2


@pytest.mark.parametrize(
    ("transform", "error", "message"),
    [
        (v2.AugMix(), ValueError, "got AugMix: it blends several copies"),
        (v2.Compose([v2.FiveCrop(8)]), ValueError, "got FiveCrop: it makes several images"),
        (v1.AugMix(), ValueError, "got AugMix: it blends several copies"),
        (v1.Compose([v1.Lambda(noise)]), TypeError, r"Lambda.*colours_only=\[noise\]"),
        (v2.Compose([noise]), TypeError, r"noise.*colours_only=\[noise\].*moves_pixels=\[noise\]"),
        (v2.Lambda(noise), TypeError, r"Lambda.*colours_only=\[noise\]"),
        (FlippingJitter(), TypeError, r"colours_only=\[FlippingJitter\]"),
        (FlippingCompose([v2.Identity()]), TypeError, r"moves_pixels=\[FlippingCompose\]"),
        (FlippingTrivialAugment(), TypeError, "unchanged"),
        (hooked(), TypeError, "RandomCrop"),
        (v2.CutMix(num_classes=2), ValueError, "got CutMix: it mixes batches"),
        (Brighter(), TypeError, r"Brighter.*colours_only=\[Brighter\]"),
        (partial(noise), TypeError, "partial"),
    ],
    ids=lambda value: getattr(type(value), "__name__", ""),
)
def test_transforms_that_cell_numbers_cannot_follow_are_rejected_by_name(transform, error, message):
    with pytest.raises(error, match=f"`transform` must.*{message}"):
        WithOrigins([(torch.rand(3, 8, 8), 0)], SaliencyMemory(1), transform)


@pytest.mark.parametrize(
    ("transform", "declared"),
    [
        (noise, noise),
        (v2.Lambda(noise), noise),
        (Brighter(), Brighter),
        (v2.Lambda(noise), v2.Lambda),
    ],
)
def test_transforms_of_colours_can_be_declared(transform, declared):
    pictures = [(torch.rand(3, 8, 8), 0)]
    steps = v2.Compose([v2.RandomHorizontalFlip(p=1), transform])
    image, _, origin = WithOrigins(
        pictures, SaliencyMemory(1, cells=2), steps, colours_only=[declared]
    )[0]
    assert not torch.equal(image, pictures[0][0].flip(2))
    assert origin.cells[0].tolist() == [2] * 4 + [1] * 4


def test_transforms_that_move_pixels_can_be_declared():
    pictures = [(torch.rand(3, 8, 8), 0)]
    image, _, origin = WithOrigins(
        pictures, SaliencyMemory(1, cells=2), v2.Compose([Mirror()]), moves_pixels=[Mirror]
    )[0]
    assert torch.equal(image, pictures[0][0].flip(2))
    assert origin.cells[0].tolist() == [2] * 4 + [1] * 4


def test_another_torchvision_is_named(monkeypatch):
    base = v2.TrivialAugmentWide.__mro__[1]
    monkeypatch.delattr(base, "_apply_image_or_video_transform")
    with pytest.raises(
        TypeError, match=f"torchvision {torchvision.__version__}".replace("+", r"\+")
    ):
        tracked(v2.TrivialAugmentWide())


def test_data_sets_that_move_pixels_themselves_are_rejected():
    memory = SaliencyMemory(2)
    WithOrigins(FakeData(2, (3, 8, 8), transform=v1.ToTensor()), memory)
    WithOrigins(FakeData(2, (3, 8, 8), transform=v2.Compose([v2.ToImage()])), memory)
    WithOrigins(FakeData(2, (3, 8, 8), transform=v2.Compose([v2.Resize(4), v2.ToImage()])), memory)
    flip = v2.Compose([v2.ToImage(), nn.Sequential(v2.RandomHorizontalFlip())])
    for transform in (v1.RandomCrop(4), flip, v2.RandAugment(), FlippingJitter(), noise):
        data = FakeData(2, (3, 8, 8), transform=transform)
        halves = [Subset(data, [k]) for k in range(2)]
        for moving in (data, Subset(data, [0, 1]), ConcatDataset(halves)):
            with pytest.raises(ValueError, match="`dataset` must return images that no transform"):
                WithOrigins(moving, memory)
    WithOrigins(FakeData(2, (3, 8, 8), transform=noise), memory, colours_only=[noise])


class Stream(torch.utils.data.IterableDataset):
    """A data set whose examples have no index."""

    def __iter__(self):
        yield torch.rand(3, 8, 8), 0

    def __len__(self):
        return 1


def test_a_memory_of_another_size_is_rejected():
    with pytest.raises(ValueError, match="`memory` must have a map for each of the 5 examples"):
        WithOrigins([(torch.rand(3, 8, 8), 0)] * 5, SaliencyMemory(4))
    for sample in (("no image", 0), (torch.rand(3, 8, 8), 0, 0), {"image": 0, "label": 1}):
        with pytest.raises(TypeError, match="`dataset` must return pairs of an image"):
            WithOrigins([sample], SaliencyMemory(1))[0]
    with pytest.raises(ValueError, match="`memory` must be of images, with two sides"):
        WithOrigins([(torch.rand(3, 8, 8), 0)], SaliencyMemory(1, cells=(4,)))
    with pytest.raises(TypeError, match="`dataset` must have a length"):
        WithOrigins(iter([]), SaliencyMemory(1))
    with pytest.raises(TypeError, match=r"`dataset` must have a length.*got Stream"):
        WithOrigins(Stream(), SaliencyMemory(1))
    with pytest.raises(ValueError, match="`cells` must give a map of at most 254 cells"):
        CellNumbers.of((20, 20), (20, 20))
