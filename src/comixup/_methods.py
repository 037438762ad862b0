"""The registry of methods, by the names used in recipes and commands.

Recipes (`--method`), `comixup mix`, the explorer, tables, pictures and the tests read this list.
Imports no torch, so that `--help` does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Listed(NamedTuple):
    """A registered method: its class in `comixup.mixers`, and its title in tables and figures."""

    mixer: str
    title: str


METHODS: Mapping[str, Listed] = {
    "vanilla": Listed("NoMix", "Vanilla"),
    "input": Listed("InputMixup", "Input mixup"),
    "manifold": Listed("ManifoldMixup", "Manifold mixup"),
    "cutmix": Listed("CutMix", "CutMix"),
    "puzzlemix": Listed("PuzzleMix", "Puzzle Mix"),
    "comixup": Listed("CoMixup", "Co-Mixup"),
    "saliencymix": Listed("SaliencyMix", "SaliencyMix"),
    "resizemix": Listed("ResizeMix", "ResizeMix"),
    "fmix": Listed("FMix", "FMix"),
    "guidedmixup": Listed("GuidedMixup", "GuidedMixup"),
    "rmix": Listed("RMix", "R-Mix"),
    "recursivemix": Listed("RecursiveMix", "RecursiveMix"),
}
"""The paper's methods first, in the order of its columns."""
PAPER = tuple(METHODS)[:6]
"""The columns of the paper's tables."""
