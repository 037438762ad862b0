import pytest
import torch
from torchvision.transforms import v2

from comixup import SaliencyMemory
from comixup.lab.data._in_memory import cropped, draw_crops
from comixup.lab.data._split import Order
from data_files import MEAN, STD, assert_same, batches, memory_split


def crop_slowly(image, row, column, mirrored, pad):
    """Mirrors, pads and cuts one image, pixel by pixel."""
    _, height, width = image.shape
    output = torch.zeros_like(image)
    for y in range(height):
        for x in range(width):
            from_y, from_x = y + row - pad, x + column - pad
            if 0 <= from_y < height and 0 <= from_x < width:
                from_x = width - 1 - from_x if mirrored else from_x
                output[:, y, x] = image[:, from_y, from_x]
    return output


@pytest.mark.parametrize(("size", "channels"), [((5, 5), 3), ((4, 7), 1)])
@pytest.mark.parametrize("pad", [0, 1, 3])
def test_crops_are_those_of_single_images(size, channels, pad):
    places = [(r, c, m) for r in range(2 * pad + 1) for c in range(2 * pad + 1) for m in (0, 1)]
    images = memory_split(len(places), channels, size).images
    version = images._version
    expected = [crop_slowly(i, *place, pad) for i, place in zip(images, places, strict=True)]
    got = cropped(images, torch.tensor(places).T, pad)
    torch.testing.assert_close(got, torch.stack(expected), rtol=0, atol=0)
    assert images._version == version


def test_batches_are_the_drawn_crops_normalized_as_torchvision_does():
    split = memory_split(pad=2)
    order = Order(23, 8, 7, shuffled=True)
    normalize = v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    for step, (images, targets) in enumerate(
        batches(split, 8, seed=7, augment="crop-flip", epoch=3)
    ):
        share = order.share(step)
        chosen = order.indices(3)[share.start : share.stop]
        draws = draw_crops(share, split, (7, 3, step)).T.tolist()
        slow = [
            crop_slowly(split.images[index], *draw, pad=2)
            for index, draw in zip(chosen, draws, strict=True)
        ]
        torch.testing.assert_close(images, normalize(torch.stack(slow)), rtol=0, atol=2e-6)
        torch.testing.assert_close(targets, split.targets[chosen])


def test_every_place_and_both_sides_are_drawn_equally_often():
    split = memory_split(pad=1)
    share = Order(6000, 6000, shuffled=True).share(0)
    rows, columns, mirrored = draw_crops(share, split, (0, 0, 0))
    counts = torch.bincount((rows * 3 + columns) * 2 + mirrored, minlength=18)
    expected = 6000 / 18
    # Chi squared with 17 degrees of freedom exceeds 40.8 once in a thousand.
    assert float(((counts - expected) ** 2 / expected).sum()) < 40.8


def test_without_flip_nothing_is_mirrored():
    share = Order(100, 100, shuffled=True).share(0)
    assert draw_crops(share, memory_split(flip=False), (0, 0, 0))[2].sum() == 0


def test_evaluation_is_in_order_and_plain():
    split = memory_split(count=11)
    got = batches(split, 4, seed=3, epoch=2)
    assert [len(images) for images, _ in got] == [4, 4, 3]
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    torch.testing.assert_close(
        torch.cat([images for images, _ in got]), (split.images / 255 - mean) / std
    )
    torch.testing.assert_close(torch.cat([targets for _, targets in got]), split.targets)
    assert got[0][0].dtype == torch.float32
    assert got[0][1].dtype == torch.int64


def test_floats_are_kept_as_they_are_and_copied():
    split = memory_split(count=4)
    split = type(split)(torch.randn(4, 3, 6, 6, generator=seeded(0)), split.targets, (0,), (1,))
    before = split.images.clone()
    [(images, _)] = batches(split, 4)
    torch.testing.assert_close(images, before, rtol=0, atol=0)
    images.zero_()
    torch.testing.assert_close(split.images, before, rtol=0, atol=0)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_an_epoch_shows_every_image_once():
    split = memory_split(count=24, pad=0, flip=False)
    images = torch.cat([images for images, _ in batches(split, 8, augment="crop-flip")])
    expected = torch.cat([images for images, _ in batches(split, 8)])
    assert (images != expected).any()
    assert sorted(map(bytes_of, images)) == sorted(map(bytes_of, expected))


def bytes_of(image):
    return image.numpy().tobytes()


@pytest.mark.parametrize("augment", [None, "none", "crop-flip", "trivial", "rand", "auto"])
@pytest.mark.parametrize("first_step", [0, 1, 2, 3])
def test_going_on_in_mid_epoch_changes_nothing(augment, first_step):
    split = memory_split()
    whole = batches(split, 8, augment=augment, seed=1, epoch=5)
    rest = batches(split, 8, augment=augment, seed=1, epoch=5, first_step=first_step)
    assert len(whole) == 3
    assert_same(rest, whole[first_step:])


@pytest.mark.parametrize("augment", [None, "none", "crop-flip", "trivial", "rand", "auto"])
@pytest.mark.parametrize("parts", [2, 3])
def test_processes_together_have_what_one_has(augment, parts):
    split = memory_split(count=25)
    whole = batches(split, 9, augment=augment, seed=1, epoch=5)
    shares = [
        batches(split, 9, augment=augment, seed=1, epoch=5, rank=part, world_size=parts)
        for part in range(parts)
    ]
    joined = [
        tuple(torch.cat(pieces) for pieces in zip(*step, strict=True))
        for step in zip(*shares, strict=True)
    ]
    assert_same(joined, whole)


def test_an_empty_share_is_an_empty_batch():
    got = batches(memory_split(count=9), 8, rank=2, world_size=3)
    assert [images.shape for images, _ in got] == [(2, 3, 6, 6), (0, 3, 6, 6)]
    assert got[1][1].shape == (0,)
    assert got[1][0].dtype == torch.float32


def test_seeds_and_epochs_differ():
    split = memory_split()
    first = batches(split, 8, augment="crop-flip", seed=0, epoch=0)[0][0]
    for seed, epoch in [(1, 0), (0, 1)]:
        assert (batches(split, 8, augment="crop-flip", seed=seed, epoch=epoch)[0][0] != first).any()


def test_the_global_generator_is_neither_read_nor_moved():
    split = memory_split()
    torch.manual_seed(0)
    first = batches(split, 8, augment="crop-flip")
    state = torch.get_rng_state()
    torch.manual_seed(1)
    assert_same(batches(split, 8, augment="crop-flip"), first)
    torch.manual_seed(0)
    assert torch.get_rng_state().equal(state)


def test_the_number_of_threads_is_given_back():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        one = batches(memory_split(), 8, augment="crop-flip")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert_same(batches(memory_split(), 8, augment="crop-flip"), one)


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("augment", ["crop-flip", "rand"])
def test_workers_change_nothing(augment):
    split, memory = memory_split(), SaliencyMemory(23, cells=3)
    alone = batches(split, 8, augment=augment, seed=1)
    assert_same(batches(split, 8, augment=augment, seed=1, workers=2), alone)
    loaders = [split.loader(8, augment=augment, workers=count) for count in (0, 2)]
    origins = [[batch[2] for batch in each.epoch_with_origins(0, memory)] for each in loaders]
    assert_same(*origins)


def test_subsets_keep_their_order_and_settings():
    split = memory_split()
    part = split.subset(torch.tensor([5, 2, 9]))
    torch.testing.assert_close(part.images, split.images[[5, 2, 9]])
    torch.testing.assert_close(part.targets, split.targets[[5, 2, 9]])
    assert (part.pad, part.flip, part.mean, part.std) == (2, True, MEAN, STD)


def test_only_the_sets_own_size_is_offered():
    split = memory_split()
    assert_same(batches(split, 8, image_size=6), batches(split, 8))
    with pytest.raises(ValueError, match=r"`image_size` must be None or 6, .* got 32"):
        split.loader(8, image_size=32)
    with pytest.raises(ValueError, match=r"`min_scale` must be None for .* got 0.08"):
        split.loader(8, min_scale=0.08)


def test_loaders_say_at_once_what_is_wrong():
    loader = memory_split().loader(8)
    with pytest.raises(ValueError, match="`first_step` must be at most 3"):
        loader.epoch(0, 4)  # without a batch having been asked for
