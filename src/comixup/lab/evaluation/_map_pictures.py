"""Pictures of what a network looked at: an image, and its activation map over it."""

from __future__ import annotations

from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure
from torch import Tensor

from comixup._figures import shortened, write_figure
from comixup.lab.evaluation._localisation import upsampled

OPACITY = 0.5
"""Of maps over images."""
PANEL, HEAD = 2.4, 0.35
"""Inches: of an image's side, and of the title above it."""
MAX_TITLE = 60
"""Letters."""


def draw_map(view: Tensor, heat: Tensor, title: str, path: Path) -> None:
    """Writes a PNG file with an image as the network sees it and, beside it, its activation map.

    Args:
        view: (1 or 3, H, W) uint8.
        heat: (h, w) the map, of any range.
        title: what was predicted.
        path: where to.
    """
    pixels = view.expand(3, -1, -1).permute(1, 2, 0).numpy()
    large = upsampled(heat[None], (view.shape[1], view.shape[2]))[0].numpy()
    with style.context("default"):
        figure = Figure((2 * PANEL, PANEL + HEAD), facecolor="white")
        height = PANEL / (PANEL + HEAD)
        for column in range(2):
            ax = figure.add_axes((column / 2 + 0.01, 0.01, 0.48, height - 0.02))
            ax.set_axis_off()
            ax.imshow(pixels)
            if column:
                ax.imshow(large, cmap="magma", alpha=OPACITY)
        words = shortened(title, MAX_TITLE)
        figure.text(0.02, 0.985, words, va="top", fontsize=10, weight="bold", parse_math=False)
    write_figure(figure, path)
