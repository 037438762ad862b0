"""A picture of what was done to a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from comixup._checks import check_boolean, check_choice, check_count
from comixup.core.mix import Plan
from comixup.core.tensors import check_images
from comixup.mixers import Mixed, Mixer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("inputs", "outputs")


def plot_batch(
    images: Tensor,
    targets: Tensor,
    mixer: Mixer | Mixed | Plan,
    *,
    saliency: Tensor | None = None,
    class_names: Sequence[str] | None = None,
    num_classes: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    tint: bool = False,
    title: str | None = None,
    parts: Sequence[str] = PARTS,
    max_inputs: int = 20,
    max_outputs: int = 20,
) -> Figure:
    """Returns a matplotlib figure of what a mixer has just done to a batch.

    Inputs in frames of their colours, their saliency below them; outputs with the borders of their
    cells in the colours of the inputs, dashed where inputs are blended, and a bar for the soft
    target. Notebooks show the figure; `figure.savefig("batch.png")` writes it.

    Args:
        images: (m, C, H, W) as the mixer got them, of one or three channels. Not changed.
        targets: as the mixer got them.
        mixer: the mixer, after it was called on these images; or its `last`; or a plan, such as a
            `Labelling`.
        saliency: (m, *size) maps to show; None shows what the mixer used, on its grid.
        class_names: the name of each class; None for their indices.
        num_classes: needed for class indices, where neither the mixer nor `class_names` tells.
        mean: of each channel, what the images were normalized with; with `std` their colours are
            shown as they were. Without, colours outside of [0, 1] are scaled to it.
        std: of each channel, likewise.
        tint: draw images of one channel as ink in the colours of the inputs, on paper: for digits
            and other drawings.
        title: the first line.
        parts: of "inputs" and "outputs".
        max_inputs: show at most so many inputs; the figure tells how many more there are.
        max_outputs: show at most so many outputs.

    >>> import torch
    >>> from comixup import CoMixup
    >>> mixup = CoMixup(num_classes=10)
    >>> images, targets = torch.rand(6, 3, 32, 32), torch.arange(6)
    >>> mixed, soft = mixup(images, targets, torch.rand(6, 32, 32))
    >>> float(plot_batch(images, targets, mixup, title="Six images").get_figwidth())
    11.0
    """
    try:  # here, since the core does without matplotlib
        from comixup.plots._pictures import BatchPicture, prepare_pixels  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(
            "matplotlib must be installed for plot_batch, and it is not. Use pip install "
            "'comixup[demo]'.",
            name="matplotlib",
        ) from None
    decided = _decided(mixer)
    check_images(images)
    for part in parts:
        check_choice("parts", part, PARTS)
    for name, count in (("max_inputs", max_inputs), ("max_outputs", max_outputs)):
        check_count(name, count)
    check_boolean("tint", tint)
    if num_classes is None:
        num_classes = getattr(mixer, "num_classes", None)
    picture = BatchPicture(images, targets, decided, class_names, num_classes)
    return picture.figure(
        prepare_pixels(images, mean, std, tint=tint),
        title,
        max_inputs if "inputs" in parts else None,
        max_outputs if "outputs" in parts else None,
        saliency,
    )


def _decided(mixer: object) -> Mixed:
    """Returns what was decided for a batch, from any of the forms that tell it."""
    if isinstance(mixer, Mixer):
        return mixer.last
    if isinstance(mixer, Mixed):
        return mixer
    if all(hasattr(mixer, name) for name in ("mix_images", "source_ratio", "masks", "num_inputs")):
        return Mixed(mixer)  # type: ignore[arg-type]
    raise TypeError(
        "`mixer` must be a mixer that has mixed this batch, its `last`, or a plan, got "
        f"{type(mixer).__name__}. Call plot_batch(images, targets, mixup) after "
        "mixup(images, targets, ...)."
    )
