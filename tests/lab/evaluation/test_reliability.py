"""Reliability diagrams: what is drawn where."""

import math

import numpy as np
import pytest
from matplotlib.colors import same_color

from comixup.lab._runs import Bin, RunRecord
from comixup.lab.evaluation._pictures import draw_reliability, pooled, reliability_figure

pytestmark = pytest.mark.usefixtures("drawn")

EMPTY = Bin(0, math.nan, math.nan)
BINS = (EMPTY, Bin(10, 0.25, 0.1), EMPTY, Bin(40, 0.625, 0.5), Bin(100, 0.95, 0.75))


def run(bins=BINS, ece=12.5):
    return RunRecord("vanilla", 0, {"ece": ece}, bins=bins)


def lines(ax):
    diagonal, line = ax.get_lines()
    return diagonal, line


def test_a_panel_has_the_diagonal_and_the_classifier():
    (ax,) = reliability_figure({"Vanilla": [run()]}).axes
    diagonal, line = lines(ax)
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    assert same_color(diagonal.get_color(), "#D55E00")
    assert diagonal.get_linestyle() == ":"
    # Empty bins are passed over.
    np.testing.assert_array_equal(line.get_xydata(), [[0.25, 0.1], [0.625, 0.5], [0.95, 0.75]])
    assert same_color(line.get_color(), "#0072B2")
    assert line.get_linestyle() == "-"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Confidence", "Accuracy")
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 1), (0, 1))


def test_panels_stand_in_a_row_in_their_order():
    panels = {"Vanilla": [run()], "Co-Mixup": [run(ece=1.94)], "$a_b$": [run()]}
    figure = reliability_figure(panels)
    assert [ax.get_title() for ax in figure.axes] == list(panels)
    assert [ax.texts[0].get_text() for ax in figure.axes][:2] == ["ECE 12.5 %", "ECE 1.9 %"]
    figure.draw_without_rendering()
    boxes = [ax.get_position() for ax in figure.axes]
    assert len({round(box.y0, 6) for box in boxes}) == 1
    assert [box.x0 for box in boxes] == sorted(box.x0 for box in boxes)


def test_seeds_are_pooled_by_their_counts():
    other = (Bin(2, 0.05, 0.5), Bin(30, 0.29, 0.5), EMPTY, EMPTY, Bin(100, 0.93, 0.85))
    found = pooled([BINS, other])
    assert found[0] == other[0]
    assert found[1].count == 40
    assert found[1].confidence == pytest.approx((10 * 0.25 + 30 * 0.29) / 40)
    assert found[1].accuracy == pytest.approx((1 + 15) / 40)
    assert found[2].count == 0
    assert math.isnan(found[2].accuracy)
    (ax,) = reliability_figure({"a": [run(), run(other, ece=14.5)]}).axes
    assert ax.texts[0].get_text() == "ECE 13.5 ± 1.4 %\n2 runs"
    assert len(lines(ax)[1].get_xdata()) == 4


def test_one_bin_is_a_point():
    (ax,) = reliability_figure({"a": [run((Bin(5, 0.9, 1.0),))]}).axes
    assert lines(ax)[1].get_marker() == "o"


def test_the_band_is_wide_where_there_are_few():
    few, many = (Bin(count, 0.5, 0.5) for count in (4, 4000))
    (ax,) = reliability_figure({"a": [run((few, many))]}).axes
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.min() < 0.2
    assert heights.max() > 0.8


@pytest.mark.parametrize(
    ("suffix", "begin"), [(".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")]
)
def test_files_are_written_whole(tmp_path, suffix, begin):
    path = tmp_path / "new" / f"reliability{suffix}"
    draw_reliability({"a": [run()]}, path)
    assert path.read_bytes().startswith(begin)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_bad_input_gets_an_error_message(tmp_path):
    with pytest.raises(ValueError, match="`panels` must have runs for every title, got none"):
        reliability_figure({})
    with pytest.raises(ValueError, match=r"got none for \['b'\]"):
        reliability_figure({"a": [run()], "b": []})
    with pytest.raises(ValueError, match=r"`path` must end in one of .png, .pdf, .svg, got .*gif"):
        draw_reliability({"a": [run()]}, tmp_path / "a.gif")
    with pytest.raises(ValueError, match=r"as many bins each, got \[5, 1\]"):
        reliability_figure({"a": [run(), run((Bin(5, 0.9, 1.0),))]})


def test_many_panels_stand_in_rows():
    figure = reliability_figure({str(k): [run()] for k in range(10)})
    assert len(figure.axes) == 10
    rows = {round(ax.get_subplotspec().rowspan.start) for ax in figure.axes}
    assert rows == {0, 1}
    assert figure.get_size_inches()[0] < 12
