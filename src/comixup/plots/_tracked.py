"""A picture that shows whether saliency follows augmentation: each image before and after it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from matplotlib import colormaps, style
from matplotlib.figure import Figure
from torch import Tensor

from comixup.plots._page import Box, Page

SIDE, GAP, MARGIN, HEAD = 1.15, 0.07, 0.12, 0.3
"""Inches: of an image, between two, around all, and of the line above a row."""
_PER_ROW = 10
_CELLS = 8
"""Per side of a map that is drawn: as many as a memory keeps."""
_OPACITY = 0.75
"""Of the most salient cell; the least salient one shows the image as it is."""


def plot_tracked(
    images: Tensor, maps: Tensor, augmented: Tensor, tracked_maps: Tensor, title: str = ""
) -> Figure:
    """Returns a picture of images with their maps over them, and of the same after augmentation.

    Where tracking is right, a map lies on the same object in both.

    Args:
        images: (m, C, H, W) in [0, 1].
        maps: (m, h, w) their saliency.
        augmented: (m, C, H, W) in [0, 1].
        tracked_maps: (m, h, w) the saliency of what these show.
        title: of the picture.
    """
    rows: Sequence[tuple[str, Tensor, Tensor]] = (
        ("Images, with their saliency", images, F.adaptive_avg_pool2d(maps.float(), _CELLS)),
        ("After augmentation, with the saliency remembered for what they show", augmented,
         tracked_maps),
    )  # fmt: skip
    across = min(_PER_ROW, len(images))
    lines = -(-len(images) // across)
    above = HEAD if title else 0.0
    height = 2 * (lines * (SIDE + GAP) + HEAD) + 2 * MARGIN + above
    with style.context("default"):
        page = Page(max(across * (SIDE + GAP) - GAP + 2 * MARGIN, 4.0), height)
        if title:
            page.text(MARGIN, MARGIN, title, bold=True)
        top = MARGIN + above
        for words, shown, heat in rows:
            page.text(MARGIN, top + 0.04, words, size=10)
            for k, (image, values) in enumerate(zip(shown, heat, strict=True)):
                down, right = divmod(k, across)
                left = MARGIN + right * (SIDE + GAP)
                box = Box(left, top + HEAD + down * (SIDE + GAP), SIDE, SIDE)
                page.image(box, image)
                page.image(box, _overlay(values, image.shape[1:]))
            top += HEAD + lines * (SIDE + GAP)
    return page.figure


def _overlay(values: Tensor, size: Sequence[int]) -> Tensor:
    """Returns a map as colours, (4, H, W), more opaque where it is larger."""
    scaled = values.detach().float().cpu()
    scaled = scaled / scaled.max().clamp(min=torch.finfo(torch.float32).tiny)
    scaled = F.interpolate(scaled[None, None], tuple(size), mode="nearest")[0, 0]
    colours = torch.from_numpy(colormaps["inferno"](scaled.numpy())).permute(2, 0, 1).float()
    colours[3] = _OPACITY * scaled
    return colours
