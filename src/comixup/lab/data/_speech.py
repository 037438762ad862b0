"""Google Speech Commands as log-spectrograms.

Clips are plain 16-bit files, read by the standard library's `wave`. torchaudio has no release for
the tested torch (2.11 cannot be imported with torch 2.15).
"""

from __future__ import annotations

import os
import wave
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from comixup._checks import reason_of
from comixup.lab._image_files import check_regular
from comixup.lab._progress import track
from comixup.lab.data._cache import cached
from comixup.lab.data._data_set import DataSet
from comixup.lab.data._in_memory import MemorySplit
from comixup.lab.data._roots import find_folder, lines_of
from comixup.lab.data._scan import content_digests
from comixup.lab.data._split import file_sources

TITLE = "Google Speech Commands"
RATE = 16_000
"""Samples per clip: one second."""
WINDOW, HOP = 320, 160
"""Window and hop in samples: 20 ms and 10 ms."""
# Paper: 160 x 100. A second has 161 frequencies and 101 frames; the last of each is dropped: the
# highest frequency, and a frame half beyond the clip's end.
BINS, FRAMES = 160, 100
MEAN, STD = (0.0,), (1.0,)  # every clip is standardized itself

_SPLITS = ("train", "validation", "test")
_LISTS = {"validation": "validation_list.txt", "test": "testing_list.txt"}
_FOLDERS = ("SpeechCommands/speech_commands_v0.01", "speech_commands_v0.01", "speech-commands")
_SOURCE = "It comes as speech_commands_v0.01.tar.gz from TensorFlow's download site."
_LOUDEST = 2**15
"""Full scale of 16-bit samples."""
_SILENCE = 1e-6
"""Lower bound of the standard deviation: that of digital silence is 0."""
_CHUNK = 256
"""Clips per transform: 25 MB of spectrograms."""


def read_speech(name: str, root: Path) -> DataSet:
    """Returns the data set, (1, 160, 100) float16 per clip: 2.1 GB for all 65,000 (mapped)."""
    folder = find_folder(root, _FOLDERS, tuple(_LISTS.values()), TITLE, _SOURCE)
    words, clips = _listing(folder)
    # Splits are contiguous, so that each is a view and not a copy.
    everything = [clip for split in _SPLITS for clip in clips[split]]
    files = [folder / clip for clip in everything]
    everyone = torch.from_numpy(_all_spectrograms(name, files))
    targets = torch.tensor([words.index(clip.partition("/")[0]) for clip in everything])
    sizes = [len(clips[split]) for split in _SPLITS]
    train, validation, test = (
        MemorySplit(images, classes, MEAN, STD, sources=sources)
        for images, classes, sources in zip(
            torch.split(everyone, sizes),
            torch.split(targets, sizes),
            np.split(file_sources(files, content_digests(name, files)), np.cumsum(sizes)[:-1]),
            strict=True,
        )
    )
    shape = (1, BINS, FRAMES)
    return DataSet(name, tuple(words), shape, MEAN, STD, train, test, validation)


def _listing(folder: Path) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the words, sorted, and each split's clips as "word/file"."""
    # Folders with an underscore have background noise, not commands.
    words = sorted(
        entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] not in "_."
    )
    split_of: dict[str, str] = {}
    for word in words:
        names = [name for name in os.listdir(folder / word) if name.lower().endswith(".wav")]
        if not names:
            raise FileNotFoundError(
                f"{folder / word} has no clips (.wav). Unpack it again, or remove the folder."
            )
        split_of |= {f"{word}/{name}": "train" for name in sorted(names)}
    clips: dict[str, list[str]] = {}
    for split, name in _LISTS.items():
        clips[split] = [line.strip() for line in lines_of(folder / name, TITLE)]
        for clip in clips[split]:
            if clip not in split_of:
                raise FileNotFoundError(
                    f"{TITLE} in {folder} is incomplete: {clip} of {name} missing. Unpack it again."
                )
            if split_of[clip] != "train":
                raise ValueError(
                    f"{folder / name} must list each clip once, and none of another list, got "
                    f"{clip} again. Unpack it again."
                )
            split_of[clip] = split
    clips["train"] = [clip for clip, split in split_of.items() if split == "train"]
    for split in _SPLITS:
        if not clips[split]:
            raise FileNotFoundError(
                f"{TITLE} in {folder} has no clips of {split}. Unpack it again."
            )
    return words, clips


def spectrograms(waves: Tensor) -> Tensor:
    """Returns log(1 + magnitude) of short-time Fourier transforms, each clip scaled to N(0, 1).

    Args:
        waves: (n, 16000) samples from -1 to 1.

    >>> spectrograms(torch.randn(2, RATE)).shape
    torch.Size([2, 160, 100])
    """
    window = torch.hamming_window(WINDOW, device=waves.device)
    short = torch.stft(waves, WINDOW, HOP, window=window, return_complex=True)
    logs = short.abs().log1p_()[:, :BINS, :FRAMES]
    mean, deviation = logs.mean((1, 2), keepdim=True), logs.std((1, 2), keepdim=True)
    return (logs - mean) / deviation.clamp(min=_SILENCE)


def _all_spectrograms(name: str, files: Sequence[Path]) -> npt.NDArray[np.float16]:
    """Returns all spectrograms, (n, 1, 160, 100), cached."""
    shape = (len(files), 1, BINS, FRAMES)

    def make() -> npt.NDArray[np.float16]:
        output = np.empty(shape, np.float16)
        starts = range(0, len(files), _CHUNK)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for start in track(starts, len(starts), f"transforming {name}"):
                waves = np.stack(list(pool.map(read_wave, files[start : start + _CHUNK])))
                made = spectrograms(torch.from_numpy(waves))
                output[start : start + _CHUNK] = made.unsqueeze(1).half().numpy()
        return output

    return cached(name, files, shape, np.float16, make)


def read_wave(path: Path) -> npt.NDArray[np.float32]:
    """Returns a clip's samples from -1 to 1, cropped or zero-padded to one second."""
    try:
        check_regular(path)
        with wave.open(str(path), "rb") as clip:
            kind = (clip.getframerate(), clip.getnchannels(), clip.getsampwidth())
            declared = clip.getnframes()
            data = clip.readframes(min(declared, RATE))
    # For a damaged header `wave` raises RuntimeError and others.
    except Exception as error:
        reason = reason_of(error) if str(error) else "it ends too early"
        raise ValueError(f"{path} cannot be read as a clip: {reason}. Unpack it again.") from None
    if kind != (RATE, 1, 2):
        raise ValueError(
            f"{path} must have {RATE} samples per second, 1 channel and 2 bytes per sample, got "
            f"{kind[0]}, {kind[1]} and {kind[2]}."
        )
    if len(data) != 2 * min(declared, RATE) or not data:
        reason = "it ends too early" if declared else "it has no samples"
        raise ValueError(f"{path} cannot be read as a clip: {reason}. Unpack it again.")
    samples = np.zeros(RATE, np.float32)
    heard = np.frombuffer(data, "<i2")
    samples[: len(heard)] = heard / np.float32(_LOUDEST)
    return samples
