import contextlib
import os
import struct

import numpy as np
import pytest
import torch

from cases import each_case
from comixup.lab.data import load
from comixup.lab.data._speech import read_wave, spectrograms
from data_files import tone, write_speech


@pytest.fixture
def folder(tmp_path):
    return write_speech(tmp_path)


def spectrogram_slowly(samples):
    """One clip's log-spectrogram, from the definition: a Fourier sum for each frame."""
    heard = np.zeros(16_000)
    heard[: len(samples[:16_000])] = samples[:16_000] / 32768
    heard = np.pad(heard, 160, mode="reflect")
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(320) / 320)
    angles = np.exp(-2j * np.pi * np.outer(np.arange(160), np.arange(320)) / 320)
    frames = [heard[160 * t : 160 * t + 320] * window for t in range(100)]
    logs = np.log1p(np.abs(angles @ np.stack(frames, axis=1)))
    return (logs - logs.mean()) / logs.std(ddof=1)


def test_splits_and_words(tmp_path, folder):
    data = load("speech-commands", tmp_path)
    assert data.classes == ("no", "up", "yes")  # and not the noise
    assert (data.shape, data.mean, data.std) == ((1, 160, 100), (0.0,), (1.0,))
    assert data.train.targets.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.validation.targets.tolist() == [2, 0, 1]  # as the lists have them
    assert data.test.targets.tolist() == [2, 0, 1]


def test_spectrograms_follow_the_definition(tmp_path, folder):
    data = load("speech-commands", tmp_path)
    # Clips of "no": 12,000 samples, 17,000, and 16,000.
    for place, number in enumerate([1, 2, 3]):
        samples = tone(10 + number, [16_000, 12_000, 17_000][number % 3])
        expected = torch.from_numpy(spectrogram_slowly(samples)).float()
        got = data.train.images[place, 0].float()
        torch.testing.assert_close(got, expected, rtol=2e-3, atol=2e-3)  # kept in half precision


def test_silence_has_no_infinities():
    torch.testing.assert_close(spectrograms(torch.zeros(2, 16_000)), torch.zeros(2, 160, 100))


# ---- Odd files ----------------------------------------------------------------------------------


def riff(data, kind=1, channels=1, rate=16_000, bits=16, declared=None, size=None, extra=b""):
    """A WAV file with a header of one's choice."""
    block = channels * ((bits + 7) // 8)
    form = struct.pack("<HHIIHH", kind, channels, rate, rate * block, block, bits) + extra
    length = len(data) if declared is None else declared
    chunks = b"fmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", length)
    whole = b"WAVE" + chunks + data
    return b"RIFF" + struct.pack("<I", len(whole) if size is None else size) + whole


SAMPLES = tone(0, 20_000)


def test_a_header_of_ones_own_is_read(tmp_path):
    path = tmp_path / "clip.wav"
    path.write_bytes(riff(SAMPLES.tobytes()))
    np.testing.assert_array_equal(read_wave(path), SAMPLES[:16_000] / np.float32(2**15))
    path.write_bytes(riff(SAMPLES[:100].tobytes()))
    np.testing.assert_array_equal(read_wave(path)[:100], SAMPLES[:100] / np.float32(2**15))
    np.testing.assert_array_equal(read_wave(path)[100:], np.zeros(15_900))
    # Programs that write to a pipe cannot know the length, and declare the largest.
    path.write_bytes(riff(SAMPLES.tobytes(), declared=2**32 - 1, size=2**32 - 1))
    np.testing.assert_array_equal(read_wave(path), SAMPLES[:16_000] / np.float32(2**15))


ODD = {
    "8 bits": (riff(bytes(16_000), bits=8), "16000, 1 and 1"),
    "floats": (riff(bytes(64_000), kind=3, bits=32), "unknown format: 3"),
    "stereo": (riff(bytes(64_000), channels=2), "16000, 2 and 2"),
    "other rate": (riff(bytes(88_200), rate=44_100), "44100, 1 and 2"),
    "no channels": (riff(bytes(32_000), channels=0), "bad # of channels"),
    "no samples": (riff(b""), "it has no samples"),
    "too few samples": (riff(bytes(2000), declared=4000), "it ends too early"),
    "a huge length": (riff(bytes(2000), declared=2**32 - 1, size=2**32 - 1), "it ends too early"),
    "a strange chunk": (riff(bytes(2000), size=5), "missing|too early|WAVE|RuntimeError"),
    "data first": (b"RIFF\x20\0\0\0WAVEdata\x02\0\0\0abfmt ", "data chunk before fmt chunk"),
    "another kind of file": (b"RIFX" + riff(bytes(2000))[4:], "does not start with RIFF"),
    "nothing": (b"", "it ends too early"),
}


@each_case(("content", "reason"), ODD.values(), ids=ODD)
def test_odd_clips_are_named(tmp_path, content, reason):
    path = tmp_path / "clip.wav"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"clip\.wav .*({reason})"):
        read_wave(path)


def test_damaged_headers_raise_nothing_else(tmp_path):
    rng = np.random.default_rng(0)
    content, path = riff(SAMPLES[:200].tobytes()), tmp_path / "clip.wav"
    for _ in range(100):
        damaged = bytearray(content)
        for place in rng.integers(0, 44, rng.integers(1, 4)):
            damaged[place] = rng.choice([0, 1, 128, 255, rng.integers(256)])
        path.write_bytes(damaged[: rng.integers(20, 500)])
        with contextlib.suppress(ValueError):
            assert np.abs(read_wave(path)).max() <= 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_no_clip(tmp_path):
    os.mkfifo(tmp_path / "clip.wav")
    with pytest.raises(ValueError, match=r"clip\.wav cannot be read .* not a regular file"):
        read_wave(tmp_path / "clip.wav")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("testing_list.txt", "yes/clip_4.wav"),
        ("validation_list.txt", "up/clip_0.wav"),
    ],
)
def test_clips_that_are_listed_twice_are_named(tmp_path, folder, name, line):
    with (folder / name).open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(
        ValueError, match=rf"_list\.txt must list each clip once.* got {line} again"
    ):
        load("speech-commands", tmp_path)


@pytest.mark.parametrize("line", ["../up/clip_1.wav", "up/clip_9.wav"])
def test_lists_lead_nowhere_else(tmp_path, folder, line):
    with (folder / "testing_list.txt").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(FileNotFoundError, match="is incomplete: "):
        load("speech-commands", tmp_path)


@pytest.mark.data
def test_the_real_set():
    data = load("speech-commands")
    assert data.num_classes == 30
    assert {"yes", "no", "sheila"} <= set(data.classes)
    images, _ = next(data.train.loader(100, augment="crop-flip").epoch(0))
    assert images.isfinite().all()
    torch.testing.assert_close(images.mean((1, 2, 3)), torch.zeros(100), rtol=0, atol=2e-3)
