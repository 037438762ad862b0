"""Pictures of maps, boxes and corrupted backgrounds: what is on them, and where."""

import sys
from pathlib import Path

import matplotlib.image as mpl_image
import pytest
import torch

sys.path.append(str(Path(__file__).parents[1] / "data"))

from comixup.lab.data import DataSet
from comixup.lab.evaluation._cam import ActivationMaps
from comixup.lab.evaluation._localization import localize
from comixup.lab.evaluation._pictures import (
    FOUND,
    SHOWN,
    TRUE,
    Row,
    draw_corruptions,
    draw_localization,
    rows_figure,
)
from comixup.lab.models import build
from data_files import memory_split

pytestmark = pytest.mark.usefixtures("drawn")


def outlines(ax):
    return [(patch.get_linestyle(), patch.get_bbox().bounds) for patch in ax.patches]


def small_set(count, size=32, channels=3):
    split = memory_split(count, size=(size, size), channels=channels)
    names = ("a", "b", "c", "$d_1$", "a class with a very long name")
    return DataSet("small", names, (channels, size, size), split.mean, split.std, split, split)


@pytest.mark.parametrize("channels", [1, 3])
def test_boxes_are_drawn_around_their_pixels(channels):
    pixels, heat = torch.rand(3, channels, 8, 12), torch.rand(3, 8, 12)
    found = torch.tensor([[[0, 0, 12, 8]], [[0, 0, 0, 0]], [[2, 3, 4, 5]]])
    truth = torch.tensor([[[1, 1, 5, 4], [0, 0, 0, 0]]]).repeat(3, 1, 1)
    rows = []
    for words, own in (("Best by IoU", slice(2)), ("Worst by IoU", slice(2, 3))):
        boxes = {TRUE: truth[own], FOUND: found[own]}
        rows.append(Row(words, pixels[own], boxes))
        rows.append(Row("", pixels[own], boxes, heat[own], ["x", "y", "z"][own]))
    figure = rows_figure("A model", {TRUE: "true box", FOUND: "found"}, rows)
    axes = figure.axes
    assert len(axes) == 6  # two best, two maps of theirs, a worst one and its map
    true, all_of_it = ("-", (0.5, 0.5, 4, 3)), ("--", (-0.5, -0.5, 12, 8))
    assert outlines(axes[0]) == [true, all_of_it]
    assert outlines(axes[3]) == [true]
    assert outlines(axes[5]) == [true, ("--", (1.5, 2.5, 2, 2))]
    assert [len(ax.images) for ax in axes] == [1, 1, 2, 2, 1, 2]
    assert [ax.get_xlabel() for ax in axes] == ["", "", "x", "y", "", "z"]
    assert {patch.get_edgecolor()[:3] for ax in axes for patch in ax.patches} == {
        tuple(int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)) for colour in (TRUE, FOUND)
    }
    words = [figure.get_suptitle(), *(part.get_suptitle() for part in figure.subfigs)]
    words += [text.get_text() for text in figure.legends[0].texts]
    assert {"A model", "true box", "Best by IoU", "Worst by IoU"} <= set(words)


@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_a_picture_of_the_best_and_the_worst(tmp_path, count):
    torch.manual_seed(0)
    data = small_set(count)
    model = build("small", 5, shape=data.shape).eval()
    boxes = torch.tensor([[[4, 4, 20, 28]]]).repeat(count, 1, 1)
    maps_of = ActivationMaps(model, next(data.test.loader(8).epoch(0))[0])
    result = localize(maps_of, data.test.loader(8).epoch(0), boxes)
    path = tmp_path / "pictures" / "found.png"
    draw_localization(maps_of, data, boxes, result, path, "A model")
    assert mpl_image.imread(path).shape[0] > 200


def test_a_picture_of_corruptions(tmp_path):
    data = small_set(20)
    boxes = torch.tensor([[[4, 4, 20, 28]]]).repeat(20, 1, 1)
    path = tmp_path / "corrupted.png"
    draw_corruptions(data, boxes, path)
    assert mpl_image.imread(path).shape[1] > 100 * SHOWN
    rows = [Row("Clean", torch.rand(2, 3, 4, 4), {TRUE: boxes[:2]})]
    figure = rows_figure("Two", {TRUE: "box"}, rows)
    assert [len(ax.patches) for ax in figure.axes] == [1, 1]


def test_wrong_calls(tmp_path):
    data = small_set(3)
    whole = torch.tensor([[[0, 0, 32, 32]]]).repeat(3, 1, 1)
    draw_corruptions(data, whole, tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()  # nothing to draw
    with pytest.raises(ValueError, match=r"`path` must end in one of \.png"):
        draw_corruptions(data, whole // 2, tmp_path / "a.jpg")
