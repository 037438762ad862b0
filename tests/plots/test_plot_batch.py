"""Pictures of mixed batches: what is on them, for every method and kind of image."""

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from torch.testing import assert_close

import comixup
from cases import each_case
from comixup import Labelling, plot_batch
from comixup._figures import write_figure
from comixup.plots import COLOURS, colour_of
from comixup.plots._page import borders_of, tinted
from comixup.plots._pictures import caption, masks_of_output

NAMES = ["maple_tree", "oak_tree", "fox", "$x_1$"]
HALVES = Labelling(torch.tensor([[[[0, 1]]], [[[1, 1]]]]), num_inputs=2)
"""Two outputs of two inputs: halves of both, and the second one whole."""
BLEND = Labelling(torch.tensor([[[[0, 1]], [[2, 1]]]]), num_inputs=3)
"""One output of three: the first and the third blended on the left, the second on the right."""


def batch(m=6, channels=3, size=(8, 8), seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.rand(m, channels, *size, generator=draw), torch.arange(m) % len(NAMES)


def mixed_by(mixer, images, targets):
    saliency = comixup.spectral_residual(images) if mixer.needs_saliency else None
    mixer(images, targets, saliency)
    return mixer


def page_of(figure):
    return figure.axes[0]


def texts(figure):
    return [text.get_text() for text in page_of(figure).texts]


def pictures(figure):
    return [torch.from_numpy(np.array(image.get_array())) for image in page_of(figure).images]


def borders(figure):
    """Colours of the borders of outputs, and whether each is dashed."""
    return [
        (to_hex(lines.get_colors()[0]).upper(), lines.get_linestyle()[0][1] is not None)
        for lines in page_of(figure).collections
        if lines.get_linewidths()[0] > 2
    ]


def bars(figure):
    """Colour and width of the segments of bars, in widths of the first output's bar."""
    found = [p for p in page_of(figure).patches if p.get_fill()]
    return [(to_hex(p.get_facecolor()).upper(), p.get_width()) for p in found]


def test_outputs_have_borders_in_the_colours_of_their_inputs():
    images, targets = batch(2)
    figure = plot_batch(images, targets, HALVES, class_names=NAMES, parts=["outputs"])
    one, two = colour_of(0), colour_of(1)
    assert borders(figure) == [(one, False), (two, False), (two, False)]
    first, second = pictures(figure)
    mixed = HALVES.mix_images(images)
    assert_close(first, mixed[0].permute(1, 2, 0))
    assert_close(second, mixed[1].permute(1, 2, 0))


def test_borders_of_blended_cells_are_dashed_in_both_colours():
    figure = plot_batch(*batch(3), BLEND, num_classes=4, parts=["outputs"])
    assert set(borders(figure)) == {
        (colour_of(0), False),
        (colour_of(2), True),
        (colour_of(1), False),
    }


def test_bars_have_the_targets_widths_the_largest_first():
    figure = plot_batch(*batch(2), HALVES, class_names=NAMES, parts=["outputs"])
    (one, left), (two, right), (whole, full) = bars(figure)
    assert (one, two, whole) == (colour_of(0), colour_of(1), colour_of(1))
    np.testing.assert_allclose([left / full, right / full], 0.5)
    assert "50% maple tree, 50% oak tree" in texts(figure)
    assert "100% oak tree" in texts(figure)
    quarter = Labelling(torch.tensor([[[[0, 1, 1, 1]]]]), num_inputs=2)
    (large, width), (small, rest) = bars(plot_batch(*batch(2), quarter, num_classes=4))
    assert (large, small) == (colour_of(1), colour_of(0))
    np.testing.assert_allclose(width / (width + rest), 0.75)


def test_soft_targets_and_several_labels_are_told():
    images, _ = batch(2)
    soft = torch.tensor([[0.75, 0.25, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    figure = plot_batch(images, soft, HALVES, class_names=["fox", *NAMES[1:]])
    assert texts(figure).count("fox + 1") == 2
    assert "88% fox, 62% oak tree" in texts(figure)


def test_weights_by_saliency_are_those_of_the_mixer():
    images, targets = batch(4, size=(16, 16))
    mixer = comixup.CoMixup(4, target_weight="saliency", generator=torch.Generator().manual_seed(0))
    _, soft = mixer(images, targets, comixup.spectral_residual(images))
    figure = plot_batch(images, targets, mixer, parts=["outputs"])
    widths = np.array([width for _, width in bars(figure)])
    own = [w for row in soft for w in sorted(row[row > 0.005].tolist(), reverse=True)]
    np.testing.assert_allclose(widths / widths[0] * own[0], own, rtol=1e-5)


def test_inputs_have_frames_numbers_and_saliency():
    images, targets = batch(3, size=(16, 16))
    mixer = mixed_by(comixup.CoMixup(4), images, targets)
    figure = plot_batch(images, targets, mixer, class_names=NAMES, parts=["inputs"])
    frames = [p for p in page_of(figure).patches if p.get_linewidth() == 3]
    assert [to_hex(p.get_edgecolor()).upper() for p in frames] == list(COLOURS[:3])
    assert texts(figure)[2:] == ["1", "maple tree", "2", "oak tree", "3", "fox"]
    shown = pictures(figure)
    assert len(shown) == 3 * 3  # the image, its cells, its shadow
    assert_close(shown[1], mixer.last.cells[0].float())


def test_a_map_of_the_callers_is_shown_as_it_is():
    images, targets = batch(2)
    maps = torch.rand(2, 5, 7)
    figure = plot_batch(images, targets, HALVES, num_classes=4, saliency=maps, parts=["inputs"])
    assert_close(pictures(figure)[1], maps[0])
    assert list(page_of(figure).collections) == []  # no lines of a grid


@each_case(
    "make",
    [
        lambda: comixup.CoMixup(4),
        lambda: comixup.CoMixup(4, levels=3, num_outputs=3),
        lambda: comixup.PuzzleMix(4, grid=4),
        lambda: comixup.CutMix(4, per_sample=True),
        lambda: comixup.CutMix(4, num_inputs=3),
        lambda: comixup.InputMixup(4, num_inputs=3),
        lambda: comixup.NoMix(4),
    ],
)
def test_every_method_can_be_drawn_and_its_shares_are_those_of_its_masks(make):
    images, targets = batch(6, size=(16, 24))
    mixer = mixed_by(make(), images, targets)
    plan = mixer.last.plan
    count = len(plan.source_ratio())
    figure = plot_batch(images, targets, mixer, class_names=NAMES)
    assert len(pictures(figure)) >= 6 + count
    for j, mask in enumerate(plan.masks):
        inputs, shares = masks_of_output(plan, j)
        whole = torch.zeros(6, *shares.shape[1:], dtype=torch.float64)
        whole[inputs] = torch.from_numpy(shares)
        expected = mask.double().view(6, *(mask.shape[1:] if mask.ndim == 3 else (1, 1)))
        assert_close(whole, expected, rtol=0, atol=1e-6)


def test_images_mixed_inside_the_model_stay_whole_and_that_is_said():
    images, targets = batch(4, size=(16, 16))
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten())
    mixer = comixup.ManifoldMixup(4, layers=["0"]).attach(model)
    mixer(images, targets)
    figure = plot_batch(images, targets, mixer, parts=["outputs"])
    assert borders(figure) == []
    assert_close(pictures(figure)[0], images[0].permute(1, 2, 0))
    assert "Mixed in the model, after 0" in texts(figure)[1]


@pytest.mark.parametrize("size", [(16, 16), (61, 31), (20, 60)], ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_are_square_and_nothing_overlaps_or_leaves_the_page(size, channels):
    images, targets = batch(12, channels, size)
    mixer = mixed_by(comixup.CoMixup(4), images, targets)
    names = ["maple_tree", "oak", "a_class_with_a_very_long_name_and_more", "$x_1$"]
    figure = plot_batch(images, targets, mixer, class_names=names, title="A $100 batch")
    for image in page_of(figure).images:
        left, right, bottom, top = image.get_extent()
        assert_close((bottom - top) / (right - left), size[0] / size[1], rtol=1e-6, atol=0)
    renderer = FigureCanvasAgg(figure).get_renderer()
    words = [t for t in page_of(figure).texts if t.get_bbox_patch() is None]
    boxes = [text.get_window_extent(renderer) for text in words]
    for i, one in enumerate(boxes):
        assert one.x0 >= 0
        assert one.y0 >= 0
        assert one.x1 <= figure.bbox.x1
        assert one.y1 <= figure.bbox.y1
        for k, other in enumerate(boxes[i + 1 :], i + 1):
            assert not one.overlaps(other), (words[i].get_text(), words[k].get_text())


def test_what_colours_cannot_show_is_scaled():
    images, targets = batch(2, 1)
    decibels = 10 * images - 5
    shown = page_of(plot_batch(decibels, targets, HALVES, num_classes=4)).images
    assert {image.get_cmap().name for image in shown if image.get_array().ndim == 2} == {"viridis"}
    assert shown[0].get_clim() == (float(decibels.min()), float(decibels.max()))
    images, targets = batch(2, 3)
    figure = plot_batch(4 * images - 2, targets, HALVES, num_classes=4)
    assert any("Colours are scaled" in words for words in texts(figure))
    assert 0 <= pictures(figure)[0].min() <= pictures(figure)[0].max() <= 1


def test_normalization_is_undone():
    images, targets = batch(2)
    mean, std = (0.5, 0.4, 0.3), (0.2, 0.3, 0.4)
    normal = (images - torch.tensor(mean).view(-1, 1, 1)) / torch.tensor(std).view(-1, 1, 1)
    figure = plot_batch(normal, targets, HALVES, num_classes=4, mean=mean, std=std)
    assert_close(pictures(figure)[0], images[0].permute(1, 2, 0))


def test_ink_has_the_colours_of_the_inputs():
    images, targets = batch(2, 1)
    figure = plot_batch(images, targets, HALVES, num_classes=4, tint=True)
    assert_close(pictures(figure)[0], tinted(images)[0].permute(1, 2, 0))
    half = Labelling(torch.tensor([[[[0]], [[1]]]]), num_inputs=2)
    both = tinted(torch.zeros(2, 1, 8, 8))
    assert_close(half.mix_images(both)[0], (both[0] + both[1]) / 2)


@pytest.mark.usefixtures("drawn")
def test_a_file_is_a_picture_in_many_colours(tmp_path):
    images, targets = batch(10, size=(32, 32))
    mixer = mixed_by(comixup.CoMixup(4), images, targets)
    plot_batch(images, targets, mixer).savefig(tmp_path / "batch.png", dpi=100)
    pixels = mpl.image.imread(tmp_path / "batch.png")[..., :3]
    assert pixels.shape[1] == 1100
    assert len(np.unique((pixels.reshape(-1, 3) * 255).astype(int), axis=0)) > 500


# ---- Parts --------------------------------------------------------------------------------------


def test_borders_follow_pixels_where_cells_are_unequal():
    shares = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    runs = borders_of(shares, (3, 5), (5.0, 3.0), 0.0)
    assert {(run.owners, run.x0, run.x1) for run in runs if run.y0 == run.y1 == 0} == {
        ((0,), 0.0, 0.6),
        ((1,), 0.6, 1.0),
    }


def test_runs_of_one_region_are_one_line_and_meet_in_concave_corners():
    inside = np.zeros((5, 5))
    inside[1:4, 1:4] = 1
    runs = borders_of(np.stack([1 - inside, inside]), (5, 5), (5.0, 5.0), 0.1)
    assert len(runs) == 4 + 4 + 4  # a frame, the hole in it, the box
    level = [run for run in runs if run.y0 == run.y1]
    (hole,) = [run for run in level if run.owners == (0,) and run.y0 == pytest.approx(0.2 - 0.02)]
    np.testing.assert_allclose([hole.x0, hole.x1], [0.2 - 0.02, 0.8 + 0.02])
    (box,) = [run for run in level if run.owners == (1,) and run.y0 == pytest.approx(0.2 + 0.02)]
    np.testing.assert_allclose([box.x0, box.x1], [0.2 + 0.02, 0.8 - 0.02])


def test_long_captions_say_how_many_more_there_are():
    names = [f"class number {i}" for i in range(10)]
    text = caption([0.1] * 10, names, width=2.0)
    assert text.splitlines() == [
        "10% class number 0,",
        "10% class number 1,",
        "10% class number 2, 7 more",
    ]
    assert caption([0.02, 0.01], ["a", "b"], 2.0) == "no class has 5%"


# ---- Mistakes -----------------------------------------------------------------------------------


@each_case(
    ("change", "message"),
    [
        ({"images": torch.rand(2, 2, 8, 8)}, "`images` must have shape (batch, 1 or 3, height"),
        ({"images": torch.rand(2, 3, 8)}, "`images` must have shape (batch, 1 or 3, height"),
        ({"images": torch.rand(5, 3, 8, 8)}, "`images` must be the 2 that were mixed, got 5"),
        ({"targets": torch.tensor([0])}, "`targets` must have shape (2,)"),
        ({"targets": torch.tensor([0, 7])}, "`targets`"),
        ({"class_names": None, "num_classes": None}, "`num_classes`"),
        ({"mean": (0.5,)}, "`mean` and `std` must be given together"),
        ({"mean": (0.5, 0.5), "std": (1.0, 1.0)}, "`mean` must have a number for each of the 3"),
        ({"tint": True}, "`tint` must be False for images of 3 channels"),
        ({"saliency": torch.rand(2, 8)}, "`saliency` must have shape (2, height, width)"),
        ({"parts": ["input"]}, "`parts` must be one of"),
        ({"max_outputs": 0}, "`max_outputs` must be a positive integer"),
    ],
)
def test_rejects(change, message):
    images, targets = batch(2)
    given = {"images": images, "targets": targets, "mixer": HALVES, "class_names": NAMES} | change
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the message is compared below
        plot_batch(**given)
    assert message in str(error.value)


def test_rejects_what_is_no_mixer():
    with pytest.raises(TypeError, match=r"`mixer` must be a mixer that has mixed this batch.*str"):
        plot_batch(*batch(2), "comixup")
    with pytest.raises(RuntimeError, match="`last` must be read after the first batch"):
        plot_batch(*batch(2), comixup.CoMixup(4))


def test_letters_that_the_font_lacks_raise_no_warning(tmp_path, drawn, recwarn):
    images, targets = batch(2)
    figure = plot_batch(images, targets % 2, HALVES, class_names=["\N{OCTOPUS}", "fox"])
    write_figure(figure, tmp_path / "page.png")
    assert not recwarn.list
