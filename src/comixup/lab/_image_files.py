"""Image files: listed, and read as 8-bit colours.

Links are followed, but none counts a file twice. A link that leads back up the tree is not
followed, since it would show a class the images of all others, and all of them again behind every
such link.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import stat
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeAlias, TypeVar

from PIL import Image, UnidentifiedImageError

from comixup._checks import reason_of
from comixup.lab._pictures import problem_of_mode, upright_rgb

Result = TypeVar("Result")
_Identity: TypeAlias = tuple[int, int]
"""Device and number: the same for all paths that lead to one folder."""
_SHOWN = 3
"""Names of files that were left out that a line lists; of more it tells the number."""

_HEIC = (".heic", ".heif")
_UNREAD = (".avif", *_HEIC, ".jxl", ".svg", ".psd", ".dng", ".cr2", ".nef", ".arw")
"""Suffixes of pictures that nothing may be here to read."""


@functools.cache
def image_suffixes() -> tuple[str, ...]:
    """Returns how names of image files end, in lower case: what every command looks for.

    AVIF is among them where Pillow reads it, and HEIC where pillow-heif is installed.
    """
    formats = _formats()
    return (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"),
        *(".ppm", ".pgm", ".jp2"),
        *((".avif",) if "AVIF" in formats else ()),
        *(_HEIC if "HEIF" in formats else ()),
    )


@dataclass
class Skipped:
    """What a listing left out, for lines that say so.

    Attributes:
        hidden: images and folders whose names begin with a dot.
        loose: images beside the folders of classes, which are of no class.
        unread: pictures that nothing here reads.
    """

    hidden: set[str] = field(default_factory=set)
    loose: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)

    def lines(self) -> tuple[str, ...]:
        """Returns what was left out, and why."""
        lines = []
        reasons = {"names begin with a dot": self.hidden, "folder is no class's": self.loose}
        for reason, paths in reasons.items():
            names = [printable(os.path.basename(path)) for path in sorted(paths)]
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            shown = ", ".join(names[:_SHOWN]) + more
            lines += [f"Left out, since their {reason}: {shown}."] if names else []
        if self.unread:
            kinds = Counter(map(_suffix, self.unread))
            counted = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
            heic = f"{_READ_HEIC}, or convert" if kinds.keys() & {*_HEIC} else "Convert"
            lines.append(
                f"Left out, since nothing here reads these files: {counted}. {heic} them to PNG."
            )
        return tuple(lines)


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def printable(name: str) -> str:
    r"""Returns a file's name for people: bytes that are no UTF-8 as \xff.

    >>> printable(os.fsdecode(b"caf\xe9"))
    'caf\\xe9'
    """
    return os.fsencode(name).decode(errors="backslashreplace")


def subfolders(folder: Path, skipped: Skipped | None = None) -> list[str]:
    """Returns the names of the folders in a folder, sorted; `skipped` notes what is left out.

    Left out are links that lead back up, names that begin with a dot, as notebooks and file
    managers hide theirs, and images beside the folders.
    """
    skipped = Skipped() if skipped is None else skipped
    above, names = _with_parents(os.fspath(folder)), []
    with os.scandir(folder) as entries:
        for entry in entries:
            is_folder = _is_folder(entry)
            is_image = not is_folder and _suffix(entry.name) in image_suffixes()
            if entry.name.startswith("."):
                skipped.hidden |= {entry.path} if is_folder or is_image else set()
            elif is_image:
                skipped.loose.add(entry.path)
            elif is_folder and not (entry.is_symlink() and _identity(entry.path) in above):
                names.append(entry.name)
    return sorted(names)


def image_files(folder: Path, skipped: Skipped | None = None) -> dict[str, str]:
    """Returns the image files in a folder and below it, each with the path of the real file.

    They are told by their names, and in torchvision's order. Each real file comes once, under its
    own path if that lies below the folder, else under the first link to it. A link to nothing comes
    too: it is a file that cannot be read. Names that begin with a dot are left out, and noted in
    `skipped`.
    """
    skipped = Skipped() if skipped is None else skipped
    paths: list[str] = []
    linked: list[str] = []
    real: dict[str, str] = {}
    for place in sorted(_folders(os.fspath(folder), skipped)):
        whole = os.path.realpath(place)
        with os.scandir(place) as entries:
            found = sorted(
                (entry.name, entry.is_symlink()) for entry in entries if not _is_folder(entry)
            )
        for name, is_link in found:
            path, suffix = os.path.join(place, name), _suffix(name)
            if suffix not in image_suffixes():
                skipped.unread |= {path} if suffix in _UNREAD else set()
            elif name.startswith("."):
                skipped.hidden.add(path)
            else:
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
    starts = [top]
    while starts:
        links: list[str] = []
        for start in sorted(starts):
            for place, names, _ in os.walk(start, onerror=_raise):
                if found.setdefault(_identity(place), place) != place:
                    names.clear()
                skipped.hidden.update(os.path.join(place, name) for name in names if name[0] == ".")
                names[:] = sorted(name for name in names if name[0] != ".")
                paths = filter(os.path.islink, (os.path.join(place, name) for name in names))
                links += [path for path in paths if _identity(path) not in _with_parents(place)]
        starts = links
    return list(found.values())


def _with_parents(folder: str) -> set[_Identity]:
    """Returns a folder and all that it lies in: as its path is written, and behind links."""
    paths = (Path(folder).absolute(), Path(os.path.realpath(folder)))
    return {_identity(parent) for path in paths for parent in (path, *path.parents)}


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
_READ_HEIC = "To read HEIC, pip install pillow-heif"

_FORMATS = (
    *("AVIF", "BMP", "DIB", "GIF", "HEIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF"),
    "WEBP",
)
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
    return decode(path, lambda: path, upright_rgb, size=size, max_pixels=max_pixels, remedy=remedy)


def decode(
    path: Path,
    source: Callable[[], Path | io.BytesIO],
    convert: Callable[[Image.Image], Result],
    *,
    size: tuple[int, int] | None = None,
    max_pixels: int | None = None,
    remedy: str = REPLACE,
) -> Result:
    """Returns what `convert` makes of an image file, opened from its `source`; see `read_image`."""
    try:
        check_regular(path)
        with Image.open(source(), formats=_formats()) as image:
            problem = problem_of_mode(image)
            if max_pixels is not None and image.width * image.height > max_pixels:
                problem = (
                    f"have at most {max_pixels} pixels, got {image.width} x {image.height}. Make "
                    "it smaller"
                )
            elif size is not None and image.size != size:
                problem = f"be {size[0]} x {size[1]} pixels, got {image.width} x {image.height}"
            if problem is None:
                return convert(image)
    # Decoders raise all kinds of exceptions on damaged files, MemoryError included.
    except Exception as error:
        known = not isinstance(error, UnidentifiedImageError)
        reason = reason_of(error) if known else "it is of no known format"
        if path.suffix.lower() in _HEIC and "HEIF" not in _formats():
            reason, remedy = "nothing here reads HEIC", f"{_READ_HEIC}, or convert it to PNG."
        raise ValueError(f"{path} cannot be read as an image: {reason}. {remedy}") from None
    raise ValueError(f"{path} must {problem}.")


@functools.cache
def _formats() -> list[str]:
    """Returns the formats that Pillow can read here."""
    Image.init()
    with contextlib.suppress(ImportError):
        import pillow_heif  # type: ignore[import-not-found]  # noqa: PLC0415

        pillow_heif.register_heif_opener()
    return [name for name in _FORMATS if name in Image.OPEN]


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
