"""Corrupted backgrounds, on images whose every pixel tells where it is from."""

import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

sys.path.append(str(Path(__file__).parents[1] / "data"))

from comixup.lab.data import DataSet
from comixup.lab.data._in_memory import MemorySplit
from comixup.lab.evaluation._corruption import CORRUPTIONS, SIGMA, CorruptedLoader
from data_files import memory_split


def told_apart(n=6, channels=3, height=5, width=7):
    """Every image has other colours than the others at every pixel."""
    positions = torch.arange(channels * height * width).view(channels, height, width) % 41
    return (torch.arange(n).view(n, 1, 1, 1) * 41 + positions).to(torch.uint8)


def corrupted(pixels, boxes, kind, seed=0, batch_size=4):
    """Returns the images of a split of these pixels, and the same with corrupted backgrounds."""
    channels = pixels.shape[1]
    mean, std = (0.0,) * channels, (0.5,) * channels  # of which halves are exact
    split = MemorySplit(pixels, torch.arange(len(pixels)) % 2, mean, std)
    data = DataSet("told apart", ("a", "b"), tuple(pixels.shape[1:]), mean, std, split, split)
    loader = CorruptedLoader(data, split, boxes, kind, batch_size, seed=seed)
    return all_of(split.loader(len(pixels)))[0] / 2, all_of(loader)[0] / 2


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
    pixels, made = corrupted(told_apart(channels=channels), BOXES, "replace", seed)
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


def test_every_other_image_is_drawn_as_often():
    counts = torch.zeros(4, 4)
    for seed in range(600):
        pixels, made = corrupted(told_apart(n=4), BOXES[5:].expand(4, -1, -1), "replace", seed)
        sources = (made[:, None, 0, 4, 6] == pixels[None, :, 0, 4, 6]).nonzero()
        counts[sources[:, 0], sources[:, 1]] += 1
    assert counts.diagonal().sum() == 0
    off_diagonal = counts[~torch.eye(4, dtype=torch.bool)]
    assert (off_diagonal - 200).abs().max() < 60  # five standard deviations


@pytest.mark.parametrize("kind", ["noise", "added-noise"])
def test_noise_is_outside_the_boxes_alone_and_clipped(kind):
    pixels, made = corrupted(torch.full((6, 3, 5, 7), 242, dtype=torch.uint8), BOXES, kind)
    assert made.min() >= 0
    assert made.max() <= 1
    changed = (made != pixels).any(1)
    for i, y, x in places(pixels):
        assert bool(changed[i, y, x]) != slow_inside(BOXES[i], x, y)
    assert (made == (1.0 if kind == "added-noise" else 0.0)).any()


@pytest.mark.parametrize(("kind", "middle"), [("noise", 0.0), ("added-noise", 0.5)])
def test_noise_has_the_papers_spread(kind, middle):
    grey, boxes = torch.full((2, 3, 200, 200), 128, dtype=torch.uint8), BOXES[5:].expand(2, -1, -1)
    pixels, made = corrupted(grey, boxes, kind)
    middle = pixels[0, 0, 0, 0].item() if middle else 0.0
    assert not torch.equal(made[0, ..., 1:, :], made[1, ..., 1:, :])  # each image has its own
    background = made[..., 1:, :].flatten()
    for sigmas, share in ((0.0, 0.5), (1.0, 0.8413), (2.0, 0.9772)):
        below = (background <= middle + sigmas * SIGMA).float().mean().item()
        assert below == pytest.approx(share, abs=0.006)


# ---- Whole splits -------------------------------------------------------------------------------


def small_set(count=11, channels=3):
    split = memory_split(count, channels=channels)
    shape = (channels, 6, 6)
    return DataSet("small", tuple("abcde"), shape, split.mean, split.std, split, split)


def boxes_of(count=11):
    boxes = torch.tensor([[[1, 2, 4, 5]]]).repeat(count, 1, 1)
    boxes[0], boxes[4] = torch.tensor([0, 0, 6, 6]), 0
    return boxes


def all_of(loader):
    batches = loader.epoch() if isinstance(loader, CorruptedLoader) else loader.epoch(0)
    images, targets = zip(*batches, strict=True)
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
    kept = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert made[4].kept.tolist() == kept
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


def test_wrong_splits():
    data = small_set()
    with pytest.raises(ValueError, match="boxes for two images at least, got 0"):
        CorruptedLoader(data, data.test, boxes_of() * 0, "noise", 4)
    sound = DataSet("speech", ("a",), (1, 6, 6), (0.0,), (1.0,), data.train, data.test)
    with pytest.raises(ValueError, match="images with colours to corrupt, got 'speech'"):
        CorruptedLoader(sound, data.test, boxes_of(), "noise", 4)
