import pytest
import torch
from torchvision.transforms import v2

from cases import each_case
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


@pytest.mark.parametrize(("size", "channels", "pad"), [((5, 5), 3, 1), ((4, 7), 1, 3)])
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


@each_case("augment", [None, "none", "crop-flip", "trivial", "rand", "auto"])
def test_going_on_in_mid_epoch_and_processes_change_nothing(augment):
    split = memory_split(count=25)
    settings = {"augment": augment, "seed": 1, "epoch": 5}
    whole = batches(split, 9, **settings)
    assert len(whole) == 3
    assert_same(batches(split, 9, first_step=2, **settings), whole[2:])
    shares = [batches(split, 9, **settings, rank=rank, world_size=3) for rank in range(3)]
    joined = [
        tuple(torch.cat(pieces) for pieces in zip(*step, strict=True))
        for step in zip(*shares, strict=True)
    ]
    assert_same(joined, whole)


def test_the_global_generators_state_and_the_number_of_threads_stay():
    split, before = memory_split(), torch.get_num_threads()
    torch.manual_seed(0)
    first = batches(split, 8, augment="crop-flip")
    state = torch.get_rng_state()
    torch.manual_seed(1)
    try:
        torch.set_num_threads(2)
        assert_same(batches(split, 8, augment="crop-flip"), first)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    torch.manual_seed(0)
    assert torch.get_rng_state().equal(state)


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_workers_change_nothing():
    split, memory, augment = memory_split(), SaliencyMemory(23, cells=3), "rand"
    alone = batches(split, 8, augment=augment, seed=1)
    assert_same(batches(split, 8, augment=augment, seed=1, workers=2), alone)
    loaders = [split.loader(8, augment=augment, workers=count) for count in (0, 2)]
    origins = [[batch[2] for batch in each.epoch_with_origins(0, memory)] for each in loaders]
    assert_same(*origins)


def test_floats_are_kept_as_they_are_and_copied():
    split = memory_split(count=4)
    split = type(split)(torch.rand(4, 3, 6, 6), split.targets, (0,), (1,))
    before = split.images.clone()
    [(images, _)] = batches(split, 4)
    torch.testing.assert_close(images, before, rtol=0, atol=0)
    images.zero_()
    torch.testing.assert_close(split.images, before, rtol=0, atol=0)
