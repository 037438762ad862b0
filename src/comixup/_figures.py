"""Writing matplotlib's figures."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from comixup._atomic_write import atomic_write, make_folder

SUFFIXES = (".png", ".pdf", ".svg")
DPI = 110


def write_figure(figure: Figure, path: Path, dpi: int = DPI) -> None:
    """Writes a figure to a .png, .pdf or .svg file atomically, creating its folder if need be."""
    path = Path(path)
    check_suffix(path)
    picture = io.BytesIO()
    with style.context("default"):
        figure.savefig(picture, format=path.suffix[1:], dpi=dpi)
    make_folder(path.parent)
    atomic_write(path, picture.getvalue())


def check_suffix(path: Path, name: str = "path") -> None:
    """Rejects a path that does not end as a figure's file does."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"`{name}` must end in one of {', '.join(SUFFIXES)}, got {path}.")


def shortened(text: str, letters: int) -> str:
    """Returns a text of at most so many letters, with an ellipsis if something is left out.

    >>> shortened("sweet pepper", 7)
    'sweet…'
    """
    return text if len(text) <= letters else f"{text[: letters - 1].rstrip()}…"
