"""Augmentation of training images: crops, flips, and automatic augmentation policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from torchvision.transforms import v2  # type: ignore[import-untyped]

Augmentation: TypeAlias = Literal["crop-flip", "trivial", "rand", "auto", "none"]
"""Random crops and flips, alone or followed by torchvision's TrivialAugmentWide, RandAugment or
AutoAugment with default settings; or nothing."""
AUGMENTATIONS: tuple[Augmentation, ...] = get_args(Augmentation)
"""The names of all augmentations."""


DEFAULT_MIN_SCALE = 0.08
"""Least area of a random crop, as a fraction of the image's: torchvision's default."""


def training_view(
    augment: Augmentation, size: int, min_scale: float = DEFAULT_MIN_SCALE
) -> Callable[..., Any]:
    """Returns the training transform of PIL images, to (C, size, size) uint8.

    "none" is the evaluation transform; `min_scale` the least area of a random crop, as a fraction.
    """
    from torchvision.transforms import v2  # noqa: PLC0415 - recipes are listed sooner without

    from comixup.lab._pictures import CenterView  # noqa: PLC0415

    if augment == "none":
        return CenterView(size)
    crop = v2.RandomResizedCrop(size, scale=(min_scale, 1), antialias=True)
    steps = [crop, v2.RandomHorizontalFlip(), operations(augment), v2.PILToTensor()]
    view: Callable[..., Any] = v2.Compose([step for step in steps if step is not None])
    return view


def operations(augment: Augmentation) -> v2.Transform | None:
    """Returns the transform to apply after crop and flip; None for none."""
    from torchvision.transforms import v2  # noqa: PLC0415 - recipes are listed sooner without

    kinds = {"trivial": v2.TrivialAugmentWide, "rand": v2.RandAugment, "auto": v2.AutoAugment}
    return kinds[augment]() if augment in kinds else None
