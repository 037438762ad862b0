"""Folders and files below a folder: links are followed, but none counts a file twice.

A link that leads back up the tree is not followed, since it would show a class the images of all
others, and all of them again behind every such link.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, TypeAlias

from torchvision.datasets.folder import IMG_EXTENSIONS  # type: ignore[import-untyped]

_Identity: TypeAlias = tuple[int, int]
"""Device and number: the same for all paths that lead to one folder."""
_Above: TypeAlias = frozenset[_Identity]


def subfolders(folder: Path) -> list[str]:
    """Returns the names of the folders in a folder, sorted, without links that lead back up."""
    above = _with_parents(os.fspath(folder))
    with os.scandir(folder) as entries:
        return sorted(
            entry.name
            for entry in entries
            if _is_folder(entry) and not (entry.is_symlink() and _identity(entry.path) in above)
        )


def image_files(folder: Path) -> list[Path]:
    """Returns the image files in a folder and below it, told by their names."""
    return [Path(path) for path in files_below(folder, IMG_EXTENSIONS)]


def files_below(folder: Path, suffixes: tuple[str, ...]) -> list[str]:
    """Returns the files in a folder and those below it, in torchvision's order.

    Each real file comes once, under its own path if that lies below the folder, else under the
    first link to it. A link to nothing comes too: it is a file that cannot be read.

    Args:
        folder: where to look.
        suffixes: lower-case ends of the names that are wanted.
    """
    paths: list[str] = []
    linked: list[str] = []
    real: dict[str, str] = {}
    for place in sorted(_folders(os.fspath(folder))):
        whole = os.path.realpath(place)
        with os.scandir(place) as entries:
            found = sorted(
                (entry.name, entry.is_symlink())
                for entry in entries
                if entry.name.lower().endswith(suffixes) and not _is_folder(entry)
            )
        for name, is_link in found:
            path = os.path.join(place, name)
            paths.append(path)
            if is_link:
                linked.append(path)
            else:
                real[os.path.join(whole, name)] = path
    if not linked:
        return paths
    for path in linked:
        real.setdefault(os.path.realpath(path), path)
    chosen = set(real.values())
    return [path for path in paths if path in chosen]


def _folders(top: str) -> list[str]:
    """Returns a folder and all below it, each real folder once, in no particular order."""
    found: dict[_Identity, str] = {}
    # Folders first, then links to folders in order of their paths, then links in those: which path
    # is chosen for a folder does not depend on the order in which the file system lists them.
    links: list[tuple[str, _Above]] = [(top, frozenset())]
    while links:
        next_links: list[tuple[str, _Above]] = []
        for link, above in sorted(links, key=lambda pair: pair[0]):
            if _identity(link) in above:
                continue
            next_above = above | _with_parents(link)
            next_links += [(path, next_above) for path in _walk(link, found)]
        links = next_links
    return list(found.values())


def _walk(top: str, found: dict[_Identity, str]) -> Iterator[str]:
    """Adds a folder and those below it to `found`; yields the links to other folders in them."""
    for place, names, _ in os.walk(top, onerror=_raise):
        if found.setdefault(_identity(place), place) != place:
            names.clear()
        names.sort()
        for name in names:
            path = os.path.join(place, name)
            if os.path.islink(path):
                yield path


def _with_parents(folder: str) -> _Above:
    """Returns a folder and all that it lies in: as its path is written, and behind links."""
    paths = (Path(folder).absolute(), Path(os.path.realpath(folder)))
    return frozenset(_identity(parent) for path in paths for parent in (path, *path.parents))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Returns whether an entry is a folder or a link to one; not if it links to itself."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _identity(path: str | Path) -> _Identity:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _raise(error: OSError) -> NoReturn:
    raise error
