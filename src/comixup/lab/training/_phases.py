"""Stretches of epochs within a recipe."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """A stretch of epochs with one batch size and one image size.

    Attributes:
        epochs: how many.
        batch_size: images of a step, over all processes together.
        image_size: pixels per side, for data sets that are cropped and scaled; None: its own.
        min_scale: least fraction of an image's area that such a crop keeps.
    """

    epochs: int
    batch_size: int
    image_size: int | None = None
    min_scale: float | None = None


def ends_of(phases: tuple[Phase, ...], epochs: int | None = None) -> list[int]:
    """Returns the epoch after each phase, if they are scaled to so many epochs in all."""
    ends = list(itertools.accumulate(phase.epochs for phase in phases))
    return ends if epochs is None else [round(end * epochs / ends[-1]) for end in ends]


def with_ends(phases: tuple[Phase, ...], ends: list[int]) -> tuple[Phase, ...]:
    """Returns the phases with other ends, without those that shrink to none."""
    return tuple(
        dataclasses.replace(phase, epochs=end - start)
        for phase, start, end in zip(phases, [0, *ends[:-1]], ends, strict=True)
        if end > start
    )
