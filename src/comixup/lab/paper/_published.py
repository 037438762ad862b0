"""What the paper printed: the numbers of its tables and figures that no recipe has."""

from __future__ import annotations

from collections.abc import Mapping

METHODS = {
    "vanilla": "Vanilla",
    "input": "Input",
    "manifold": "Manifold",
    "cutmix": "CutMix",
    "puzzlemix": "Puzzle Mix",
    "comixup": "Co-Mixup",
}
"""Columns of most tables, by the names that recipes have for them."""


def by_method(*values: float) -> dict[str, float]:
    """Returns a printed row, by method.

    >>> by_method(3.9, 17.7, 13.1, 5.6, 7.5, 1.9)["comixup"]
    1.9
    """
    return dict(zip(METHODS, values, strict=True))


SPEECH_APPENDIX = by_method(4.84, 3.91, 3.67, 3.76, 3.70, 3.57)
"""Table 9, VGG-11: Table 1 has 3.54 for the same network."""
LOCALISATION = by_method(54.36, 55.07, 54.86, 54.91, 55.22, 55.32)
"""Table 2: Top-1 Loc on ImageNet, %."""
CALIBRATION: Mapping[str, Mapping[str, float]] = {
    "CIFAR-100": by_method(3.9, 17.7, 13.1, 5.6, 7.5, 1.9),
    "Tiny-ImageNet": by_method(4.5, 6.2, 6.8, 12.0, 5.6, 2.5),
    "ImageNet": by_method(5.9, 1.2, 1.7, 4.3, 2.1, 2.1),
}
"""Tables 2 and 10: ECE, %."""
ROBUSTNESS: Mapping[str, Mapping[str, float]] = {
    "replaced_error": by_method(41.63, 39.41, 39.72, 46.20, 39.23, 38.77),
    "replaced_increment": by_method(17.62, 16.47, 16.47, 23.16, 16.69, 16.38),
    "noise_error": by_method(29.22, 26.29, 26.79, 27.13, 26.11, 25.89),
    "noise_increment": by_method(5.21, 3.35, 3.54, 4.09, 3.57, 3.49),
}
"""Table 3, by metric."""

EXHAUSTIVE: Mapping[tuple[int, int, int], tuple[float, float, float, float]] = {
    (2, 2, 4): (1.91, 1.90, 3.54, 0.004),
    (2, 2, 9): (1.93, 1.91, 3.66, 0.01),
    (3, 3, 4): (2.89, 2.85, 22.02, 0.002),
}
"""Table 6, by (m, m', n): ours, the optimum, random guess, relative error."""

NARASIMHAN_BILMES: Mapping[str, Mapping[int, str]] = {
    "ours": {5: "3.1 (1.7)", 10: "15 (6.6)", 20: "54 (15)", 50: "205 (26)", 100: "469 (31)"},
    "narasimhan_bilmes": {
        5: "269 (58)",
        10: "1071 (174)",
        20: "4344 (701)",
        50: "24955 (4439)",
        100: "85782 (14337)",
    },
    "random": {
        5: "809 (22)",
        10: "7269 (92)",
        20: "60964 (413)",
        50: "980973 (2462)",
        100: "7925650 (10381)",
    },
}
"""Table 7: mean objective (standard deviation) by m."""
CONVERGENCE: Mapping[str, Mapping[int, float]] = {
    "ours": {5: 0.02, 10: 0.04, 20: 0.11, 50: 0.54, 100: 2.71},
    "narasimhan_bilmes": {5: 0.06, 10: 0.09, 20: 0.27, 50: 1.27, 100: 7.08},
}
"""Table 8: seconds until convergence, by m."""
RUN_TIME: Mapping[str, Mapping[int, float]] = {
    "levels": {2: 1.04, 3: 1.21, 4: 1.36},
    "inputs": {2: 0.51, 10: 0.7, 20: 1.04, 50: 3.19, 100: 9.84},
}
"""Figure 6: milliseconds, as its axis says, by |L| and by m."""

INPUTS_PER_OUTPUT: Mapping[str, tuple[int, ...]] = {
    "small": (19, 73, 8, 0, 0, 0),
    "large": (4, 31, 44, 19, 1, 1),
}
"""Figure 2 (b): outputs out of 100 that are made of 1, 2, ..., 6 inputs, by the size of tau."""
BATCH_SALIENCY = {
    "vanilla": 1.0,
    "input": 1.0,
    "cutmix": 1.0,
    "puzzlemix": 1.22,
    "comixup": 1.36,
}
"""Figure 2 (c), on ImageNet."""
