"""A picture of the first mixed batch of a run."""

from __future__ import annotations

from pathlib import Path

from comixup import Mixer, NoMix, OnePass, Plan, mix
from comixup.data import DataSet, Loader
from comixup.training._pictures import draw_batch

WHOLE = 0.95
"""Fraction of one input from which on an output counts as that input."""


def draw_first_batch(
    path: Path,
    mixer: Mixer | OnePass,
    data: DataSet,
    loader: Loader,
    when: tuple[int, int],
    accumulate: int,
    title: str,
) -> None:
    """Draws the batch just trained on, if it shows mixtures; its plan is at hand.

    Where nothing stands out yet Co-Mixup leaves images whole, which shows little: a batch is worth
    it if most of its outputs are mixtures, or if it is its epoch's last.

    Args:
        path: where to.
        mixer: which mixed the batch.
        data: for the images' colours and the classes' names.
        loader: loads its images again.
        when: the epoch, and the steps of it that are done.
        accumulate: micro-batches of this process's share; the last one is drawn.
        title: of the picture.
    """
    last, (epoch, step) = mixer.last, when
    if not isinstance(mixer, NoMix):
        if not last.mixed:
            return
        if step < len(loader) and not _is_mixture(last.plan):
            return
    images, targets = next(iter(loader.epoch(epoch, step - 1)))
    chosen = min(accumulate, len(images)) - 1
    images = images.tensor_split(accumulate)[chosen].cpu()
    targets = targets.tensor_split(accumulate)[chosen].cpu()
    mixed, weights = mix(images, targets, last.plan, num_classes=data.num_classes)
    if last.layer is not None:  # mixed inside the network: the images themselves are whole
        mixed = images
    draw_batch(data.pixels(images), data.pixels(mixed), weights, data.classes, path, title)


def _is_mixture(plan: Plan) -> bool:
    """Whether most outputs of a plan have more than one input in them."""
    largest = plan.source_ratio().amax(1)
    return bool((largest < WHOLE).float().mean() > 0.5)
