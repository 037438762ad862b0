import numpy as np
import pytest
import torch

from comixup.data import load
from comixup.data._speech import read_wave, spectrograms
from data_files import tone, write_speech, write_wave


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


def test_loaders_yield_them_as_they_are(tmp_path, folder):
    data = load("speech-commands", tmp_path)
    images, _ = next(data.train.loader(9, augment=True).epoch(0))
    assert images.dtype == torch.float32
    order = data.train.loader(9, augment=True)._order.indices(0)
    torch.testing.assert_close(images, data.train.images[order].float(), rtol=0, atol=0)
    torch.testing.assert_close(images.mean((1, 2, 3)), torch.zeros(9), rtol=0, atol=1e-3)
    torch.testing.assert_close(images.std((1, 2, 3)), torch.ones(9), rtol=0, atol=1e-3)


def test_silence_has_no_infinities():
    torch.testing.assert_close(spectrograms(torch.zeros(2, 16_000)), torch.zeros(2, 160, 100))


def test_the_root_may_be_the_folder_itself(folder):
    assert len(load("speech-commands", folder).test) == 3


def test_the_official_validation_clips_are_not_replaced(tmp_path, folder):
    with pytest.raises(ValueError, match="`validation` must be None for 'speech-commands'"):
        load("speech-commands", tmp_path, validation=0.2)


def test_a_missing_clip_is_named(tmp_path, folder):
    (folder / "up" / "clip_4.wav").unlink()
    with pytest.raises(FileNotFoundError, match=r"not whole: up/clip_4.wav of testing_list.txt"):
        load("speech-commands", tmp_path)


def test_an_empty_list_is_noticed(tmp_path, folder):
    (folder / "testing_list.txt").write_text("")
    with pytest.raises(FileNotFoundError, match="has no clips of test"):
        load("speech-commands", tmp_path)


def test_a_missing_list_is_named(tmp_path, folder):
    (folder / "validation_list.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"not whole: validation_list.txt missing"):
        load("speech-commands", tmp_path)


@pytest.mark.parametrize("length", [0, 20, 1000])
def test_a_cut_clip_is_named(tmp_path, folder, length):
    path = folder / "up" / "clip_2.wav"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match=r"clip_2.wav cannot be read as a clip: .* Unpack"):
        load("speech-commands", tmp_path)


@pytest.mark.parametrize(
    ("kind", "got"),
    [
        ({"rate": 8000}, "8000, 1 and 2"),
        ({"channels": 2}, "16000, 2 and 2"),
        ({"width": 1}, "16000, 1 and 1"),
    ],
)
def test_clips_of_other_kinds_are_refused(tmp_path, kind, got):
    path = tmp_path / "clip.wav"
    write_wave(path, tone(0), **kind)
    with pytest.raises(ValueError, match=f"clip.wav must have 16000 samples .* got {got}"):
        read_wave(path)


@pytest.mark.data
def test_the_real_set():
    data = load("speech-commands")
    assert data.num_classes == 30
    assert {"yes", "no", "sheila"} <= set(data.classes)
    images, _ = next(data.train.loader(100, augment=True).epoch(0))
    assert images.isfinite().all()
    torch.testing.assert_close(images.mean((1, 2, 3)), torch.zeros(100), rtol=0, atol=2e-3)
