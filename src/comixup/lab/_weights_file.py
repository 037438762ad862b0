"""Reads weight files and archives of `torch.save` without running any code in them."""

from __future__ import annotations

import hashlib
import tarfile
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from comixup._checks import reason_of

WEIGHTS = "weights.safetensors"
"""File name of a finished run's weights."""
CHECKPOINT = "checkpoint.pt"
"""File name of a run's checkpoint; a run without a weights file is not finished."""
PICKLED = (".pt", ".pth")
REASON_LETTERS = 200
_WRAPPED = ("state_dict", "model")
"""Keys of the weights in checkpoints, other programs' and our own."""
_PARALLEL = "module."
"""Prefix of names in networks wrapped by DataParallel or DistributedDataParallel."""


class WeightsFile(NamedTuple):
    """Weights by name, and their file's metadata."""

    weights: dict[str, Tensor]
    about: Mapping[str, str]


def find_weights(path: Path) -> Path:
    """Returns the weight file of a path: the path itself, or the one in a finished run's folder."""
    if path.is_dir():
        file = path / WEIGHTS
        if file.is_file():
            return file
        found, advice = "no run", "Runs are in OUT/RECIPE/METHOD/seed-N"
        if (path / CHECKPOINT).exists():
            found = "a run that is not finished"
            advice = "Finish it with the command that began it"
        raise ValueError(
            f"`path` must be the folder of a finished run, but {path} holds {found}: there is no "
            f"{WEIGHTS}. {advice}."
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"`path` must be a run's folder or a file of weights, but there is no {path}."
        )
    if path.suffix not in (".safetensors", *PICKLED):
        raise ValueError(
            f"`path` must be a run's folder or end in .safetensors, .pt or .pth, got {path}."
        )
    return path


def read_weights(file: Path) -> WeightsFile:
    """Returns the content of a .safetensors, .pt or .pth file, on the CPU."""
    return _read_pickled(file) if file.suffix in PICKLED else _read_safetensors(file)


def read_about(file: Path) -> Mapping[str, str]:
    """Returns a file's metadata without reading its weights; empty for pickled files."""
    return {} if file.suffix in PICKLED else _read_safetensors(file, about_alone=True).about


def weights_digest(file: Path) -> str:
    """Returns a digest of a file's bytes, which for a run depend on its weights only."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(2**20):
            digest.update(block)
    return digest.hexdigest()[:16]


def without_wrapper(weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Returns weights without the prefix of DataParallel and DistributedDataParallel."""
    if not (weights and all(key.startswith(_PARALLEL) for key in weights)):
        return weights
    return {key.removeprefix(_PARALLEL): tensor for key, tensor in weights.items()}


def damaged_header(file: Path, name: str, value: str) -> ValueError:
    """Returns the error for metadata that comixup would not have written."""
    return ValueError(
        f"`path` must be a file that comixup wrote, but {name} of {file} is "
        f"{value[:REASON_LETTERS]!r}. Put back a good copy."
    )


def _read_safetensors(file: Path, about_alone: bool = False) -> WeightsFile:
    # Not at the top, as safetensors is an extra: networks are built without it.
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415

    try:
        with safe_open(file, "pt") as content:
            names = () if about_alone else content.keys()
            weights = {name: content.get_tensor(name) for name in names}
            return WeightsFile(weights, content.metadata() or {})
    except (SafetensorError, OSError, ValueError) as why:
        raise ValueError(
            f"`path` must be a safetensors file that can be read, but {file} is damaged or "
            f"something else ({reason_of(why)}). Put back a good copy."
        ) from None


def _read_pickled(file: Path) -> WeightsFile:
    try:
        # torch before 2.6 runs code in those even with `weights_only`.
        if tarfile.is_tarfile(file):
            raise ValueError("it is a tar archive")
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                check_archive(archive, file.stat().st_size)
        with warnings.catch_warnings():
            # torch warns about pickles not from torch.save; they are read or rejected below.
            warnings.simplefilter("ignore", UserWarning)
            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as why:  # a damaged file can raise anything
        raise ValueError(
            f"`path` must hold tensors and nothing else, but {file} is damaged or holds "
            f"other objects, which are unsafe to load ({reason_of(why)}). Save model.state_dict()."
        ) from None
    for key in _WRAPPED:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
            break
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in content.items()
    ):
        raise ValueError(
            f"`path` must hold a state dict, names with tensors, but {file} holds something else. "
            "Save model.state_dict()."
        )
    return WeightsFile(content, {})


def check_archive(archive: zipfile.ZipFile, size: int) -> None:
    """Raises `ValueError` for an archive that unpacks to more bytes than its file has, `size`.

    torch stores tensors uncompressed; a small file of compressed zeros could fill the memory.
    """
    if sum(record.file_size for record in archive.infolist()) > size:
        raise ValueError("its records are larger than the file, so torch.save did not write it")
