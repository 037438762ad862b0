"""Classifiers of timm, where it is installed, with any number of classes and channels."""

from __future__ import annotations

import importlib
import math
from typing import Any

from torch import nn

from comixup._checks import check_count
from comixup.lab.models._preprocessing import Preprocessing


def timm_names() -> tuple[str, ...]:
    """Returns the names of timm's models."""
    return tuple(import_timm().list_models())


def build_timm(
    name: str, num_classes: int, *, shape: tuple[int, int, int], pretrained: bool = False
) -> nn.Module:
    """Returns one of timm's classifiers.

    Args:
        name: as in `timm_names()`, with or without a tag of pretrained weights after a dot.
        num_classes: number of classes.
        shape: channels, height and width of the images.
        pretrained: load timm's weights, downloading them the first time.
    """
    check_count("num_classes", num_classes)
    timm = import_timm()
    channels, height, width = shape
    settings: dict[str, Any] = {}
    own = timm.models.get_pretrained_cfg(name)
    # Transformers are built for one size; the others reject the keyword.
    if own is not None and own.fixed_input_size and tuple(own.input_size[1:]) != (height, width):
        settings["img_size"] = (height, width)
    model: nn.Module = timm.create_model(
        name, pretrained=pretrained, num_classes=num_classes, in_chans=channels, **settings
    )
    return model


def timm_preprocessing(name: str) -> Preprocessing:
    """Returns how images become the input of one of timm's classifiers with its weights.

    Args:
        name: see `build_timm`.
    """
    own = import_timm().models.get_pretrained_cfg(name)
    if own is None or not own.has_weights:
        raise ValueError(
            f"`pretrained` must be False for timm's {name}, got True: timm has no weights of it."
        )
    channels, height, width = own.input_size
    resize = math.floor(min(height, width) / own.crop_pct)
    return Preprocessing((channels, height, width), tuple(own.mean), tuple(own.std), resize)


def import_timm() -> Any:
    """Returns timm; `ModuleNotFoundError` with what to do where it is not installed."""
    try:
        # Not at the top, as timm is optional: only who asks for its models needs it.
        return importlib.import_module("timm")
    except ModuleNotFoundError as error:
        if error.name != "timm":
            raise
        raise ModuleNotFoundError(
            "timm must be installed for its models, and it is not. Run: pip install timm.",
            name="timm",
        ) from error
