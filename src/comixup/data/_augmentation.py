"""How training images are augmented: crops and flips, and what is drawn on top of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from torchvision.transforms import v2  # type: ignore[import-untyped]

Augmentation: TypeAlias = Literal["crop-flip", "trivial", "rand", "auto", "none"]
"""Random crops and flips alone, or followed by torchvision's TrivialAugmentWide, RandAugment or
AutoAugment with its default settings; or nothing at all."""
AUGMENTATIONS: tuple[Augmentation, ...] = get_args(Augmentation)


def operations(augment: Augmentation) -> v2.Transform | None:
    """Returns what is applied to each image after crop and flip; None if nothing is."""
    from torchvision.transforms import v2  # noqa: PLC0415 - recipes are listed sooner without

    kinds = {"trivial": v2.TrivialAugmentWide, "rand": v2.RandAugment, "auto": v2.AutoAugment}
    return kinds[augment]() if augment in kinds else None
