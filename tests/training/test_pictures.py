"""Pictures of a run: what is on them, and that they are written whole."""

import os
import pickle
from pathlib import Path

import matplotlib as mpl
import matplotlib.image as mpl_image
import numpy as np
import pytest
import torch
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from torch.testing import assert_close

from comixup import CoMixup, spectral_residual
from comixup.training._pictures import (
    MAX_LINE,
    batch_figure,
    caption,
    curves_figure,
    draw_batch,
    draw_curves,
)

pytestmark = pytest.mark.usefixtures("drawn")

NAMES = ["maple_tree", "oak_tree", "fox", "a_class_with_a_very_long_name", "$x_1$"]


def history(epochs=6, **more):
    return [
        {
            "epoch": epoch,
            "lr": 0.2 if epoch < 4 else 0.02,
            "train_loss": 4.0 / epoch,
            "train_error": 90.0 - 2 * epoch,
            "test_error": 80.0 - 3 * epoch,
            "test_loss": 3.0 / epoch,
            "seconds": 12.0,
        }
        | {name: values[epoch - 1] for name, values in more.items()}
        for epoch in range(1, epochs + 1)
    ]


def lines(ax):
    """What is drawn, by the first word of its name in the legend."""
    return {
        line.get_label().split(":")[0]: np.column_stack(line.get_data()).tolist()
        for line in ax.get_lines()
    }


def labels(figure):
    return [ax.get_ylabel() for ax in figure.axes]


def batch(m=6, channels=3, size=(8, 8), seed=0):
    draw = torch.Generator().manual_seed(seed)
    images = torch.rand(m, channels, *size, generator=draw)
    targets = torch.rand(m, len(NAMES), generator=draw)
    return images, images.flip(0), targets / targets.sum(1, keepdim=True)


def read(path):
    pixels = torch.from_numpy(mpl_image.imread(path).copy())
    return pixels[..., :3]


def test_curves_show_every_error_and_loss_and_the_learning_rate():
    figure = curves_figure(history(validation_error=[70.0] * 6), "A run")
    assert labels(figure) == ["error, %", "loss", "learning rate"]
    error, loss, rate = figure.axes
    assert list(lines(error)) == ["training", "validation", "test"]
    assert lines(error)["test"] == [[e, 80.0 - 3 * e] for e in range(1, 7)]
    assert lines(error)["validation"] == [[e, 70.0] for e in range(1, 7)]
    assert lines(loss)["training"] == [[e, 4.0 / e] for e in range(1, 7)]
    assert [text.get_text() for text in error.get_legend().get_texts()] == [
        "training: 78.00 % at the end",
        "validation: 70.00 % at the end",
        "test: 62.00 % at the end",
    ]
    assert rate.get_xlabel() == "epoch"
    assert figure.get_suptitle() == "A run"
    assert "mixed" in loss.get_title(loc="left")
    assert len({line.get_color() for line in error.get_lines()}) == 3
    assert len({line.get_linestyle() for line in error.get_lines()}) == 3


def test_the_learning_rate_is_that_of_the_epoch_at_each_place():
    (line,) = curves_figure(history(), "A run").axes[-1].get_lines()
    steps = np.column_stack(line.get_data())
    assert line.get_drawstyle() == "steps-pre"  # each value holds up to its own place
    edges = steps[:, 0]
    for epoch in range(1, 7):
        value = steps[np.searchsorted(edges, epoch), 1]
        assert value == (0.2 if epoch < 4 else 0.02)
    assert (edges[0], edges[-1]) == (0.5, 6.5)


def test_what_is_missing_is_left_out():
    rows = [{"epoch": e, "test_error": 50.0 - e} for e in (1, 2, 3)]
    figure = curves_figure(rows, "A run")
    assert labels(figure) == ["error, %"]
    assert list(lines(figure.axes[0])) == ["test"]


def test_gaps_and_values_that_are_not_finite_are_left_out():
    rows = history()
    del rows[1]["test_error"]
    rows[2]["test_error"] = float("nan")
    rows[3]["train_loss"] = float("inf")
    error, loss, _ = curves_figure(rows, "A run").axes
    assert [epoch for epoch, _ in lines(error)["test"]] == [1, 4, 5, 6]
    assert [epoch for epoch, _ in lines(loss)["training"]] == [1, 2, 3, 5, 6]


def test_losses_of_very_different_sizes_are_on_a_logarithmic_axis():
    figure = curves_figure(history(train_loss=[0.05, 0.04, 0.03, 0.02, 0.02, 0.01]), "A run")
    assert labels(figure)[1] == "loss (log scale)"
    assert [ax.get_yscale() for ax in figure.axes] == ["linear", "log", "linear"]


def test_zero_and_negative_losses_stay_on_a_linear_axis_and_in_sight():
    figure = curves_figure(history(train_loss=[1.0, 0.5, 0.0, -0.1, -0.2, -0.3]), "A run")
    loss = figure.axes[1]
    assert loss.get_yscale() == "linear"
    assert loss.get_ylim()[0] <= -0.3
    assert loss.get_ylim()[1] > 3.0


def test_one_epoch_is_seen():
    figure = curves_figure(history(1), "A run")
    error, _, rate = figure.axes
    assert {line.get_marker() for line in error.get_lines()} == {"o"}
    assert error.get_xlim() == (0.5, 1.5)
    (line,) = rate.get_lines()
    assert len(line.get_xdata()) == 2
    assert [place for place in rate.get_xticks() if 0.5 <= place <= 1.5] == [1.0]


def test_curves_of_zeros_can_be_drawn(tmp_path):
    draw_curves([{"epoch": 1, "test_error": 0.0, "lr": 0.0}], tmp_path / "zero.png", "Perfect")
    assert (tmp_path / "zero.png").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "`history` must have a row for each epoch"),
        ([{"epoch": 1, "seconds": 3.0}], r"`history` must have finite numbers.*'seconds'"),
        ([{"epoch": 1, "test_error": float("nan")}], "`history` must have finite numbers"),
    ],
)
def test_rejects_histories(rows, message):
    with pytest.raises(ValueError, match=message):
        curves_figure(rows, "A run")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ([0.38, 0, 0.62, 0, 0], "0.62 fox + 0.38 maple tree"),
        ([0, 1, 0, 0, 0], "1.00 oak tree"),
        ([0.04, 0.06, 0.9, 0, 0], "0.90 fox + 0.06 oak tree"),
        ([0.02, 0.03, 0.95, 0, 0], "0.95 fox"),
        ([0, 0, 0.25, 0.75, 0], "0.75 a class with… +\n0.25 fox"),
        ([0, 0, 0.5, 0, 0.5], "0.50 fox + 0.50 $x 1$"),
        ([1, 1, 0, 0, 0], "1.00 maple tree +\n1.00 oak tree"),
        ([0, 0, 0, 0, 0], "no class has 0.05"),
    ],
)
def test_captions_name_the_classes_with_five_per_cent_or_more(target, words):
    assert caption(torch.tensor(target, dtype=torch.float64), NAMES) == words


def test_long_captions_say_how_many_more_there_are():
    names = [f"class_number_{i}" for i in range(10)]
    text = caption(torch.full((10,), 0.1), names)
    assert text.splitlines() == [
        "0.10 class number 0 +",
        "0.10 class number 1 +",
        "0.10 class number 2 + 7 more",
    ]
    assert all(len(line) <= MAX_LINE for line in text.splitlines())


def shown(figure):
    """The images in a figure, with the text below each."""
    return [(ax.get_images()[0].get_array(), ax.get_xlabel()) for ax in figure.axes]


@pytest.mark.parametrize(("m", "clean", "mixed"), [(1, 1, 1), (6, 6, 6), (30, 10, 20)])
def test_batches_show_clean_images_and_mixed_ones_with_their_targets(m, clean, mixed):
    images, others, targets = batch(m)
    pictures = shown(batch_figure(images, others, targets, NAMES, "A run"))
    assert len(pictures) == clean + mixed
    for i, (pixels, text) in enumerate(pictures[:clean]):
        assert_close(torch.from_numpy(np.asarray(pixels)), images[i].permute(1, 2, 0))
        assert text == ""
    for j, (pixels, text) in enumerate(pictures[clean:]):
        assert_close(torch.from_numpy(np.asarray(pixels)), others[j].permute(1, 2, 0))
        assert text == caption(targets[j], NAMES)


def test_batches_say_how_many_of_how_many():
    figure = batch_figure(*batch(30), NAMES, "A run")
    words = [text.get_text() for text in figure.texts]
    assert words[:3] == [
        "A run",
        "Clean images (10 of 30)",
        "What the model is trained on (20 of 30)",
    ]
    assert "0.05" in words[3]


@pytest.mark.parametrize("size", [(16, 16), (161, 101), (20, 60)], ids=str)
@pytest.mark.parametrize("channels", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_pixels_are_square_and_nothing_overlaps(size, channels):
    figure = batch_figure(*batch(20, channels, size), NAMES, "A run")
    width, height = figure.get_size_inches()
    boxes = [ax.get_position() for ax in figure.axes]
    for box in boxes:
        shape = (box.height * height) / (box.width * width)
        assert_close(shape, size[0] / size[1], rtol=1e-6, atol=0)
    renderer = FigureCanvasAgg(figure).get_renderer()
    whole = [ax.get_tightbbox(renderer) for ax in figure.axes]
    whole += [text.get_window_extent(renderer) for text in figure.texts]
    for i, one in enumerate(whole):
        assert one.x0 >= 0
        assert one.y0 >= 0
        assert one.x1 <= figure.bbox.x1
        assert one.y1 <= figure.bbox.y1
        assert not any(one.overlaps(other) for other in whole[i + 1 :])


def test_one_channel_is_drawn_in_false_colours_over_the_range_of_the_clean_images():
    images, _, targets = batch(6, 1)
    images = 10 * images - 5  # not colours: a spectrogram in decibels
    pictures = [
        ax.get_images()[0] for ax in batch_figure(images, images / 2, targets, NAMES, "A run").axes
    ]
    assert {picture.get_cmap().name for picture in pictures} == {"viridis"}
    bounds = {picture.get_clim() for picture in pictures}
    assert bounds == {(float(images.min()), float(images.max()))}


def test_colours_out_of_range_are_cut_off():
    images, _, targets = batch(2)
    figure = batch_figure(3 * images - 1, images, targets, NAMES, "A run")
    pixels = np.asarray(shown(figure)[0][0])
    assert (pixels.min(), pixels.max()) == (0, 1)


def test_tensors_in_half_precision_and_with_gradients_are_welcome_and_unchanged():
    images, mixed, targets = batch()
    images = images.bfloat16().requires_grad_()
    before = images.detach().clone()
    batch_figure(images, mixed.half(), targets.half(), NAMES, "A run")
    assert torch.equal(images.detach(), before)


def test_files_are_pictures_of_a_sensible_size(tmp_path):
    draw_batch(*batch(20), NAMES, tmp_path / "new" / "batch.png", "A run, $100")
    draw_curves(history(), tmp_path / "curves.png", "A run, $100_2$")
    for path in (tmp_path / "new" / "batch.png", tmp_path / "curves.png"):
        assert path.read_bytes().startswith(b"\x89PNG\r\n")
        pixels = read(path)
        assert min(pixels.shape[:2]) > 600
        assert max(pixels.shape[:2]) < 2000
        assert 0.2 < (pixels == 1).all(-1).double().mean() < 0.97
    colours = read(tmp_path / "new" / "batch.png").mul(255).long() @ torch.tensor([65536, 256, 1])
    assert len(colours.unique()) > 500
    assert sorted(p.name for p in tmp_path.iterdir()) == ["curves.png", "new"]  # nothing is left


def test_the_users_style_does_not_change_the_picture(tmp_path):
    draw_curves(history(), tmp_path / "plain.png", "A run")
    with mpl.rc_context({"text.color": "white", "axes.facecolor": "black", "font.size": 30}):
        draw_curves(history(), tmp_path / "styled.png", "A run")
    assert_close(read(tmp_path / "styled.png"), read(tmp_path / "plain.png"))


def test_an_old_picture_is_replaced_whole(tmp_path):
    path = tmp_path / "curves.png"
    draw_curves(history(2), path, "A run")
    old, kept = path.read_bytes(), tmp_path / "kept.png"
    os.link(path, kept)  # a reader that has the old file open
    draw_curves(history(6), path, "A run")
    assert kept.read_bytes() == old
    assert path.read_bytes() != old


def test_figures_belong_to_no_window():
    for figure in (curves_figure(history(), "A run"), batch_figure(*batch(), NAMES, "A run")):
        assert type(figure.canvas) is FigureCanvasBase
        assert figure.canvas.manager is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": torch.rand(6, 2, 8, 8)}, r"`images` must have shape \(batch, 1 or 3, height"),
        ({"images": torch.rand(6, 3, 8)}, r"`images` must have shape"),
        ({"mixed": torch.rand(0, 3, 8, 8)}, r"`mixed` must have shape.*got \(0, 3, 8, 8\)"),
        ({"mixed": torch.rand(6, 3, 8, 9)}, r"`mixed` must have images of the size of `images`"),
        ({"targets": torch.rand(6, 4)}, r"`targets` must have shape \(6, 5\).*got \(6, 4\)"),
        ({"targets": torch.zeros(6).long()}, r"`targets` must have shape \(6, 5\).*got \(6,\)"),
    ],
)
def test_rejects_batches(change, message):
    arguments = dict(zip(("images", "mixed", "targets"), batch(), strict=True)) | change
    with pytest.raises(ValueError, match=message):
        batch_figure(**arguments, classes=NAMES, title="A run")


def test_rejects_other_formats(tmp_path):
    with pytest.raises(ValueError, match=r"`path` must end in one of .png, .*, got .*curves.jpg"):
        draw_curves(history(), tmp_path / "curves.jpg", "A run")


@pytest.mark.data
def test_a_real_batch_of_cifar_100(tmp_path):
    folder = Path(os.environ["COMIXUP_DATA"]) / "cifar-100-python"
    part = pickle.loads((folder / "test").read_bytes(), encoding="latin1")
    names = pickle.loads((folder / "meta").read_bytes(), encoding="latin1")["fine_label_names"]
    images = torch.from_numpy(part["data"][:20]).view(-1, 3, 32, 32) / 255
    targets = torch.tensor(part["fine_labels"][:20])
    mixer = CoMixup(100, generator=torch.Generator().manual_seed(0))
    mixed, soft = mixer(images, targets, spectral_residual(images))
    figure = batch_figure(images, mixed, soft, names, "CIFAR-100")
    assert len(figure.axes) == 30
    own = {names[index].replace("_", " ") for index in targets.tolist()}
    for _, text in shown(figure)[10:]:
        parts = text.replace("\n", " ").split(" + ")
        assert {part.split(" ", 1)[1] for part in parts} <= own
        assert 0.85 <= sum(float(part.split()[0]) for part in parts) <= 1.02
    draw_batch(images, mixed, soft, names, tmp_path / "batch.png", "CIFAR-100")
    assert read(tmp_path / "batch.png").std() > 0.1
