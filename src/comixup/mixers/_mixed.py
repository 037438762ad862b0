"""What is decided for a batch: before it is mixed, and how it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from comixup.core.mix import Plan
from comixup.core.problem import Problem

if TYPE_CHECKING:
    from comixup.mixers._mixer import Mixer


@dataclass(frozen=True, eq=False)
class Mixed:
    """What was decided for a batch.

    Attributes:
        plan: how it is mixed, in host memory. `plan.mix_images` mixes other tensors the same way
            (a teacher's maps), `plan.mix_masks` integer masks of segmentation; `plan.masks` and
            `plan.source_ratio()` tell who is where.
        mixed: False if the batch was left as it was, by chance `p` or because mixing is off.
        layer: the layer of the model in which the images are mixed, where they are not mixed
            themselves (manifold mixup).
        target_ratio: (m', m) weights of the inputs' targets, where they are not the inputs' shares
            of the pixels.
        uniform_maps: inputs whose saliency was zero, constant, NaN or infinite. Nothing in them
            stands out, so they count as uniformly salient.
        cells: (m, *grid) the inputs' saliency on the grid of the method, each summing to 1, in host
            memory; None for methods that need none.
        problems: what Co-Mixup solved, one for each partition of the batch, for
            `comixup.objective(problems, plan)`; empty for other methods.
        loss_weight: weight of the mixed batch's loss, beside the clean loss that was trained on
            (see `Mixer.mixed_weight`).
        chosen: the method that mixed it, as an index of `Choice.mixers`; None for other mixers, and
            for batches that were left as they were.
    """

    plan: Plan
    mixed: bool = True
    layer: str | None = None
    target_ratio: Tensor | None = None
    uniform_maps: int = 0
    cells: Tensor | None = None
    problems: tuple[Problem, ...] = ()
    loss_weight: float = 1.0
    chosen: int | None = None


@dataclass
class NextBatch:
    """What is drawn for a batch before it is mixed: by its clean pass, or else by its call.

    Attributes:
        method: what mixes it: the mixer itself, or one of a `Choice`.
        mixed: False leaves it as it is.
        chosen: the method as an index of `Choice.mixers`.
        loss_weight: weight of the mixed loss beside the clean one; None without a clean pass.
    """

    method: Mixer
    mixed: bool
    chosen: int | None = None
    loss_weight: float | None = None

    @property
    def needs_saliency(self) -> bool:
        """Whether the call takes saliency maps."""
        return self.mixed and self.method.needs_saliency

    @property
    def takes_clean_pass(self) -> bool:
        """Whether a pass over the clean images comes first."""
        return self.mixed and (self.method.needs_saliency or self.method.clean_weight > 0)
