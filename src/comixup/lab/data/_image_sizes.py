"""How large the images of a set are, from the headers of some of its files."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

SAMPLE = 200
"""Files whose headers are read: enough for a median."""


def median_side(files: Sequence[Path]) -> int:
    """Returns the median of the images' shorter sides, in pixels, over evenly spaced files.

    Args:
        files: paths. Those that cannot be read are passed over: loading them tells what is wrong.
    """
    step = max(1, len(files) // SAMPLE)
    sides = [side for file in files[::step] if (side := _shorter_side(file)) is not None]
    if not sides:
        raise ValueError(
            f"none of the {len(files)} files can be read as an image, the first of which is "
            f"{files[0]}."
        )
    return round(statistics.median(sides))


def _shorter_side(path: Path) -> int | None:
    try:
        if not path.is_file():  # a pipe would be waited for
            return None
        with Image.open(path) as image:
            return min(image.size)
    except Exception:  # damaged files raise anything
        return None
