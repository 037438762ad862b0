"""Matplotlib figures: atomic writing, colors and text width."""

from __future__ import annotations

import bisect
import contextlib
import io
import warnings
from collections.abc import Iterator
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from comixup._atomic_write import atomic_write, make_folder

SUFFIXES = (".png", ".pdf", ".svg")
DPI = 110
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PALETTE = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9", "#F0E442", "#000000")
"""The palette of Okabe and Ito, safe for color-blind readers; its red is vermilion."""
GREY = "#777777"
_POINTS = 72.0
_FONT = "DejaVu Sans"
"""The font of matplotlib's default style, bundled with matplotlib."""
_HINTING = 1.04
"""Factor by which hinted letters may be wider on the screen than their outlines."""


def write_figure(figure: Figure, path: Path, dpi: int = DPI) -> None:
    """Writes a figure to a .png, .pdf or .svg file atomically, creating its folder if needed."""
    path = Path(path)
    check_suffix(path)
    picture = io.BytesIO()
    with style.context("default"), _boxes_for_emoji():
        figure.savefig(picture, format=path.suffix[1:], dpi=dpi)
    make_folder(path.parent)
    atomic_write(path, picture.getvalue())


@contextlib.contextmanager
def _boxes_for_emoji() -> Iterator[None]:
    """Silences the warning about characters that the font lacks, such as emoji in class names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def check_suffix(path: Path, name: str = "path") -> None:
    """Raises unless a path has the suffix of a figure file."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"`{name}` must end in one of {', '.join(SUFFIXES)}, got {path}.")


def shortened(text: str, letters: int) -> str:
    """Returns a text truncated to a number of characters, with an ellipsis.

    >>> shortened("sweet pepper", 7)
    'sweet…'
    """
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}…"


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Returns the width of a line in inches, in matplotlib's default font.

    >>> text_width("maple tree", 12) < text_width("MAPLE TREE", 12) < 1.2
    True
    """
    font = FontProperties(family=_FONT, weight="bold" if bold else "normal", size=size)
    with _boxes_for_emoji():
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(_HINTING * width / _POINTS)


def fitting(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """Returns a line truncated to a width in inches, with an ellipsis.

    >>> fitting("sweet pepper", 1.2, 11), fitting("sweet pepper", 0.7, 11)
    ('sweet pepper', 'sweet…')
    """
    lengths = range(1, len(text) + 1)
    fit = bisect.bisect_right(
        lengths, width, key=lambda n: text_width(shortened(text, n), size, bold=bold)
    )
    return shortened(text, max(fit, 1))
