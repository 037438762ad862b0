"""The Python lines that make the same batch."""

from __future__ import annotations

from comixup.lab.explorer._images import Batch
from comixup.lab.explorer._settings import SPECTRAL, Settings

_FIELDS = (*("beta", "gamma", "tau", "omega", "eta", "grid", "partition_size", "levels", "sweeps"),)
_HEAD = """\
import torch

import comixup
from comixup.lab import explorer

batch = {call}
saliency = {saliency}
{augmented}mixup = comixup.CoMixup(
    num_classes={classes},
"""
_TAIL = """\
    generator=torch.Generator().manual_seed({seed}),
)
images, targets = mixup(batch.images, batch.targets, saliency)
figure = comixup.plot_batch(
    batch.images, batch.targets, mixup, class_names=batch.class_names, tint={tint}
)
figure.savefig("batch.png")
"""


def python_lines(batch: Batch, settings: Settings) -> str:
    """Returns a program that mixes a batch as `explore` does, to the last bit, and draws it.

    Args:
        batch: image files are named without their folder: run the lines where they are.
        settings: how.
    """
    if settings.saliency == SPECTRAL:
        saliency = "comixup.spectral_residual(batch.images)"
    else:
        pretrained = "" if settings.pretrained else ", pretrained=False"
        network = f"explorer.load_network({settings.saliency!r}{pretrained})"
        saliency = f"explorer.network_maps(batch, {network})"
    augmented = ""
    if settings.augment != "none":
        call = f"explorer.augmented(batch, saliency, {settings.augment!r}, seed={settings.seed})"
        augmented = f"batch, saliency = {call}\n"
    head = _HEAD.format(
        call=batch.call,
        saliency=saliency,
        augmented=augmented,
        classes=len(batch.class_names),
    )
    chosen = "".join(f"    {name}={getattr(settings, name)!r},\n" for name in _FIELDS)
    return head + chosen + _TAIL.format(seed=settings.seed, tint=batch.tint)
