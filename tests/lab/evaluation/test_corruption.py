"""Corrupted backgrounds, on images whose every pixel tells where it is from."""

import os
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

sys.path.append(str(Path(__file__).parents[1] / "data"))

from comixup.lab.data import DataSet, load
from comixup.lab.evaluation._boxes import read_tiny_imagenet_boxes
from comixup.lab.evaluation._corruption import CORRUPTIONS, SIGMA, CorruptedLoader, corrupt
from data_files import memory_split


def told_apart(n=6, channels=3, height=5, width=7):
    """Every pixel of every image has a colour of its own."""
    count = n * channels * height * width
    return torch.arange(1, count + 1).view(n, channels, height, width) / (count + 1)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


BOXES = torch.tensor(
    [
        [[1, 1, 4, 3], [0, 0, 0, 0]],
        [[0, 0, 7, 5], [0, 0, 0, 0]],  # all of the image
        [[0, 0, 2, 2], [5, 3, 7, 5]],  # two boxes
        [[6, 4, 7, 5], [0, 0, 0, 0]],  # one pixel
        [[2, 0, 5, 5], [1, 1, 6, 2]],  # two that overlap
        [[0, 0, 1, 1], [0, 0, 1, 1]],
    ]
)


def slow_inside(boxes, x, y):
    return any(x0 <= x < x1 and y0 <= y < y1 for x0, y0, x1, y1 in boxes.tolist())


def places(pixels):
    n, _, height, width = pixels.shape
    return [(i, y, x) for i in range(n) for y in range(height) for x in range(width)]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_replaced_pixels_come_from_one_other_image(channels, seed):
    pixels = told_apart(channels=channels)
    before = pixels.clone()
    made = corrupt(pixels, BOXES, "replace", generator=seeded(seed))
    assert_close(pixels, before, rtol=0, atol=0)
    sources = {}
    for i, y, x in places(pixels):
        if slow_inside(BOXES[i], x, y):
            assert torch.equal(made[i, :, y, x], pixels[i, :, y, x])
        else:
            owner = (pixels[:, :, y, x] == made[i, :, y, x]).all(1).nonzero().item()
            sources.setdefault(i, set()).add(owner)
    assert set(sources) == {0, 2, 3, 4, 5}
    assert all(len(found) == 1 for found in sources.values())
    chosen = {i: min(found) for i, found in sources.items()}
    assert all(i != source for i, source in chosen.items())
    assert len(set(chosen.values())) == len(chosen)


def test_replacement_by_given_images():
    pixels, others = told_apart(), 1 - told_apart()
    made = corrupt(pixels, BOXES, "replace", generator=seeded(), others=others)
    for i, y, x in places(pixels):
        source = pixels if slow_inside(BOXES[i], x, y) else others
        assert torch.equal(made[i, :, y, x], source[i, :, y, x])


def test_every_other_image_is_drawn_as_often():
    pixels, draw = told_apart(n=4), seeded(3)
    counts = torch.zeros(4, 4)
    for _ in range(600):
        made = corrupt(pixels, BOXES[5:].expand(4, -1, -1), "replace", generator=draw)
        sources = (made[:, None, 0, 4, 6] == pixels[None, :, 0, 4, 6]).nonzero()
        counts[sources[:, 0], sources[:, 1]] += 1
    assert counts.diagonal().sum() == 0
    off_diagonal = counts[~torch.eye(4, dtype=torch.bool)]
    assert (off_diagonal - 200).abs().max() < 60  # five standard deviations


@pytest.mark.parametrize("kind", ["noise", "added-noise"])
def test_noise_is_outside_the_boxes_alone_and_clipped(kind):
    pixels = torch.full((6, 3, 5, 7), 0.95)
    made = corrupt(pixels, BOXES, kind, generator=seeded())
    assert made.min() >= 0
    assert made.max() <= 1
    changed = (made != pixels).any(1)
    for i, y, x in places(pixels):
        assert bool(changed[i, y, x]) != slow_inside(BOXES[i], x, y)
    assert (made == (1.0 if kind == "added-noise" else 0.0)).any()


@pytest.mark.parametrize(("kind", "middle"), [("noise", 0.0), ("added-noise", 0.5)])
def test_noise_has_the_papers_spread(kind, middle):
    pixels, boxes = torch.full((1, 3, 200, 200), 0.5), torch.tensor([[[0, 0, 1, 1]]])
    background = corrupt(pixels, boxes, kind, generator=seeded())[..., 1:, :].flatten()
    for sigmas, share in ((0.0, 0.5), (1.0, 0.8413), (2.0, 0.9772)):
        below = (background <= middle + sigmas * SIGMA).float().mean().item()
        assert below == pytest.approx(share, abs=0.006)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_one_seed_one_result(kind):
    pixels = told_apart()
    first, again, other = (
        corrupt(pixels, BOXES, kind, generator=seeded(seed)) for seed in (5, 5, 6)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_wrong_calls():
    pixels = told_apart()
    with pytest.raises(ValueError, match="`kind` must be one of"):
        corrupt(pixels, BOXES, "blur", generator=seeded())
    with pytest.raises(ValueError, match="got none for image 2"):
        corrupt(pixels, BOXES * (torch.arange(6) != 2)[:, None, None], "noise", generator=seeded())
    with pytest.raises(ValueError, match="`pixels` must be from 0 to 1"):
        corrupt(pixels - 0.5, BOXES, "noise", generator=seeded())
    with pytest.raises(ValueError, match="`pixels` must have two images at least"):
        corrupt(pixels[:1], BOXES[:1], "replace", generator=seeded())
    with pytest.raises(ValueError, match="`others` must have the shape"):
        corrupt(pixels, BOXES, "replace", generator=seeded(), others=pixels[:2])
    with pytest.raises(ValueError, match="`others` must be None unless"):
        corrupt(pixels, BOXES, "noise", generator=seeded(), others=pixels)
    with pytest.raises(ValueError, match="within the images' 7 x 5 pixels"):
        corrupt(pixels, BOXES + 1, "noise", generator=seeded())
    with pytest.raises(ValueError, match="each of the 6 images, got 5"):
        corrupt(pixels, BOXES[:5], "noise", generator=seeded())


# ---- Whole splits -------------------------------------------------------------------------------


def small_set(count=11, channels=3):
    split = memory_split(count, channels=channels)
    shape = (channels, 6, 6)
    return DataSet("small", tuple("abcde"), shape, split.mean, split.std, split, split)


def boxes_of(count=11):
    boxes = torch.tensor([[[1, 2, 4, 5]]]).repeat(count, 1, 1)
    boxes[0], boxes[4] = torch.tensor([0, 0, 6, 6]), 0
    return boxes


def all_of(loader, first_step=0):
    images, targets = zip(*loader.epoch(0, first_step), strict=True)
    return torch.cat(images), torch.cat(targets)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_a_corrupted_split_is_the_same_in_any_batches(kind, channels):
    data = small_set(channels=channels)
    made = {
        size: CorruptedLoader(data, data.test, boxes_of(), kind, size, seed=3) for size in (4, 20)
    }
    images, targets = all_of(made[4])
    assert_close((images, targets), all_of(made[20]), rtol=0, atol=0)
    assert [len(made[4]), len(made[20])] == [3, 1]
    assert_close(all_of(made[4], 1)[0], images[4:], rtol=0, atol=0)
    kept = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert made[4].kept.tolist() == kept
    assert made[4].unchanged == 1
    assert targets.tolist() == data.test.targets[kept].tolist()
    clean = all_of(data.test.loader(4))[0][kept]
    assert torch.equal(images[:, :, 2:5, 1:4], clean[:, :, 2:5, 1:4])
    assert torch.equal(images[0], clean[0])
    outside = torch.ones(6, 6, dtype=torch.bool)
    outside[2:5, 1:4] = False
    assert (images[1:] != clean[1:])[:, :, outside].float().mean() > 0.9
    pixels = images * torch.tensor(data.std).view(-1, 1, 1) + torch.tensor(data.mean).view(-1, 1, 1)
    assert pixels.min() > -1e-5
    assert pixels.max() < 1 + 1e-5
    other = CorruptedLoader(data, data.test, boxes_of(), kind, 4, seed=4)
    assert not torch.equal(all_of(other)[0], images)


def test_backgrounds_come_from_the_whole_split():
    data = small_set(40)
    loader = CorruptedLoader(data, data.test, boxes_of(40), "replace", 4)
    clean, made = all_of(data.test.loader(40))[0], all_of(loader)[0]
    sources = []
    for position, index in enumerate(loader.kept.tolist()):
        same = (clean[:, :, 5] == made[position, :, 5]).all(1).all(1).nonzero()[:, 0].tolist()
        assert len(same) == 1
        sources += same if index else []  # the first is all box
        assert same != [index] or index == 0
    assert len(set(sources)) == len(sources)
    assert any(abs(a - b) > 8 for a, b in zip(sources, loader.kept.tolist()[1:], strict=True))


def test_wrong_splits():
    data = small_set()
    with pytest.raises(ValueError, match="each of the 11 images, got 10"):
        CorruptedLoader(data, data.test, boxes_of(10), "noise", 4)
    with pytest.raises(ValueError, match="boxes for two images at least, got 0"):
        CorruptedLoader(data, data.test, boxes_of() * 0, "noise", 4)
    sound = DataSet("speech", ("a",), (1, 6, 6), (0.0,), (1.0,), data.train, data.test)
    with pytest.raises(ValueError, match="images with colours to corrupt, got 'speech'"):
        CorruptedLoader(sound, data.test, boxes_of(), "noise", 4)


@pytest.mark.data
@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_tiny_imagenet(kind):
    root = os.environ["COMIXUP_DATA"]
    data, boxes = load("tiny-imagenet", root=root), read_tiny_imagenet_boxes(root)
    loader = CorruptedLoader(data, data.test, boxes, kind, 50)
    images, targets = next(loader.epoch())
    clean, classes = next(data.test.loader(50).epoch(0))
    assert torch.equal(targets, classes)
    for i, y, x in ((i, y, x) for i in range(50) for y in (0, 31, 63) for x in (0, 31, 63)):
        if slow_inside(boxes[i], x, y):
            assert torch.equal(images[i, :, y, x], clean[i, :, y, x])
    assert not torch.equal(images, clean)
    assert images.abs().max() <= 1 + 1e-5
