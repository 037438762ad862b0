"""`comixup export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from comixup.cli._options import option_help, print_line

if TYPE_CHECKING:
    from torch import Tensor

_IMAGES = 16
"""Test images that an exported network is compared on."""


def export(
    run: Annotated[Path, tyro.conf.Positional, option_help("RUN")],
    to: Annotated[Literal["onnx", "pt2", "timm"], option_help("onnx|pt2|timm")],
    out: Annotated[Path | None, option_help("FILE", "(default: in the run's folder)")] = None,
    data: Annotated[Path | None, option_help("FOLDER", "(default: where they lay)")] = None,
) -> None:
    """Write a trained network for other programs, with its preprocessing, and check it.

    Args:
        run: folder of a run, or its weights.
        to: onnx, pt2 (a program of torch.export) or timm (a folder for its networks).
        out: the file, or for timm the folder, to write.
        data: folder of the data sets, for test images to compare on.
    """
    # Here, so that --help does not wait for torch.
    from comixup.lab import models  # noqa: PLC0415

    console, classifier = Console(), models.load(run)
    folder = run if run.is_dir() else run.parent
    images, kind = _test_images(run, data), "test"
    if images is None:
        kind = "random"
        print_line(console, "The data were not found: random images are compared.")
    found = models.export(classifier, out or folder / models.FORMATS[to], to, images)
    print_line(
        console,
        f"{found.path} is written. Its logits of {found.images} {kind} images differ from the "
        f"network's by {found.difference:.2g} at most.",
    )


def _test_images(run: Path, root: Path | None) -> Tensor | None:
    """Returns some test images in [0, 1]; None if the data are not where they lay."""
    from comixup.lab import evaluation  # noqa: PLC0415
    from comixup.lab.data import load  # noqa: PLC0415

    origin = evaluation.trained_on(run)
    if origin.data is None:
        return None
    try:
        data = load(origin.data, root or origin.root)
    except FileNotFoundError:
        if root is not None:
            raise
        return None
    size = None if data.test.resized_side() is None else origin.image_size
    images, _ = next(iter(data.test.loader(_IMAGES, image_size=size).epoch(0)))
    return data.pixels(images)
