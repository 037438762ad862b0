"""Writing files so that a kill or a full disk leaves the old one as it was."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, content: bytes | str) -> None:
    """Puts content in the place of a file in one move: readers see the old or the new, whole.

    What a killed process left half written is replaced by the next that writes the same file.
    """
    data = content.encode() if isinstance(content, str) else content
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise OSError(
            f"{path} could not be written ({error.strerror or error}); what was there before is "
            "as it was. Make room (or mend what is wrong) and run the same command again: it goes "
            "on from the last checkpoint."
        ) from error
    if os.name == "posix":  # the new name has to reach the disk too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
