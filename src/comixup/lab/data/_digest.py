"""Digests that tell data sets apart by what they are, not by where they lie or how old they are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from comixup.lab.data._roots import status_of

DIGEST_BYTES = 16


def digest_of(targets: Tensor, content: Iterable[bytes | Tensor]) -> str:
    """Returns a digest of class indices and of bytes or tensors, in their order.

    >>> import torch
    >>> digest_of(torch.tensor([0]), [b"a", b"b"]) == digest_of(torch.tensor([0]), [b"ab"])
    False
    """
    digest = hashlib.blake2b(_raw(targets), digest_size=DIGEST_BYTES)
    for item in content:
        data = _raw(item) if isinstance(item, Tensor) else item
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def file_sources(files: Sequence[bytes | Path]) -> npt.NDArray[np.bytes_]:
    """Returns each file's name, relative to the folder that all lie in, with its size.

    >>> file_sources([Path(__file__)]).shape
    (1,)
    """
    names = [os.fsencode(file) for file in files]
    # The longest path that the first and the last name in alphabetical order share is shared by
    # all. A lone file is named by itself.
    folder = os.path.commonpath([os.path.dirname(min(names)), os.path.dirname(max(names))])
    relative = (os.path.relpath(name, folder).replace(os.fsencode(os.sep), b"/") for name in names)
    sizes = (status_of(name).st_size for name in names)
    return np.array([b"%s\0%d" % pair for pair in zip(relative, sizes, strict=True)])


def _raw(tensor: Tensor) -> memoryview:
    """Returns a tensor's bytes, without a copy where they lie in order."""
    array = np.ascontiguousarray(tensor.numpy()).reshape(-1)
    return array.view(np.uint8).data
