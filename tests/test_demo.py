"""Runs the demonstration in its quick form, and checks what it prints and draws."""

import csv
import importlib
from pathlib import Path
from statistics import mean

import matplotlib.image as mpl_image
import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from comixup import Labelling
from comixup.lab.explorer import Batch

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def demo(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    threads = torch.get_num_threads()
    yield importlib.import_module("demo")
    torch.set_num_threads(threads)


@pytest.fixture
def training(demo):
    return importlib.import_module("demo_training")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # as for users: matplotlib has one on torch's tensors
@pytest.mark.usefixtures("drawn")
def test_a_quick_run_draws_a_picture_in_many_colours(demo, tmp_path, capsys):
    picture = tmp_path / "new" / "demo.png"
    demo.main(["--quick", "--out", str(picture)])
    beginnings = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()[-4:]]
    assert (beginnings[0], beginnings[3]) == ("Calibration", "Picture")
    pixels = torch.from_numpy(mpl_image.imread(picture).copy())[..., :3]
    assert min(pixels.shape[:2]) > 500
    assert len(pixels.flatten(0, 1).unique(dim=0)) > 500
    assert 0.2 < (pixels == 1).all(-1).double().mean() < 0.9  # white paper, but not only


def test_calibration_error_is_that_of_torchmetrics(training):
    generator = torch.Generator().manual_seed(0)
    logits = 40 * torch.rand(500, 10, generator=generator)  # some are sure to all digits
    targets = torch.randint(10, (500,), generator=generator)
    own = training.calibration_error(training.binned(logits.softmax(1), targets))
    theirs = multiclass_calibration_error(logits.softmax(1), targets, 10, n_bins=10, norm="l1")
    assert own == pytest.approx(100 * theirs.item(), rel=1e-5)


def test_the_results_page_has_the_counts_of_the_committed_runs(demo):
    with (EXAMPLES.parent / "docs/results/demo.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    sets = sorted({row["set"] for row in rows})
    assert len(sets) == 20
    page = (EXAMPLES.parent / "docs/results.md").read_text()
    for metric, name in demo.COUNTED.items():
        held = 0
        for number in sets:
            means = [
                mean(float(r[metric]) for r in rows if (r["set"], r["method"]) == (number, m.name))
                for m in demo.METHODS
            ]
            held += means[2] < min(means[:2])
        assert f"| {name} | {held} of 20 |" in page
        assert held >= 19 or metric not in demo.CLAIMS


def test_the_picture_has_a_border_and_a_bar_for_every_output(demo):
    picture = importlib.import_module("demo_picture")
    half = Labelling(torch.tensor([[[[0]], [[1]]], [[[2]], [[2]]]]), num_inputs=8)
    images, maps = torch.rand(8, 3, 28, 28), torch.rand(8, 28, 28)
    batch = Batch(images, torch.arange(8), tuple("abcdefgh"), tint=False, call="")
    targets = torch.zeros(2, 8)
    targets[0, :2], targets[1, 2] = 0.5, 1.0
    run = demo.Result(4.0, 90.0, 18.0, 25.0, 0.5, 0.0, 2.0, torch.zeros(11, 3))
    runs = {method: [run, run] for method in demo.METHODS}
    figure = picture.draw(batch, maps, half, targets, runs)
    page = figure.axes[0]
    dashed = [c for c in page.collections if c.get_linestyle()[0][1] is not None]
    assert len(dashed) == 1  # the second colour of the blend
    written = [text.get_text() for text in page.texts]
    assert [written.count(word) for word in ("a", "b", "c", "50%", "100%")] == [1, 1, 1, 2, 1]
