"""A trained network of timm's as the folder that `timm.create_model("local-dir:...")` reads."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from torch import nn

from comixup.lab.models._load import Classifier
from comixup.lab.models._timm import import_timm

WEIGHTS, CONFIG = "model.safetensors", "config.json"
"""timm's names."""


def is_timms(model: nn.Module) -> bool:
    """Returns whether a network's class is one of timm's."""
    return type(model).__module__.partition(".")[0] == "timm"


def write_timm_folder(classifier: Classifier, folder: Path) -> None:
    """Writes weights and a config.json with the preprocessing and the names of the classes."""
    from safetensors.torch import save_file  # noqa: PLC0415  (an extra)

    model, preprocessing = classifier.model, classifier.preprocessing
    own: Any = model.pretrained_cfg
    settings = {
        "num_classes": classifier.num_classes,
        "input_size": list(preprocessing.shape),
        "fixed_input_size": bool(own.get("fixed_input_size")),
        "interpolation": preprocessing.interpolation,
        "crop_pct": crop_fraction(preprocessing.shape[1], preprocessing.resize),
        "crop_mode": "center",
        "mean": list(preprocessing.mean),
        "std": list(preprocessing.std),
        "first_conv": own.get("first_conv"),
        "classifier": own.get("classifier"),
    }
    config: dict[str, Any] = {
        "architecture": own["architecture"],
        "num_classes": classifier.num_classes,
        "pretrained_cfg": settings,
    }
    if classifier.classes:
        config["label_names"] = list(classifier.classes)
    weights = {
        name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()
    }
    folder.mkdir()
    save_file(weights, folder / WEIGHTS, {"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")


def read_timm_folder(folder: Path) -> nn.Module:
    """Returns the network of a folder as timm reads it, in evaluation mode."""
    model: nn.Module = import_timm().create_model(f"local-dir:{folder}", pretrained=True)
    return model.eval()


def crop_fraction(crop: int, resize: int) -> float:
    """Returns timm's `crop_pct`: the crop's side by the resized one, as timm rounds it back.

    >>> fraction = crop_fraction(64, 73)
    >>> math.floor(64 / fraction)
    73
    """
    fraction = crop / resize
    while math.floor(crop / fraction) < resize:
        fraction = math.nextafter(fraction, 0)
    return fraction
