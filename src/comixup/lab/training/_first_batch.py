"""A picture of the first mixed batch of a run."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from comixup import Mixer, Plan, plot_batch
from comixup._figures import write_figure
from comixup.lab.data import DataSet, Loader

MAX_INPUTS = 10
WHOLE = 0.95
"""Fraction of one input from which on an output counts as that input."""


def draw_first_batch(
    path: Path,
    mixer: Mixer,
    data: DataSet,
    loader: Loader,
    when: tuple[int, int],
    accumulate: int,
    title: str,
) -> dict[str, Tensor]:
    """Draws the batch just trained on, if it shows mixtures; returns its pictures for TensorBoard.

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
    if not mixer.mixes_nothing:
        if not last.mixed:
            return {}
        if step < len(loader) and not _is_mixture(last.plan):
            return {}
    images, targets = next(iter(loader.epoch(epoch, step - 1)))
    chosen = min(accumulate, len(images)) - 1
    images = images.tensor_split(accumulate)[chosen].cpu()
    targets = targets.tensor_split(accumulate)[chosen].cpu()
    pixels = data.pixels(images)
    figure = plot_batch(
        pixels, targets, last, class_names=data.classes, title=title, max_inputs=MAX_INPUTS
    )
    write_figure(figure, path)
    # Mixed inside the network the images themselves are whole.
    outputs = pixels if last.layer is not None else last.plan.mix_images(pixels)
    pictures = {"inputs": pixels, "outputs": outputs}
    if last.cells is not None:
        pictures["saliency"] = _shaded(pixels, last.cells)
    return {f"first_batch/{name}": _in_range(batch) for name, batch in pictures.items()}


def _shaded(pixels: Tensor, cells: Tensor) -> Tensor:
    """Returns images as bright as their cells are salient; the most salient cell stays as it is."""
    highest = cells.flatten(1).amax(1).clamp_min(torch.finfo(cells.dtype).tiny)
    brightness = (cells / highest.view(-1, *[1] * (cells.ndim - 1))).unsqueeze(1)
    return _in_range(pixels) * F.interpolate(brightness.float(), pixels.shape[2:])


def _in_range(pixels: Tensor) -> Tensor:
    """Returns images in [0, 1]: spectrograms, which have no colours, by their own range."""
    low, high = pixels.aminmax()
    return pixels if low >= 0 and high <= 1 else (pixels - low) / (high - low)


def _is_mixture(plan: Plan) -> bool:
    """Whether most outputs of a plan have more than one input in them."""
    largest = plan.source_ratio().amax(1)
    return bool((largest < WHOLE).float().mean() > 0.5)
