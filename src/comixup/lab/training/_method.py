"""One way to train within a recipe: a mixer with its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from comixup._checks import check_boolean, check_choice, check_number

Settings: TypeAlias = Mapping[str, Any]

SaliencyMode: TypeAlias = Literal["paper", "one-pass", "one-pass-shuffled", "one-pass-spectral"]
SALIENCY_MODES = ("paper", "one-pass", "one-pass-shuffled", "one-pass-spectral")

UNMIXED = "vanilla"
"""The mixer that leaves batches unmixed."""
CHOICE = "choice"
"""The mixer of a method with parts."""
JOINT = "+"
"""Between the names of methods of which one is drawn for each batch."""


@dataclass(frozen=True)
class Method:
    """One way to train within a recipe: a column of a table of the paper.

    Attributes:
        mixer: "vanilla", "input", "manifold", "cutmix", "puzzlemix" or "comixup"; "choice" of a
            method with `parts`.
        settings: keywords of that mixer.
        vat: keywords of `vat_loss` and its `weight`, for virtual adversarial training of unmixed
            images; None with any mixer but "vanilla".
        paper: the top-1 error in percent that the paper reports, or None.
        epoch_multiplier: epochs of this method, as a multiple of the recipe's.
        lr_multiplier: learning rates of this method, as a multiple of the recipe's.
        saliency: where maps come from: a pass of their own ("paper"), or earlier batches
            ("one-pass", see `OnePass`). The others are controls: other examples' maps
            ("one-pass-shuffled") or spectral residual ("one-pass-spectral").
        memory: keywords of `SaliencyMemory` and `OnePass`, where saliency is not "paper".
        ema: decay of the exponential moving average of the weights, in [0, 1), that is evaluated
            and saved; None evaluates and saves the weights themselves.
        schedule: which epochs are mixed, but for the recipe's unmixed ones: all of them (empty),
            {"off": 0.1} for all but the last tenth, {"annealed": True}: see `comixup.Schedule`.
        parts: methods of which one is drawn for each batch, by name: see `Recipe.choose`.
    """

    mixer: str
    settings: Settings = field(default_factory=dict)
    vat: Settings | None = None
    paper: float | None = None
    epoch_multiplier: float = 1.0
    lr_multiplier: float = 1.0
    saliency: SaliencyMode = "paper"
    memory: Settings = field(default_factory=dict)
    ema: float | None = None
    schedule: Settings = field(default_factory=dict)
    parts: Mapping[str, Method] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("saliency", self.saliency, SALIENCY_MODES)
        if self.ema is not None:
            check_number("ema", self.ema, high=1)
            if self.ema == 1:
                raise ValueError(
                    f"`ema` must be below 1, got {self.ema!r}, which would keep the initial "
                    "weights. 0.99 averages about the last 100 steps, 0.999 the last 1,000."
                )
        if self.vat is not None and self.mixer != UNMIXED:
            # Its loss compares the logits of unmixed images with those of the perturbed ones.
            raise ValueError(
                f'`vat` must be None unless mixer is "{UNMIXED}", got {dict(self.vat)} with '
                f"{self.mixer!r}: a mixed batch has no logits of the unmixed images to smooth. "
                "Train with one of them."
            )
        if self.memory and self.saliency == "paper":
            raise ValueError(
                '`memory` must be empty where saliency is "paper", which has none, got '
                f'{dict(self.memory)}. Set saliency to "one-pass".'
            )
        for name, value in self.schedule.items():
            check_choice("schedule", name, ("annealed", "off"))
            if name == "annealed":
                check_boolean(name, value)
            else:
                check_number(name, value, high=1)
        if bool(self.parts) != (self.mixer == CHOICE):
            raise ValueError(
                f'`parts` must be given if mixer is "{CHOICE}", and else be left out, got '
                f"{', '.join(self.parts) or 'none'} with {self.mixer!r}."
            )
