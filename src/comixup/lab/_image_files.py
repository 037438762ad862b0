"""Lists image files, and reads them as 8-bit RGB.

Links are followed, but each file is listed once. Links to a parent folder are skipped: they would
add the images of all other classes to a class.
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
"""Device and inode: the same for all paths of a folder."""
_SHOWN = 3
"""Most names of skipped files in a message, which counts the others."""

_HEIC = (".heic", ".heif")
_UNREAD = (".avif", *_HEIC, ".jxl", ".svg", ".psd", ".dng", ".cr2", ".nef", ".arw")
"""Suffixes of image formats for which a decoder may be missing."""


@functools.cache
def image_suffixes() -> tuple[str, ...]:
    """Returns the suffixes of image files that all commands list, in lower case.

    They include AVIF if Pillow reads it, and HEIC if pillow-heif is installed.
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
    """The files that a listing skipped, to report them.

    Attributes:
        hidden: images and folders whose names begin with a dot.
        loose: images outside of the class folders.
        unread: images without a decoder.
    """

    hidden: set[str] = field(default_factory=set)
    loose: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)

    def lines(self) -> tuple[str, ...]:
        """Returns messages on what was skipped, and why."""
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
    r"""Returns a printable file name: bytes that are not UTF-8 as \xff.

    >>> printable(os.fsdecode(b"caf\xe9"))
    'caf\\xe9'
    """
    return os.fsencode(name).decode(errors="backslashreplace")


def subfolders(folder: Path, skipped: Skipped | None = None) -> list[str]:
    """Returns the names of a folder's subfolders, sorted; skipped entries are added to `skipped`.

    Skipped are links to a parent folder, names that begin with a dot (notebooks and file managers
    create them), and images beside the folders.
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
    """Returns the image files in a folder, recursively, each with the path of the real file.

    They are identified by suffix and in torchvision's order. Each real file is listed once, by its
    own path if that is below the folder, else by the first link to it. Broken links are listed too,
    as unreadable files. Names that begin with a dot are added to `skipped` instead.
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
    """Returns a folder and all folders below it, each real folder once, unordered."""
    found: dict[_Identity, str] = {}
    # Folders first, then links to folders sorted by path, then links in those: a folder's path does
    # not depend on the order in which the file system lists entries.
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
    """Returns a folder and its parents, both as written and with links resolved."""
    paths = (Path(folder).absolute(), Path(os.path.realpath(folder)))
    return {_identity(parent) for path in paths for parent in (path, *path.parents)}


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder or a link to one, other than itself."""
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
"""Formats that Pillow may open, whatever the file's name. It would run Ghostscript on EPS files."""


def read_image(
    path: Path,
    *,
    size: tuple[int, int] | None = None,
    max_pixels: int | None = None,
    remedy: str = REPLACE,
) -> Image.Image:
    """Returns an image in 8-bit RGB; of a file with several frames, the first.

    16-bit pixels are scaled by the range of their type, transparency is dropped, and the EXIF
    orientation is applied, as in viewers. Floats and 32-bit integers are rejected, since their
    white level is unknown.

    Args:
        path: the file.
        size: required width and height; None allows any.
        max_pixels: larger images are rejected before decoding, for untrusted files: a few kilobytes
            can decode to gigabytes. None means Pillow's own limit.
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
    """Returns the result of `convert` on an image file, opened from `source`; see `read_image`."""
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
    """Raises `OSError` for pipes, devices and folders: opening a pipe would block forever."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("it is not a regular file")


def status_of(path: str | bytes | Path) -> os.stat_result:
    """Returns the status of a listed file, following links."""
    try:
        return os.stat(path)
    except OSError as error:
        raise FileNotFoundError(
            f"{os.fsdecode(path)} cannot be found: {error.strerror}. Restore it, or remove the "
            "link that leads nowhere."
        ) from None
