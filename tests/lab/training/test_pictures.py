"""Pictures of a run: what is on them, and that they are written whole."""

import matplotlib.image as mpl_image
import numpy as np
import pytest
import torch

from comixup._figures import write_figure
from comixup.lab.training._report import curves_figure

pytestmark = pytest.mark.usefixtures("drawn")


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


def test_gaps_and_values_that_are_not_finite_are_left_out():
    rows = history()
    del rows[1]["test_error"]
    rows[2]["test_error"] = float("nan")
    rows[3]["train_loss"] = float("inf")
    error, loss, _ = curves_figure(rows, "A run").axes
    assert [epoch for epoch, _ in lines(error)["test"]] == [1, 4, 5, 6]
    assert [epoch for epoch, _ in lines(loss)["training"]] == [1, 2, 3, 5, 6]


def test_zero_and_negative_losses_stay_on_a_linear_axis_and_in_sight():
    figure = curves_figure(history(train_loss=[1.0, 0.5, 0.0, -0.1, -0.2, -0.3]), "A run")
    loss = figure.axes[1]
    assert loss.get_yscale() == "linear"
    assert loss.get_ylim()[0] <= -0.3
    assert loss.get_ylim()[1] > 3.0


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


def test_files_are_pictures_of_a_sensible_size(tmp_path):
    path = tmp_path / "new" / "curves.png"
    write_figure(curves_figure(history(), "A run, $100_2$"), path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    pixels = read(path)
    assert min(pixels.shape[:2]) > 600
    assert max(pixels.shape[:2]) < 2000
    assert 0.2 < (pixels == 1).all(-1).double().mean() < 0.97
    assert [p.name for p in path.parent.iterdir()] == ["curves.png"]  # nothing is left
