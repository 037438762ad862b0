"""Networks that saliency comes from: a run's, or one by its name."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from comixup import saliency
from comixup.lab import models
from comixup.lab.explorer._images import Batch, seeded

_IMAGENET = models.Preprocessing(
    (3, 224, 224), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), resize=256
)
"""Of networks with random weights."""


@dataclass(frozen=True, eq=False)
class Network:
    """A classifier, and how images become its input.

    Attributes:
        model: in evaluation mode.
        preprocessing: the size and normalisation of its images.
        classes: their names; empty if they are not known.
        lock: held by whoever runs it: a pass to the images sets flags of the model's tensors.
    """

    model: nn.Module
    preprocessing: models.Preprocessing
    classes: tuple[str, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)


def load_network(source: str, *, pretrained: bool = True) -> Network:
    """Returns the network that a source of saliency names.

    Args:
        source: the folder of a run, or a name that `comixup.lab.models.build` knows, such as
            "torchvision:resnet18" or "timm:vit_tiny_patch16_224". What is a folder, or has the
            system's separator in it, is taken for a run.
        pretrained: load weights trained on ImageNet, see `comixup.lab.models.build`; or else random
            ones, from a fixed seed.
    """
    if is_run(source):
        run = models.load(source)
        return Network(run.model, run.preprocessing, run.classes)
    stated = models.pretrained_preprocessing(source) if pretrained else _IMAGENET
    with seeded(0):
        model = models.build(source, 1000, shape=stated.shape, pretrained=pretrained)
    return Network(model.eval(), stated)


def is_run(source: str) -> bool:
    """Whether a source of saliency is the folder of a run, and no name."""
    return os.sep in source or Path(source).is_dir()


def network_maps(batch: Batch, network: Network) -> Tensor:
    """Returns the saliency of images to a network, (m, H, W) of the network's size.

    The gradient of its loss. The targets are the images' classes if the network knows them all by
    name, or else the classes that it predicts.
    """
    images = _prepared(batch.images, network.preprocessing)
    known = {name: index for index, name in enumerate(network.classes)}
    names = [batch.class_names[index] for index in batch.targets.tolist()]
    with network.lock:
        if all(name in known for name in names):
            targets = torch.tensor([known[name] for name in names])
        else:
            with torch.no_grad():
                targets = network.model(images).argmax(1)
        return saliency(network.model, images, targets, keep_gradients=False)


def _prepared(images: Tensor, stated: models.Preprocessing) -> Tensor:
    """Returns images resized, with the network's channels, and normalised."""
    channels, height, width = stated.shape
    if images.shape[1] != channels:
        images = images.mean(1, keepdim=True).expand(-1, channels, -1, -1)
    if images.shape[2:] != (height, width):
        images = F.interpolate(images, (height, width), mode="bilinear", antialias=True)
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (stated.mean, stated.std))
    return (images - mean) / std
