"""One-pass mixing through timm's `create_loader`: prefetcher, workers, sizes, repetitions, erasing.

Images are of coordinates and the transforms take nearest pixels, so that every pixel of a batch
says by itself where it comes from.
"""

import random

import pytest
import torch
import torch.distributed
from timm.data import create_loader
from timm.data.distributed_sampler import RepeatAugSampler
from torch.utils.data import Dataset

from comixup import CoMixup, OnePass, SaliencyMemory
from comixup.adapters.origins import WithOrigins
from comixup.adapters.timm import OriginLoader
from coordinates import coordinates, expected_numbers

SIZE, GRID = (40, 36), (8, 8)
CPU = torch.device("cpu")
NO_SCALE = {"mean": (0.0,) * 3, "std": (1 / 255,) * 3}  # pixels keep their values


class Pictures(Dataset):
    """Images of coordinates, whose third channel is the example's number."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        image = coordinates(SIZE, pil=True)
        image.putdata([(row, column, index + 1) for row, column, _ in image.get_flattened_data()])
        return image, index % 5


def loader_of(count=24, batch_size=8, input_size=24, **settings):
    settings = {
        **{"is_training": True, "device": CPU, "num_workers": 0, "interpolation": "nearest"},
        **{"color_jitter": None, **NO_SCALE},
    } | settings
    dataset = WithOrigins(Pictures(count), SaliencyMemory(count))
    return OriginLoader(create_loader(dataset, input_size, batch_size, **settings))


def assert_tracked(images, targets, origin, erased=False):
    shown = images.round().long()
    inside = shown[:, 2] > 0
    numbers = torch.stack([expected_numbers(each, SIZE, GRID) for each in shown])
    numbers[~inside] = 0
    assert torch.equal(origin.cells.long(), numbers)
    assert inside.all() != erased
    examples = shown[:, 2].flatten(1).amax(1) - 1
    assert torch.equal(origin.indices, examples)
    assert torch.equal(targets, examples % 5)


@pytest.mark.parametrize("use_prefetcher", [False, True])
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_every_pixel_is_tracked_through_the_loader(use_prefetcher, workers):
    loader = loader_of(use_prefetcher=use_prefetcher, num_workers=workers, vflip=0.5)
    assert len(loader) == 3
    assert len(loader.sampler) == 24
    for _ in range(2):
        batches = list(loader)
        assert len(batches) == 3
        for images, targets, origin in batches:
            assert images.dtype == torch.float32
            assert_tracked(images, targets, origin)


@pytest.mark.parametrize("re_mode", ["const", "rand", "pixel"])
@pytest.mark.parametrize("use_prefetcher", [False, True])
def test_erased_pixels_count_for_no_cell(use_prefetcher, re_mode):
    random.seed(1)
    loader = loader_of(use_prefetcher=use_prefetcher, re_prob=1.0, re_mode=re_mode, re_count=2)
    for images, targets, origin in loader:
        if re_mode != "const":  # normal numbers, which are no coordinates
            whole = (images - images.round()).abs().amax(1, keepdim=True) < 1e-3
            images = images * whole  # noqa: PLW2901
        assert_tracked(images, targets, origin, erased=True)


def test_erasing_on_the_device_draws_what_it_draws_without_us():
    torch.manual_seed(0)
    random.seed(0)
    settings = {"use_prefetcher": True, "re_prob": 0.5, "re_mode": "pixel"}
    with_origins = [images for images, _, _ in loader_of(**settings)]
    torch.manual_seed(0)
    random.seed(0)
    plain = create_loader(
        Plain(Pictures(24)), 24, 8, is_training=True, device=CPU, num_workers=0,
        interpolation="nearest", color_jitter=None, **NO_SCALE, **settings,
    )  # fmt: skip
    for ours, (theirs, _) in zip(with_origins, plain, strict=True):
        assert torch.equal(ours, theirs)


class Plain(Dataset):
    """A data set as timm's own: it has a transform."""

    def __init__(self, pictures):
        self.pictures = pictures

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        image, target = self.pictures[index]
        return self.transform(image), target


@pytest.mark.parametrize("use_prefetcher", [False, True])
def test_sizes_that_change_per_batch(use_prefetcher):
    loader = loader_of(
        64,
        use_prefetcher=use_prefetcher,
        input_size_choices=[16, (24, 32)],
        batch_size_choices=[8, 4],
    )
    sizes = set()
    for images, targets, origin in loader:
        sizes.add(tuple(images.shape))
        assert_tracked(images, targets, origin)
    assert sizes == {(8, 3, 16, 16), (4, 3, 24, 32)}


def test_repeated_augmentation(tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        # The sampler draws multiples of 256 examples.
        loader = loader_of(256, 32, distributed=True, num_aug_repeats=3)
        assert isinstance(loader.sampler, RepeatAugSampler)
        mixup = OnePass(CoMixup(5), SaliencyMemory(256))
        seen = []
        for images, targets, origin in loader:
            assert_tracked(images, targets, origin)
            seen += origin.indices.tolist()
            mixed, _ = mixup(images, targets, origin)
            if mixed.requires_grad:  # each view of an example writes to its map
                mixed.square().sum().backward()
        assert len(seen) == 256
        assert len(set(seen)) < 100
        mixup.end_epoch()
        assert mixup.memory.known(torch.tensor(seen)).any()
    finally:
        torch.distributed.destroy_process_group()


def test_a_loader_of_another_data_set_is_rejected():
    with pytest.raises(TypeError, match=r"`loader` must be of a WithOrigins, got one of Plain"):
        OriginLoader(create_loader(Plain(Pictures(8)), 24, 4, device=CPU, num_workers=0))
