"""Mixing of dictionary batches: images, masks and targets alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from comixup.core.masks import IGNORE_INDEX, check_mixable
from comixup.core.mix import mix_targets, soft_targets
from comixup.core.tensors import check_images
from comixup.mixers._mixer import Mixer, mixes_images

_ENTRY = "batch[{!r}]"
"""How error messages refer to entries: a mixer's own say `images` and `targets`."""


def mix_dict(
    mixer: Mixer,
    batch: Mapping[str, Any],
    saliency: Tensor | None = None,
    *,
    images: str | Sequence[str],
    masks: str | Sequence[str] = (),
    targets: str | Sequence[str] = (),
    unmixed: str | Sequence[str] = (),
    ignore_index: int | None = IGNORE_INDEX,
) -> dict[str, Any]:
    """Returns a new dictionary with all entries of a batch mixed by the same plan.

    Every entry has to be named; others raise an error, so that none is left unmixed by mistake.
    Detection boxes and key points cannot be mixed and always raise an error.

    Args:
        mixer: the method; called once, with the first of `images`.
        batch: the entries. Not changed.
        saliency: for methods that need it; see `Mixer`.
        images: names of entries (m, C, *size) to mix as images: images, depth, one-hot masks.
        masks: names of entries to mix as masks of class indices, (m, *size) integers.
        targets: names of entries to mix as targets: (m,) class indices, for which the mixer needs
            its `num_classes`, or (m, columns) numbers.
        unmixed: names of entries to leave as they are: file names, indices.
        ignore_index: the value of pixels without a class; None if every value is one.

    >>> from comixup import CutMix
    >>> batch = {"image": torch.rand(8, 3, 32, 32), "mask": torch.zeros(8, 32, 32).long()}
    >>> mixed = mix_dict(CutMix(), batch, images="image", masks="mask")
    >>> mixed["image"].shape, mixed["mask"].shape, mixed["mask"].dtype
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 32, 32]), torch.int64)
    """
    if not mixes_images(mixer):
        raise TypeError(
            "`mixer` must be one of comixup's methods that mix images, got "
            f"{type(mixer).__name__}. Use comixup.CoMixup(num_classes), for instance."
        )
    roles = {"images": images, "masks": masks, "targets": targets, "unmixed": unmixed}
    named = {role: _names(role, names, batch) for role, names in roles.items()}
    _check_all_named(batch, named)
    if not named["images"]:
        raise ValueError("`images` must name at least one entry of the batch, got none.")
    first = batch[named["images"][0]]
    check_images(first)
    soft = {
        name: soft_targets(
            batch[name],
            len(first),
            mixer.num_classes if getattr(batch[name], "ndim", 0) == 1 else None,
            validate=mixer.validate,
        )
        for name in named["targets"]
    }
    # The mixer needs targets; those of the batch may be several, or none.
    unused = torch.zeros(len(first), mixer.num_classes or 1, device=first.device)
    mixed = {named["images"][0]: mixer(first, unused, saliency)[0]}
    decided = mixer.last
    for name in named["images"][1:]:
        mixed[name] = mixer.mix_also(_ENTRY.format(name), batch[name], decided.plan.mix_images)
    for name in named["masks"]:
        mixed[name] = mixer.mix_also(
            _ENTRY.format(name),
            batch[name],
            lambda own: decided.plan.mix_masks(own, ignore_index),
        )
    ratio = decided.target_ratio
    if ratio is None:
        ratio = decided.plan.source_ratio(first.shape[2:])
    for name, target in soft.items():
        mixed[name] = mixer.mix_also(
            _ENTRY.format(name), target, lambda own: mix_targets(own, ratio)
        )
    return {name: mixed.get(name, value) for name, value in batch.items()}


def _names(role: str, names: str | Sequence[str], batch: Mapping[str, Any]) -> list[str]:
    """Returns the names for an argument, validated as entries of the batch."""
    listed = [names] if isinstance(names, str) else list(names)
    for name in listed:
        if name not in batch:
            raise ValueError(
                f"`{role}` must name entries of the batch, {', '.join(map(repr, batch))}, got "
                f"{name!r}."
            )
    return listed


def _check_all_named(batch: Mapping[str, Any], named: Mapping[str, list[str]]) -> None:
    """Raises for entries named twice or not at all, and for unmixable ones."""
    for name, value in batch.items():
        roles = [role for role, names in named.items() for other in names if other == name]
        check_mixable(name, value)
        if len(roles) != 1:
            how = " and ".join(f"`{role}`" for role in roles) or "none of them"
            raise ValueError(
                f"`batch` must have each entry named once, in `images`, `masks`, `targets` or "
                f"`unmixed`, got {name!r} in {how}. List entries to keep in `unmixed`."
            )
