"""Files of weights, and archives that `torch.save` wrote, read without running what is in them."""

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
"""What a finished run calls its weights."""
CHECKPOINT = "checkpoint.pt"
"""What a run calls the state that it resumes from; one without weights is not finished."""
PICKLED = (".pt", ".pth")
REASON_LETTERS = 200
_WRAPPED = ("state_dict", "model")
"""Keys under which checkpoints of other programs, and our own, keep the weights."""
_PARALLEL = "module."
"""What networks wrapped for several devices put before every name."""


class WeightsFile(NamedTuple):
    """Weights by name, and what their file says of them."""

    weights: dict[str, Tensor]
    about: Mapping[str, str]


def find_weights(path: Path) -> Path:
    """Returns the file of weights that a path names: itself, or that of a finished run's folder."""
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
    """Returns what a file says of its weights, which are not read: pickled ones say nothing."""
    return {} if file.suffix in PICKLED else _read_safetensors(file, about_alone=True).about


def weights_digest(file: Path) -> str:
    """Returns a digest of a file's bytes; those of a run follow from its weights alone."""
    digest = hashlib.sha256()
    with file.open("rb") as content:
        while block := content.read(2**20):
            digest.update(block)
    return digest.hexdigest()[:16]


def without_wrapper(weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Returns weights without the prefix that wrapping for several devices gives their names."""
    if not (weights and all(key.startswith(_PARALLEL) for key in weights)):
        return weights
    return {key.removeprefix(_PARALLEL): tensor for key, tensor in weights.items()}


def damaged_header(file: Path, name: str, value: str) -> ValueError:
    """Returns an error for something that comixup would not have written."""
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
        # torch before 2.6 runs what is in those, `weights_only` or not.
        if tarfile.is_tarfile(file):
            raise ValueError("it is a tar archive")
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                check_archive(archive, file.stat().st_size)
        with warnings.catch_warnings():
            # torch warns of pickles that torch.save did not write: read or rejected below.
            warnings.simplefilter("ignore", UserWarning)
            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as why:  # a damaged file can raise anything at all
        raise ValueError(
            f"`path` must hold tensors and nothing else, but {file} is damaged or holds things "
            f"that are not data, which are not loaded ({reason_of(why)}). Save model.state_dict()."
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

    torch stores tensors uncompressed. A small file of compressed zeros would fill the memory.
    """
    if sum(record.file_size for record in archive.infolist()) > size:
        raise ValueError("its records are larger than the file, so torch.save did not write it")
