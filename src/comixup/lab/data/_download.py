"""Archives from the network: nothing of them is trusted, and only files known by name are kept.

Paths, links, devices and permissions of an archive have no effect, since no member is extracted:
the bytes of those whose name is expected are written to names of ours. A download that breaks off
leaves a folder with a name of its own behind at most, which never passes for the data set.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import math
import os
import shutil
import stat
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from comixup.lab._progress import track
from comixup.lab.data._roots import reason_of

TIMEOUT = 30.0
"""Seconds without a byte after which a download has failed."""
_CHUNK = 2**20
_MAX_RATIO = 4
"""Of the unpacked size to the archive's: pictures hardly shrink."""
_MAX_MEMBERS = 1000
_PREFIX = ".comixup-download-"
_STALE = 86_400.0
"""Seconds after which the folder of a download that was killed is removed."""


@dataclass(frozen=True)
class Archive:
    """A compressed tar archive that is known beforehand.

    Attributes:
        url: where it is.
        size: in bytes.
        sha256: of its bytes, in hexadecimal digits.
        folder: that its files lie in.
    """

    url: str
    size: int
    sha256: str
    folder: str

    @property
    def filename(self) -> str:
        """Returns the last part of the address."""
        return self.url.rpartition("/")[2]


def fetch(archive: Archive, files: Sequence[str], root: Path, title: str) -> None:
    """Puts files of an archive into its folder in `root`, each of them whole or not at all.

    The archive is taken from `root` if it lies there, and else from the network.

    Args:
        archive: what to fetch.
        files: names of the wanted files in the archive's folder.
        root: where the folder belongs.
        title: of the data set, for the error message.
    """
    target = root / archive.folder
    try:
        target.mkdir(parents=True, exist_ok=True)
        with _work_folder(target) as work:
            source = root / archive.filename
            if not _is_whole(source, archive):
                source = work / "archive"
                _download(archive, source, title)
            unpacked = _unpack(archive, source, files, work)
            for path in unpacked:
                os.replace(path, target / path.name)
    # What a hostile archive makes of `tarfile` is anyone's guess.
    except Exception as error:
        raise RuntimeError(
            f"{title} could not be fetched from {archive.url}: {reason_of(error)}. Fetch "
            f"it by other means, and put {archive.filename} into {root}."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            target.rmdir()  # if nothing was put there


@contextlib.contextmanager
def _work_folder(target: Path) -> Iterator[Path]:
    """Yields an empty folder of this process alone, and removes it with all that is in it."""
    for stale in target.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if time.time() - stale.stat().st_mtime > _STALE:
                shutil.rmtree(stale)
    work = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=target))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _is_whole(path: Path, archive: Archive) -> bool:
    """Returns whether an archive lies there already."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size != archive.size:
            return False
        with path.open("rb") as file:
            digest = hashlib.sha256()
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return False
    return digest.hexdigest() == archive.sha256


def _download(archive: Archive, path: Path, title: str) -> None:
    """Writes an archive to a file; raises `ValueError` if it is another one."""
    # Some servers turn away callers without a name.
    request = urllib.request.Request(archive.url, headers={"User-Agent": "comixup"})
    digest, size = hashlib.sha256(), 0
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response, path.open("xb") as file:
        chunks = iter(lambda: response.read(_CHUNK), b"")
        for chunk in track(chunks, math.ceil(archive.size / _CHUNK), f"fetching {title}"):
            size += len(chunk)
            if size > archive.size:
                raise ValueError(f"it has more than the {archive.size} bytes that it should have")
            digest.update(chunk)
            file.write(chunk)
    if size < archive.size:
        raise ValueError(f"it broke off after {size} of {archive.size} bytes")
    if digest.hexdigest() != archive.sha256:
        raise ValueError(f"its SHA-256 is {digest.hexdigest()} instead of {archive.sha256}")


def _unpack(archive: Archive, source: Path, files: Sequence[str], work: Path) -> list[Path]:
    """Returns the wanted files, written to the work folder."""
    wanted = {f"{archive.folder}/{name}": work / name for name in files}
    found: list[Path] = []
    with (
        _LimitedGzip(source, _MAX_RATIO * archive.size) as data,
        tarfile.open(fileobj=data, mode="r|") as members,
    ):
        for number, member in enumerate(members):
            if number >= _MAX_MEMBERS:
                raise ValueError(f"it has more than {_MAX_MEMBERS} members")
            if member.name not in wanted:
                continue
            path = wanted[member.name]
            content = members.extractfile(member) if member.isreg() else None
            if content is None or member.issparse() or path in found:
                raise ValueError(f"its member {member.name} is no regular file, or comes twice")
            _copy(content, path)
            found.append(path)
    missing = [name for name, path in wanted.items() if path not in found]
    if missing:
        raise ValueError(f"it has no {', '.join(missing)}")
    return found


def _copy(content: IO[bytes], path: Path) -> None:
    with path.open("xb") as file:
        shutil.copyfileobj(content, file, _CHUNK)
        file.flush()
        os.fsync(file.fileno())  # before it gets its name


class _LimitedGzip(gzip.GzipFile):
    """A compressed file that fails once more has been read from it than there can be."""

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(path, "rb")
        self._limit = limit
        self._remaining = limit

    def read(self, size: int | None = -1) -> bytes:
        """Returns the next bytes, at most `size` of them."""
        wanted = self._remaining + 1 if size is None or size < 0 else size
        data = super().read(min(wanted, self._remaining + 1))
        self._remaining -= len(data)
        if self._remaining < 0:
            raise ValueError(f"it unpacks to more than {self._limit} bytes")
        return data
