"""Runs the demonstration in its quick form, and checks what it prints and draws."""

import contextlib
import importlib
import io
import re
import warnings
from pathlib import Path

import matplotlib.image as mpl_image
import pytest
import torch

from comixup import Labelling
from pictures import drawing

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def demo(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("demo")


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """Returns what a quick run printed, and where it drew."""
    picture, printed = tmp_path_factory.mktemp("demo") / "new" / "demo.png", io.StringIO()
    threads = torch.get_num_threads()
    with (
        pytest.MonkeyPatch.context() as patch,
        drawing(),
        contextlib.redirect_stdout(printed),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")  # as for users: matplotlib has one on torch's tensors
        patch.syspath_prepend(str(EXAMPLES))
        importlib.import_module("demo").main(["--quick", "--out", str(picture)])
    torch.set_num_threads(threads)
    return printed.getvalue(), picture


@pytest.mark.slow
def test_picture_is_drawn_in_many_colours(quick_run):
    pixels = torch.from_numpy(mpl_image.imread(quick_run[1]).copy())[..., :3]
    assert min(pixels.shape[:2]) > 500
    assert len(pixels.flatten(0, 1).unique(dim=0)) > 500
    assert 0.2 < (pixels == 1).all(-1).double().mean() < 0.9  # white paper, but not only


@pytest.mark.slow
def test_table_has_both_methods_and_plain_images_count_as_one_input(quick_run):
    rows = {
        line.split("│")[1].strip(): [float(cell.split("±")[0]) for cell in line.split("│")[2:4]]
        for line in quick_run[0].splitlines()
        if line.startswith("│")
    }
    assert all(0 <= error <= 100 for error in rows["error, %"])
    assert rows["inputs per training image"][0] == 1
    assert rows["saliency per training image"][0] == 1
    assert rows["inputs per training image"][1] >= 1
    assert min(rows["seconds per epoch"]) >= 0


def test_table_says_the_mean_and_the_spread(demo):
    runs = [demo.Result(4.0, 8.0, 0.2, 0.1), demo.Result(5.0, 8.0, 0.2, 0.1)]
    table = demo.table({"without": runs, "with Co-Mixup": runs})
    assert list(table.columns[1].cells)[:3] == ["8.00", "4.50 ± 0.71", "0.200"]


@pytest.mark.parametrize(
    ("mixed", "words"),
    [
        ((3.0, 4.0), "lowered the error with every seed, by 1.00 points"),
        ((5.0, 7.0), "raised the error with every seed, by 1.50 points"),
        ((3.0, 7.0), "fell with 1 and rose with 1 of 2 seeds, a rise of 0.50 points"),
        ((4.0, 5.0), "no clear answer"),
    ],
)
def test_verdict_follows_from_the_numbers(demo, mixed, words):
    without = [demo.Result(error, 9.0, 0.2, 0.1) for error in (4.0, 5.0)]
    with_it = [demo.Result(error, 7.0, 0.2, 0.3) for error in mixed]
    text = demo.verdict({"without": without, "with Co-Mixup": with_it})
    assert words in text
    assert "In clutter, Co-Mixup lowered the error with every seed, by 2.00 points" in text
    assert "3.0 times as long" in text


def test_clutter_replaces_a_quarter_of_each_digit_by_another(demo):
    images = torch.arange(1.0, 9.0).view(8, 1, 1, 1).expand(8, 1, 28, 28)
    cluttered, targets = demo.in_clutter(images, torch.arange(8))
    same = (cluttered == images).flatten(1).double().mean(1)
    assert set(same.tolist()) <= {0.75, 1.0}  # 1: the other one may be the digit itself
    assert (same == 0.75).sum() >= 4
    assert targets.tolist() == list(range(8))


def test_parts_of_the_data_do_not_overlap(demo):
    rows = [row for part in demo.PARTS.values() for row in range(part.start, part.stop)]
    assert sorted(rows) == list(range(500))


def test_bad_settings_are_refused(demo, capsys):
    with pytest.raises(SystemExit):
        demo.main(["--images-per-class", "0"])
    assert re.search(r"--images-per-class must be 1 to 200", capsys.readouterr().err)


def test_a_blend_shows_the_mean_of_two_colours(demo):
    paper = importlib.import_module("demo_picture").tint(torch.zeros(10, 1, 28, 28))
    half = Labelling(torch.tensor([[[[0]], [[1]]]]), num_inputs=10)
    torch.testing.assert_close(half.mix_images(paper)[0], (paper[0] + paper[1]) / 2)
