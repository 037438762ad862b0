"""Names of data sets, where they lie on disk, and the error messages for when they do not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from comixup._checks import reason_of

DEFAULT_ROOT = "data"
_NAMES = (
    *("cifar10", "cifar100", "digits", "folder", "imagenet", "speech-commands", "tiny-imagenet"),
)


def names() -> list[str]:
    """Returns the names of the data sets that `load` knows, sorted.

    >>> "cifar100" in names()
    True
    """
    return sorted(_NAMES)


def data_root(root: str | Path | None, *, or_csv: bool = False) -> Path:
    """Returns the folder that data sets are looked for in: `root`, else COMIXUP_DATA, else ./data.

    It may be a CSV file instead where `or_csv`.

    >>> data_root("somewhere").name
    'somewhere'
    """
    if root is None:
        root = os.environ.get("COMIXUP_DATA") or DEFAULT_ROOT
    path = Path(root).expanduser()
    if path.is_file() and not (or_csv and path.suffix.lower() == ".csv"):
        raise ValueError(
            f"`root` must be a folder, got the file {path}. Unpack archives first, and name the "
            "folder that they lie in."
        )
    return path.absolute()


def find_folder(
    root: Path, candidates: Sequence[str], needed: Sequence[str], what: str, source: str
) -> Path:
    """Returns the folder of a data set: the first candidate, or the root itself, that has it.

    Args:
        root: from `data_root`.
        candidates: names of folders in the root that the set may have, best first. Those with a
            star stand for the one folder that matches.
        needed: files or folders that tell the set's folder; each has to be there.
        what: the set's name in error messages.
        source: where it comes from, in words.
    """
    tried: list[Path] = []
    for name in (*candidates, ""):
        # An archive beside the folder that it was unpacked to is none of the candidates.
        folders = filter(Path.is_dir, root.glob(name or "."))
        found = sorted(folders) if "*" in name else [root / name]
        if len(found) > 1:
            raise ValueError(
                f"`root` must hold one {what}, got {len(found)}: "
                f"{', '.join(str(path) for path in found)}. Name one of them as the root."
            )
        for path in found:
            missing = [file for file in needed if not (path / file).exists()]
            if not missing:
                return path
            if path != root and path.is_dir():
                raise FileNotFoundError(
                    f"{what} in {path} is not whole: {', '.join(missing)} missing. Unpack it again."
                )
        tried += found
    looked = ", ".join(str(path) for path in tried)
    raise FileNotFoundError(
        f"{what} was not found. Looked in: {looked}. {source} Put it there, or name the folder "
        "that it lies in by `root` (--data) or the environment variable COMIXUP_DATA."
    )


def lines_of(path: Path, what: str) -> list[str]:
    """Returns a text file's lines that are not empty."""
    from comixup.lab._image_files import check_regular  # noqa: PLC0415 - needs torch

    try:
        check_regular(path)
        text = path.read_text(encoding="utf-8-sig")  # editors on Windows write a mark in front
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{what} is not whole: {path} is missing. Unpack it again."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} cannot be read: {reason_of(error)}. Unpack {what} again."
        ) from None
    return [line for line in text.splitlines() if line.strip()]
