"""Archives that `torch.save` wrote, checked before they are unpacked."""

from __future__ import annotations

import zipfile


def check_archive(archive: zipfile.ZipFile, size: int) -> None:
    """Raises `ValueError` for an archive that unpacks to more bytes than its file has.

    torch stores tensors uncompressed. A small file of compressed zeros would fill the memory.

    Args:
        archive: opened.
        size: of its file, in bytes.
    """
    if sum(record.file_size for record in archive.infolist()) > size:
        raise ValueError("its records are larger than the file, so torch.save did not write it")
