"""Names of data sets, their location on disk, and error messages if they are missing."""

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
    """Returns the names that `load` accepts, sorted.

    >>> "cifar100" in names()
    True
    """
    return sorted(_NAMES)


def data_root(root: str | Path | None, *, or_csv: bool = False) -> Path:
    """Returns the root folder of data sets: `root`, else COMIXUP_DATA, else ./data.

    With `or_csv` it may be a CSV file.

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
        candidates: possible folder names in the root, best first. A pattern with a star has to
            match one folder.
        needed: files or folders that must exist in the set's folder.
        what: name of the set in error messages.
        source: its source, for error messages.
    """
    tried: list[Path] = []
    for name in (*candidates, ""):
        # An archive next to its unpacked folder is not a candidate.
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
                    f"{what} in {path} is incomplete: {', '.join(missing)} missing. "
                    "Unpack it again."
                )
        tried += found
    looked = ", ".join(str(path) for path in tried)
    raise FileNotFoundError(
        f"{what} was not found. Looked in: {looked}. {source} Put it there, or name the folder "
        "that it lies in by `root` (--data) or the environment variable COMIXUP_DATA."
    )


def lines_of(path: Path, what: str) -> list[str]:
    """Returns the non-empty lines of a text file."""
    from comixup.lab._image_files import check_regular  # noqa: PLC0415 - needs torch

    try:
        check_regular(path)
        text = path.read_text(encoding="utf-8-sig")  # Windows editors write a BOM
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{what} is incomplete: {path} is missing. Unpack it again."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} cannot be read: {reason_of(error)}. Unpack {what} again."
        ) from None
    return [line for line in text.splitlines() if line.strip()]
