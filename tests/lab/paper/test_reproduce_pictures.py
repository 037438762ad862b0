"""Pictures of mixed images, drawn with a run's network and images."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

sys.path.append(str(Path(__file__).parents[1] / "training"))

from comixup.lab.paper import ITEMS, Workspace, _pictures
from comixup.lab.paper._analyses import mixed_batches_rows, run_time_rows
from comixup.lab.paper._analysis_report import mixed_batches_figure, run_time_figure
from comixup.lab.paper._images import Images, Photographs
from comixup.lab.paper._pictures import draw_methods, draw_procedure, draw_samples
from comixup.lab.paper._run_job import measured_run
from comixup.lab.paper._trained_tables import Run
from comixup.lab.training import RECIPES
from small_runs import RECIPE, recipe, train_here, write_images
from small_sets import reduced, write_tiny_imagenet


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_images(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def images(data, tmp_path_factory):
    run = train_here(data, tmp_path_factory.mktemp("runs"), chosen=recipe(epochs=1))
    return Images(run, data)


def test_batches_are_the_same_each_time(images):
    for augment in (True, False):
        first, again, other = (images.batch(6, k, augment=augment) for k in (1, 1, 2))
        torch.testing.assert_close(first.images, again.images, rtol=0, atol=0)
        assert not torch.equal(first.images, other.images)
        assert first.saliency.shape == (6, 32, 32)
        assert 0 <= float(first.pixels.min()) <= float(first.pixels.max()) <= 1
        assert set(first.names) <= {f"thing {k}" for k in range(10)}


def test_pictures_are_drawn(images, tmp_path, monkeypatch):
    monkeypatch.setattr(_pictures, "SHEET", 16)
    targets = draw_methods(images, tmp_path / "methods")
    assert [sum(w for n, w in row.items() if n != "method") for row in targets] == pytest.approx(
        [1] * 5
    )
    counts = draw_procedure(images, tmp_path / "procedure")
    assert [sum(n for name, n in row.items() if name != "output") for row in counts] == [16] * 6
    rows = draw_samples(images, tmp_path / "samples")
    for tau in (0.83, 1.0):
        assert sum(row["outputs"] for row in rows if row["tau"] == tau) == 16
    names = {"methods", "procedure"}
    names |= {f"samples-{part}" for part in ("inputs", "outputs", "outputs-large-tau")}
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.png" for name in names}


def test_figure_2_has_its_panels(images, data, tmp_path):
    folder = train_here(data, tmp_path, chosen=recipe(epochs=1))
    rows = mixed_batches_rows(range(2), Images(folder, data), 100)
    assert {row["panel"] for row in rows} == {"arrangement", "method", "tau"}
    assert {row["seeds"] for row in rows} == {2}
    assert all(row["inputs_1"] == 22 for row in rows if row.get("method") == "vanilla")
    figure = mixed_batches_figure(rows)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert [title[:3] for title in titles] == ["(a)", "(b)", "(c)", "(d)"]
    figure.draw_without_rendering()


@pytest.mark.slow
def test_photographs_are_seen_by_a_network_that_knows_imagenet(tmp_path):
    (tmp_path / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (24, 40, 50, 3), dtype=np.uint8)
    for k, array in enumerate(pixels):
        Image.fromarray(array).save(tmp_path / "photos" / f"old_car_{k:04}.jpg")
    photographs = Photographs(tmp_path)
    first, again, other = (photographs.batch(6, k) for k in (1, 1, 2))
    torch.testing.assert_close(first.images, again.images, rtol=0, atol=0)
    assert not torch.equal(first.images, other.images)
    assert first.saliency.shape == (6, 224, 224)
    torch.testing.assert_close(first.images, 2 * first.pixels - 1)  # mean and deviation 0.5
    assert first.names == ["old car"] * 6
    rows = mixed_batches_rows(range(1), photographs, 20)
    assert all(row["inputs_1"] == 20 for row in rows if row.get("method") == "vanilla")


def test_too_few_photographs_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"photos must have 24 photographs or more.*got 0"):
        Photographs(tmp_path)


def test_the_figure_of_times_has_the_papers_lines():
    rows = [
        row
        for m, levels in ((20, 1), (20, 2), (20, 3), (2, 2), (10, 2), (50, 2), (100, 2))
        for row in run_time_rows(range(1), m, levels, repeats=1)
    ]
    left, right = run_time_figure(rows).axes
    assert list(left.lines[1].get_ydata()) == [1.04, 1.21, 1.36]
    assert list(right.lines[1].get_xdata()) == [2, 10, 20, 50, 100]


def test_a_run_is_trained_and_measured(data, tmp_path):
    workspace = Workspace(tmp_path, data)
    row = measured_run(workspace, recipe(epochs=2), "comixup", 1, boxes=False).as_row()
    assert (tmp_path / "runs" / RECIPE / "comixup" / "seed-1" / "result.json").is_file()
    assert row["epochs"] == 2
    assert 0 <= row["error"] <= 100
    counts = [int(part.split(":")[0]) for part in row["bins"].split()]
    assert len(counts) == 10
    assert sum(counts) == 7  # test images
    final = json.loads((tmp_path / "runs" / RECIPE / "comixup/seed-1/result.json").read_text())
    # In full precision, where the logits that are kept have half of it.
    assert (row["ece"], row["nll"]) == tuple(final[n] for n in ("ece", "nll"))
    assert row["cpu_seconds"] > 0


def test_pictures_are_of_the_run_with_the_recipes_own_settings(data, tmp_path, monkeypatch):
    """Not of one with other settings, which lies in the usual folder."""
    monkeypatch.setattr("comixup.lab.paper._run_job.recipe_named", lambda name: recipe(epochs=1))
    workspace, run = Workspace(tmp_path, data), Run(RECIPE, "vanilla", 0)
    usual = tmp_path / "runs" / RECIPE / "vanilla" / "seed-0"
    assert workspace.run_folder(run) == usual
    measured_run(workspace, recipe(epochs=2), "vanilla", 0, boxes=False)
    assert (usual / "result.json").is_file()
    measured_run(workspace, recipe(epochs=1), "vanilla", 0, boxes=False)
    own = workspace.run_folder(run)
    assert own != usual
    assert json.loads((own / "result.json").read_text())["epochs"] == 1


def test_boxes_are_measured_beside_those_that_know_nothing(tmp_path):
    boxed = write_tiny_imagenet(tmp_path / "data", each=3, val=6).parent
    chosen = reduced(RECIPES["tiny-imagenet-small"], batch_size=3)
    row = measured_run(Workspace(tmp_path, boxed), chosen, "vanilla", 0, boxes=True).metrics
    for name in ("top1_loc", "gt_known", "max_box_acc_v2"):
        assert 0 <= row[name] <= 100
        assert {f"whole_{name}", f"centre_{name}"} <= set(row)
    assert {"replaced_error", "noise_error", "added_noise_error"} <= set(row)
    tables = (ITEMS["localization-calibration"], ITEMS["robustness"])
    columns = {entry.metric for table in tables for entry in table.entries}
    assert columns <= set(row)
