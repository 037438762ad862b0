"""Where saliency comes from: a run's network, one by its name, the demo's, or none at all."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comixup import saliency, spectral_residual
from comixup.lab import data, models
from comixup.lab.explorer._demo_network import demo_network
from comixup.lab.explorer._images import Batch, seeded
from comixup.lab.explorer._settings import DEMO

IMAGENET_CLASSES = 1000
IMAGENET = models.Preprocessing(
    (3, 224, 224), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), resize=256
)
"""Of networks with random weights."""
_WEIGHTS_SEED = 0


@dataclass(frozen=True, eq=False)
class Network:
    """A classifier, and how images become its input.

    Attributes:
        model: in evaluation mode.
        shape: (C, H, W) of its images.
        mean: per channel, in [0, 1] colours.
        std: per channel.
        classes: their names; empty if they are not known.
        lock: held by whoever runs it: a pass to the images sets flags of the model's tensors.
    """

    model: nn.Module
    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    classes: tuple[str, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)


def load_network(source: str, *, pretrained: bool = True) -> Network:
    """Returns the network that a source of saliency names.

    Args:
        source: `DEMO`, the folder of a run, or a name that `comixup.lab.models.build` knows, such
            as "torchvision:resnet18" or "timm:vit_tiny_patch16_224". What is a folder, or has the
            system's separator in it, is taken for a run.
        pretrained: load weights trained on ImageNet, see `comixup.lab.models.build`; or else random
            ones, from a fixed seed.
    """
    if source == DEMO:
        digits = data.load("digits")
        return Network(demo_network(), (1, 28, 28), digits.mean, digits.std, digits.classes)
    if is_run(source):
        run = models.load(source)
        stated = run.preprocessing
        return Network(run.model, stated.shape, stated.mean, stated.std, run.classes)
    stated = models.pretrained_preprocessing(source) if pretrained else IMAGENET
    with seeded(_WEIGHTS_SEED):
        model = models.build(source, IMAGENET_CLASSES, shape=stated.shape, pretrained=pretrained)
    return Network(model.eval(), stated.shape, stated.mean, stated.std)


def is_run(source: str) -> bool:
    """Whether a source of saliency is the folder of a run, and no name."""
    return os.sep in source or Path(source).is_dir()


def network_maps(batch: Batch, network: Network) -> Tensor:
    """Returns the saliency of images to a network, (m, H, W) of the network's size.

    The gradient of its loss. The targets are the images' classes if the network knows them all by
    name, or else the classes that it predicts.
    """
    images = _prepared(batch.images, network)
    known = {name: index for index, name in enumerate(network.classes)}
    names = [batch.class_names[index] for index in batch.targets.tolist()]
    with network.lock:
        if all(name in known for name in names):
            targets = torch.tensor([known[name] for name in names])
        else:
            with torch.no_grad():
                targets = network.model(images).argmax(1)
        return saliency(network.model, images, targets, keep_gradients=False)


def spectral_maps(batch: Batch) -> Tensor:
    """Returns where images stand out from themselves, (m, H, W), without a network."""
    return spectral_residual(batch.images)


def _prepared(images: Tensor, network: Network) -> Tensor:
    """Returns images resized, with the network's channels, and normalised."""
    channels, height, width = network.shape
    if images.shape[1] != channels:
        images = images.mean(1, keepdim=True).expand(-1, channels, -1, -1)
    if images.shape[2:] != (height, width):
        images = F.interpolate(images, (height, width), mode="bilinear", antialias=True)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (network.mean, network.std))
    return (images - mean) / std
