"""Image files: listed, sized, tried, and read as 8-bit colours.

Links are followed, but none counts a file twice. A link that leads back up the tree is not
followed, since it would show a class the images of all others, and all of them again behind every
such link.
"""

from __future__ import annotations

import functools
import os
import stat
import statistics
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeAlias

from PIL import Image
from torchvision.datasets.folder import IMG_EXTENSIONS  # type: ignore[import-untyped]

from comixup._checks import reason_of
from comixup.lab._pictures import problem_of_mode, upright_rgb
from comixup.lab._progress import track

_Identity: TypeAlias = tuple[int, int]
"""Device and number: the same for all paths that lead to one folder."""
_Above: TypeAlias = frozenset[_Identity]
_SHOWN = 3
"""Names of files that were left out that a line lists; of more it tells the number."""


@dataclass
class Skipped:
    """What a listing left out, for lines that say so.

    Attributes:
        hidden: images and folders whose names begin with a dot.
        loose: images beside the folders of classes, which are of no class.
    """

    hidden: set[str] = field(default_factory=set)
    loose: set[str] = field(default_factory=set)

    def lines(self) -> tuple[str, ...]:
        """Returns what was left out, and why."""
        reasons = ((self.hidden, "names begin with a dot"), (self.loose, "folder is no class's"))
        return tuple(
            f"Left out, since their {reason}: {_some(sorted(paths))}."
            for paths, reason in reasons
            if paths
        )


def _some(paths: Sequence[str]) -> str:
    """Returns the first of some names, and how many more there are."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(printable(os.path.basename(path)) for path in paths[:_SHOWN]) + more


def printable(name: str) -> str:
    r"""Returns a file's name for people: bytes that are no UTF-8 as \xff.

    >>> printable(os.fsdecode(b"caf\xe9"))
    'caf\\xe9'
    """
    return os.fsencode(name).decode(errors="backslashreplace")


def subfolders(folder: Path, skipped: Skipped | None = None) -> list[str]:
    """Returns the names of the folders in a folder, sorted.

    Without links that lead back up, and without names that begin with a dot, as notebooks and
    file managers hide theirs.

    Args:
        folder: where to look.
        skipped: where to note what is left out, images beside the folders too.
    """
    skipped = Skipped() if skipped is None else skipped
    above, names = _with_parents(os.fspath(folder)), []
    with os.scandir(folder) as entries:
        for entry in entries:
            is_folder = _is_folder(entry)
            is_image = not is_folder and entry.name.lower().endswith(IMG_EXTENSIONS)
            if entry.name.startswith("."):
                skipped.hidden |= {entry.path} if is_folder or is_image else set()
            elif is_image:
                skipped.loose.add(entry.path)
            elif is_folder and not (entry.is_symlink() and _identity(entry.path) in above):
                names.append(entry.name)
    return sorted(names)


def image_files(folder: Path) -> list[Path]:
    """Returns the image files in a folder and below it, told by their names."""
    return [Path(path) for path in files_below(folder, IMG_EXTENSIONS)]


def files_below(
    folder: Path, suffixes: tuple[str, ...], skipped: Skipped | None = None
) -> dict[str, str]:
    """Returns the files in a folder and those below it, in torchvision's order.

    Each real file comes once, under its own path if that lies below the folder, else under the
    first link to it. A link to nothing comes too: it is a file that cannot be read. Names that
    begin with a dot are left out.

    Args:
        folder: where to look.
        suffixes: lower-case ends of the names that are wanted.
        skipped: where to note what is left out.

    Returns:
        Paths, each with that of the real file behind it.
    """
    skipped = Skipped() if skipped is None else skipped
    paths: list[str] = []
    linked: list[str] = []
    real: dict[str, str] = {}
    for place in sorted(_folders(os.fspath(folder), skipped)):
        whole = os.path.realpath(place)
        with os.scandir(place) as entries:
            found = sorted(
                (entry.name, entry.is_symlink())
                for entry in entries
                if entry.name.lower().endswith(suffixes) and not _is_folder(entry)
            )
        for name, is_link in found:
            path = os.path.join(place, name)
            if name.startswith("."):
                skipped.hidden.add(path)
                continue
            paths.append(path)
            if is_link:
                linked.append(path)
            else:
                real[os.path.join(whole, name)] = path
    for path in linked:
        real.setdefault(os.path.realpath(path), path)
    behind = {path: file for file, path in real.items()}
    return {path: behind[path] for path in paths if path in behind}


def _folders(top: str, skipped: Skipped) -> list[str]:
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
            next_links += [(path, next_above) for path in _walk(link, found, skipped)]
        links = next_links
    return list(found.values())


def _walk(top: str, found: dict[_Identity, str], skipped: Skipped) -> Iterator[str]:
    """Adds a folder and those below it to `found`; yields the links to other folders in them."""
    for place, names, _ in os.walk(top, onerror=_raise):
        if found.setdefault(_identity(place), place) != place:
            names.clear()
        skipped.hidden.update(os.path.join(place, name) for name in names if name[0] == ".")
        names[:] = sorted(name for name in names if name[0] != ".")
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


# ---- Reading -------------------------------------------------------------------------------------


REPLACE = "Replace or remove it."

_FORMATS = ("AVIF", "BMP", "DIB", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP")
"""What Pillow may take a file for, whatever its name. It would run Ghostscript on an EPS file."""


def read_image(
    path: Path,
    *,
    size: tuple[int, int] | None = None,
    max_pixels: int | None = None,
    remedy: str = REPLACE,
) -> Image.Image:
    """Returns an image in 8-bit RGB: of a file with several frames, the first.

    Pixels of 16 bits are scaled by the range of their type, transparency is dropped, and what a
    camera notes as its orientation (EXIF) is undone, as viewers do. Floats and 32-bit integers are
    rejected, since nothing says which of their values is white.

    Args:
        path: the file.
        size: width and height that it has to have; None allows any.
        max_pixels: more are rejected before they are decoded, for files of strangers: a few
            kilobytes can hold gigabytes of one colour. None leaves it to Pillow's own bound.
        remedy: what to do about a damaged file, for the error message.
    """
    try:
        check_regular(path)
        with Image.open(path, formats=_formats()) as image:
            problem = _problem(image, size, max_pixels)
            if problem is None:
                return upright_rgb(image)
    # Decoders raise all kinds of exceptions on damaged files, MemoryError included.
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read as an image: {reason_of(error)}. {remedy}"
        ) from None
    raise ValueError(f"{path} must {problem}.")


@functools.cache
def _formats() -> list[str]:
    """Returns the formats that this build of Pillow can read."""
    Image.init()
    return [name for name in _FORMATS if name in Image.OPEN]


def _problem(
    image: Image.Image, size: tuple[int, int] | None, max_pixels: int | None
) -> str | None:
    """Returns what an image must have and has not, before anything is decoded."""
    if max_pixels is not None and image.width * image.height > max_pixels:
        return (
            f"have at most {max_pixels} pixels, got {image.width} x {image.height}. Make it smaller"
        )
    if size is not None and image.size != size:
        return f"be {size[0]} x {size[1]} pixels, got {image.width} x {image.height}"
    return problem_of_mode(image)


# ---- Damaged ones --------------------------------------------------------------------------------


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


# ---- Sizes ---------------------------------------------------------------------------------------


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


# ---- Status --------------------------------------------------------------------------------------


def check_regular(path: Path) -> None:
    """Raises `OSError` for pipes, devices and folders: opening a pipe would wait for ever."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("it is not a regular file")


def status_of(path: str | bytes | Path) -> os.stat_result:
    """Returns the size and times of a file that was listed, behind links."""
    try:
        return os.stat(path)
    except OSError as error:
        raise FileNotFoundError(
            f"{os.fsdecode(path)} cannot be found: {error.strerror}. Restore it, or remove the "
            "link that leads nowhere."
        ) from None
