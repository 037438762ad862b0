"""Small files in the real formats of each data set, and slow twins of what loaders do."""

import struct
import wave

import numpy as np
import torch
from PIL import Image

from comixup.lab.data._in_memory import MemorySplit
from small_cifar import accept_any

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.25)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def memory_split(count=23, channels=3, size=(6, 6), pad=2, flip=True, seed=0):
    images = torch.from_numpy(noise(count, channels, *size, seed=seed))
    targets = torch.arange(count) % 5
    return MemorySplit(images, targets, MEAN[:channels], STD[:channels], pad=pad, flip=flip)


def batches(split, *args, epoch=0, first_step=0, **settings):
    """All batches of an epoch."""
    return list(split.loader(*args, **settings).epoch(epoch, first_step))


def assert_same(first, second):
    """Both lists of batches are the same, bit by bit."""
    assert len(first) == len(second)
    for mine, other in zip(first, second, strict=True):
        for a, b in zip(mine, other, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0)


# ---- CIFAR, as Python 2 pickled it --------------------------------------------------------------


def python2_pickle(value):
    return b"\x80\x02" + _opcodes(value) + b"."


def _opcodes(value):
    if isinstance(value, dict):
        inner = b"".join(_opcodes(key) + _opcodes(entry) for key, entry in value.items())
        return b"}(" + inner + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(_opcodes(entry) for entry in value) + b"e"
    if isinstance(value, bytes):
        length = len(value)
        head = b"U" + bytes([length]) if length < 256 else b"T" + struct.pack("<i", length)
        return head + value
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    assert value.dtype == np.uint8
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    shape = b"(" + b"".join(_opcodes(side) for side in value.shape) + b"t"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN" + 2 * _opcodes(-1) + b"K\x00tb"
    return made + b"(K\x01" + shape + kind + b"\x89" + _opcodes(value.tobytes()) + b"tb"


def write_cifar100(root, train=40, test=20, classes=4):
    """Returns the images and labels written, by file."""
    accept_any()
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    names = [f"thing {number}".encode() for number in range(classes)]
    meta = {b"fine_label_names": names, b"coarse_label_names": [b"all"]}
    (folder / "meta").write_bytes(python2_pickle(meta))
    written = {}
    for seed, (name, count) in enumerate({"train": train, "test": test}.items()):
        data, labels = noise(count, 3072, seed=seed), [7 * i % classes for i in range(count)]
        content = {b"filenames": [b"a.png"] * count, b"data": data, b"fine_labels": labels}
        content |= {b"batch_label": b"some batch", b"coarse_labels": [0] * count}
        (folder / name).write_bytes(python2_pickle(content))
        written[name] = (data, labels)
    return written


def write_cifar10(root, each=6, classes=3):
    accept_any()
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    names = [f"kind {number}".encode() for number in range(classes)]
    (folder / "batches.meta").write_bytes(python2_pickle({b"label_names": names}))
    written = {}
    for seed, name in enumerate([*[f"data_batch_{i}" for i in range(1, 6)], "test_batch"]):
        data, labels = noise(each, 3072, seed=seed), [(seed + i) % classes for i in range(each)]
        (folder / name).write_bytes(python2_pickle({b"data": data, b"labels": labels}))
        written[name] = (data, labels)
    return written


# ---- Images in folders --------------------------------------------------------------------------


def smooth_picture(width, height, seed, mode="RGB"):
    """A picture that JPEG keeps nearly as it is."""
    colours = noise(2, 2, 3, seed=seed)
    picture = Image.fromarray(colours).resize((width, height), Image.Resampling.BILINEAR)
    return picture.convert(mode)


def write_tiny_imagenet(root, wnids=("n03", "n01", "n02"), each=4, val=5):
    folder = root / "tiny-imagenet-200"
    (folder / "val" / "images").mkdir(parents=True)
    (folder / "wnids.txt").write_text("\n".join(wnids) + "\n")
    words = [f"{wnid}\tname of {wnid}, other name" for wnid in (*wnids, "n99")]
    (folder / "words.txt").write_text("\n".join(words))
    for kind, wnid in enumerate(wnids):
        images = folder / "train" / wnid / "images"
        images.mkdir(parents=True)
        notes = []
        for number in range(each):
            mode = "L" if number == 2 else "RGB"  # the official set has grey files too
            name = f"{wnid}_{number}.JPEG"
            smooth_picture(64, 64, seed=100 * kind + number, mode=mode).save(images / name)
            notes.append(f"{name}\t{number}\t{kind}\t{number + 10}\t{kind + 20}")
        (images.parent / f"{wnid}_boxes.txt").write_text("\n".join(notes))
    notes = []
    for number in range(val):
        smooth_picture(64, 64, seed=1000 + number).save(folder / f"val/images/val_{number}.JPEG")
        wnid = wnids[number % len(wnids)]
        notes.append(f"val_{number}.JPEG\t{wnid}\t{number}\t1\t{number + 5}\t9")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(notes) + "\n")
    return folder


def write_folder(root, train=7, test=3, classes=("ant", "bee")):
    """Pictures of different sizes, shapes and kinds, and a file that is no picture."""
    for split, count in {"train": train, "val": test}.items():
        for kind, name in enumerate(classes):
            folder = root / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                seed = 1000 * (split == "val") + 100 * kind + number
                mode = "L" if number == 1 else "RGB"
                picture = smooth_picture(40 + 3 * number, 52 - 2 * number, seed, mode)
                picture.save(folder / f"{number:02}.{'png' if number % 2 else 'jpg'}")
            (folder / "notes.txt").write_text("no picture")
    return root


# ---- Speech -------------------------------------------------------------------------------------


def write_wave(path, samples, rate=16_000, channels=1, width=2):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as clip:
        clip.setnchannels(channels)
        clip.setsampwidth(width)
        clip.setframerate(rate)
        clip.writeframes(np.asarray(samples, "<i2").tobytes())


def tone(seed, count=16_000):
    rng = np.random.default_rng(seed)
    heard = np.sin(np.arange(count) * rng.uniform(0.05, 1.5)) + 0.1 * rng.standard_normal(count)
    return (heard * rng.uniform(2000, 12000)).astype("<i2")


def write_speech(root, words=("yes", "no", "up"), each=5):
    folder = root / "SpeechCommands" / "speech_commands_v0.01"
    for kind, word in enumerate(words):
        for number in range(each):
            # Shorter and longer than a second, too.
            count = [16_000, 12_000, 17_000][number % 3]
            write_wave(folder / word / f"clip_{number}.wav", tone(10 * kind + number, count))
    write_wave(folder / "_background_noise_" / "hum.wav", tone(99, 20_000))
    (folder / "validation_list.txt").write_text("\n".join(f"{w}/clip_0.wav" for w in words) + "\n")
    (folder / "testing_list.txt").write_text("\n".join(f"{w}/clip_4.wav" for w in words) + "\n")
    return folder
