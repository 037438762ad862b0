"""Localization: regions and overlaps against slow code of the test's own, and the figures."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from torch import nn
from torch.testing import assert_close

from comixup.lab.evaluation._cam import ActivationMaps
from comixup.lab.evaluation._localization import (
    box_overlaps,
    find_regions,
    localize,
    upsampled,
)
from comixup.lab.models import build


def slow_regions(mask):
    """Flood fill, pixel by pixel: each region's pixels, the largest region first."""
    left = {tuple(place) for place in np.argwhere(mask)}
    regions = []
    for start in sorted(left):
        if start not in left:
            continue
        region, waiting = set(), [start]
        left.discard(start)
        while waiting:
            y, x = waiting.pop()
            region.add((y, x))
            around = [(y + j, x + i) for j in (-1, 0, 1) for i in (-1, 0, 1)]
            for place in around:
                if place in left:
                    left.discard(place)
                    waiting.append(place)
        regions.append(region)
    return sorted(regions, key=lambda region: (-len(region), min(region)))


def box_of(region):
    rows, columns = zip(*region, strict=True)
    return [min(columns), min(rows), max(columns) + 1, max(rows) + 1]


def slow_overlap(first, second):
    """Intersection over union by counting pixels."""

    def pixels(box):
        x0, y0, x1, y1 = box
        return {(x, y) for x in range(x0, x1) for y in range(y0, y1)}

    one, other = pixels(first), pixels(second)
    return len(one & other) / len(one | other) if one | other else 0.0


@given(arrays(bool, array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=9)))
def test_regions_of_any_masks(masks):
    found = find_regions(masks)
    expected = [slow_regions(mask) for mask in masks]
    assert found.owners.tolist() == [i for i, regions in enumerate(expected) for _ in regions]
    assert found.areas.tolist() == [len(region) for regions in expected for region in regions]
    assert found.boxes.tolist() == [box_of(region) for regions in expected for region in regions]


corners = st.tuples(*[st.integers(0, 7)] * 4)


@given(corners, st.lists(corners, min_size=1, max_size=3))
def test_overlaps_of_any_boxes(box, truth):
    found = box_overlaps(torch.tensor([box]), torch.tensor([truth]))
    expected = torch.tensor([[slow_overlap(box, other) for other in truth]])
    assert_close(found, expected)


def test_boxes_apart_in_both_directions_do_not_overlap():
    # The official implementation has -2 x -2 pixels in common for these.
    found = box_overlaps(torch.tensor([[0, 0, 2, 2]]), torch.tensor([[[4, 4, 6, 6]]]))
    assert found.tolist() == [[0.0]]


def test_upsampled_maps_go_from_0_to_1_and_flat_ones_show_nothing():
    maps = torch.stack((torch.arange(9.0).view(3, 3) * 40 - 100, torch.full((3, 3), 0.3)))
    large = upsampled(maps, (12, 15))
    assert large.shape == (2, 12, 15)
    assert large[0].min() == 0
    assert large[0].max() == 1
    assert (large[1] == 0).all()
    assert (large[0].diff(dim=0) >= -1e-6).all()


class Painter(nn.Module):
    """Its map of class c is channel c of the image, its score the channel's mean."""

    def __init__(self):
        super().__init__()
        self.maps, self.pool, self.flat = nn.Identity(), nn.AdaptiveAvgPool2d(1), nn.Flatten()

    def forward(self, images):
        return self.flat(self.pool(self.maps(images)))


def scene(*boxes, heights=None, size=20):
    """A map with rectangles on 0."""
    image = torch.zeros(size, size)
    for number, (x0, y0, x1, y1) in enumerate(boxes):
        image[y0:y1, x0:x1] = 1.0 if heights is None else heights[number]
    return image


def painted():
    """Four images of two classes: right and found, wrong and found, right and not, without box."""
    big, small, none = (2, 2, 12, 12), (15, 15, 19, 19), torch.zeros(20, 20)
    images = torch.stack(
        [
            torch.stack((scene(big, small), none)),
            torch.stack((scene(big, size=20) * 0.1, scene((0, 0, 20, 20)))),
            torch.stack((none, scene(big, small))),
            torch.stack((none, scene(big))),
        ]
    )
    boxes = torch.tensor([[big, (0, 0, 0, 0)], [big, small], [small, small], [(0, 0, 0, 0)] * 2])
    return images, torch.tensor([0, 0, 1, 1]), boxes


def test_figures_of_painted_maps():
    images, targets, boxes = painted()
    batches = [(images[:3], targets[:3]), (images[3:], targets[3:])]
    seen = []
    found = localize(ActivationMaps(Painter().eval(), images), batches, boxes, after=seen.append)
    assert seen == [3, 4]
    assert (found.images, found.left_out) == (3, 1)
    assert found.indices.tolist() == [0, 1, 2]
    assert found.boxes[0].tolist() == [2, 2, 12, 12]
    assert_close(found.ious, torch.tensor([1.0, 1.0, 0.0]))
    assert_close(found.gt_known, 200 / 3)
    assert_close(found.top1_loc, 100 / 3)
    # The third image's object is its second region, which counts for this figure alone.
    assert_close(found.max_box_acc_v2, 100.0)
    low, high = found.gt_known_interval
    assert 0 < low < 200 / 3 < high < 100


def test_baselines_of_painted_maps():
    images, targets, boxes = painted()
    found = localize(ActivationMaps(Painter().eval(), images), [(images, targets)], boxes)
    whole, centre = found.baselines
    assert whole.ious.tolist() == pytest.approx([0.25, 0.25, 0.04])
    assert whole.gt_known == 0
    middle = [3, 3, 17, 17]
    assert centre.boxes.tolist() == [middle] * 3
    expected = slow_overlap(middle, (2, 2, 12, 12))
    assert centre.ious[0].item() == pytest.approx(expected)
    assert centre.left_out == 1


def test_thresholds_are_those_of_the_map_and_the_best_is_taken():
    # Around the object is a halo of 0.6 of its height: it is found above that, and not below.
    image = scene((0, 0, 20, 20), (5, 5, 9, 9), heights=(0.6, 1.0))
    image[0, 0] = 0
    images, boxes = torch.stack((image, image * 0))[None], torch.tensor([[[5, 5, 9, 9]]])
    found = localize(ActivationMaps(Painter().eval(), images), [(images, torch.tensor([0]))], boxes)
    assert found.boxes.tolist() == [[0, 0, 20, 20]]
    assert found.gt_known == 0
    assert found.max_box_acc_v2 == 100


def test_a_flat_map_finds_nothing():
    images, boxes = torch.zeros(1, 2, 8, 8), torch.tensor([[[0, 0, 8, 8]]])
    found = localize(ActivationMaps(Painter().eval(), images), [(images, torch.tensor([0]))], boxes)
    assert found.boxes.tolist() == [[0, 0, 0, 0]]
    assert found.ious.tolist() == [0.0]
    assert found.baselines[0].gt_known == 100


def test_batches_do_not_matter():
    torch.manual_seed(0)
    model, images = build("small", 5, shape=(3, 64, 64)).eval(), torch.rand(7, 3, 64, 64)
    targets, boxes = torch.arange(7) % 5, torch.tensor([[[10, 5, 50, 40]]]).repeat(7, 1, 1)
    boxes[3] = 0
    maps_of = ActivationMaps(model, images)
    whole = localize(maps_of, [(images, targets)], boxes)
    parts = zip(images.split(3), targets.split(3), strict=True)
    assert_close(localize(maps_of, parts, boxes).ious, whole.ious)
    grad_cam = ActivationMaps(model, images, method="grad-cam")
    grad = localize(grad_cam, [(images, targets)], boxes)
    assert (grad.name, grad.images) == ("Grad-CAM", 6)
