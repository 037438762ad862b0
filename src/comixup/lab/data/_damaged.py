"""Images that cannot be read: found beforehand and left out, if that is wanted."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from comixup.lab._progress import track

_NAMED = 5
"""Files that the warning names; of more it tells the number."""


def readable(
    files: Sequence[Path], problem_of: Callable[[Path], str | None], title: str
) -> list[int]:
    """Returns which files can be read, after a warning that counts and names the others.

    Args:
        files: the images.
        problem_of: tries one, and returns an error message if it cannot be read.
        title: what they are, for the progress bar and the warning.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        messages = pool.map(problem_of, files)
        problems = list(track(messages, len(files), f"trying {title}"))
    bad = [problem for problem in problems if problem is not None]
    if bad:
        more = f" And {len(bad) - _NAMED} more." if len(bad) > _NAMED else ""
        warnings.warn(
            f"{len(bad)} of {len(files)} images of {title} are left out. {' '.join(bad[:_NAMED])}"
            f"{more}",
            stacklevel=2,
        )
    if len(bad) == len(files):
        raise ValueError(f"none of the {len(files)} images of {title} can be read. {bad[0]}")
    return [k for k, problem in enumerate(problems) if problem is None]
