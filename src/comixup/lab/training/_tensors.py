"""Safetensors files whose bytes follow from their content alone."""

from __future__ import annotations

import json
from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor

_LENGTH_BYTES = 8
_ALIGNMENT = 8
"""Bytes: tensors begin at a multiple of it, so the header is filled up with spaces."""


def safetensors_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Returns a safetensors file; equal tensors and metadata give equal bytes.

    The library writes the header's entries in an order that changes from call to call. Here they
    are sorted; the tensors' own order, which the library decides by type and name, stays.

    Args:
        tensors: by name, contiguous and in host memory.
        metadata: text by name.
    """
    content = save(dict(tensors), metadata=dict(metadata))
    size = int.from_bytes(content[:_LENGTH_BYTES], "little")
    begin = _LENGTH_BYTES + size
    header = json.dumps(
        json.loads(content[_LENGTH_BYTES:begin]), sort_keys=True, separators=(",", ":")
    ).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return len(header).to_bytes(_LENGTH_BYTES, "little") + header + content[begin:]
