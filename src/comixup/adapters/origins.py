"""Data sets whose samples tell where their pixels come from, for one-pass mixing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import PIL.Image
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from torchvision import tv_tensors  # type: ignore[import-untyped]
from torchvision.transforms import v2  # type: ignore[import-untyped]

from comixup import Origin, SaliencyMemory

Sample: TypeAlias = tuple[Any, Any, Origin]
"""An image, its target, and where it comes from."""

_WITHOUT_MASKS = (v2.AutoAugment, v2.RandAugment, v2.TrivialAugmentWide, v2.AugMix)
"""Transforms that choose geometric operations themselves and take nothing beside the image."""
_MOVING = {kind.__name__ for kind in _WITHOUT_MASKS} | {
    "CenterCrop",
    "ElasticTransform",
    "FiveCrop",
    "Pad",
    "RandomAffine",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomIoUCrop",
    "RandomPerspective",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resize",
    "ScaleJitter",
    "TenCrop",
}
"""Transforms of torchvision, old and new, that move pixels."""
_COMPOSED = (list, tuple, nn.ModuleList, nn.Sequential)
"""What holds the steps of a transform."""
_INSTEAD = (
    "Put transforms that only change colours into `image_transform`; for pipelines that cannot "
    "carry cell numbers take saliency from small images instead: comixup.saliency(..., scale=0.5)."
)


class WithOrigins(Dataset[Sample]):
    """A data set of (image, target) as one of (image, target, Origin).

    Each image takes a picture of its own cell numbers along through the same geometric transforms,
    as a `tv_tensors.Mask`: so the memory knows which cell of which example every pixel shows, to
    the pixel, whatever was cropped, flipped, resized or rotated.

    Args:
        dataset: of (image, target), with PIL images or tensors (C, H, W) that no transform has
            moved yet.
        memory: says what the cells are.
        transform: torchvision's v2 transforms, applied to the image and its cell numbers alike.
            Where they fill with something else than 0, cell numbers are filled with 0 all the same.
        image_transform: applied to the image alone afterwards: colours, noise, normalisation,
            random erasing. It must not move pixels.

    >>> pictures = [(torch.rand(3, 32, 32), 7)]
    >>> memory = SaliencyMemory(len(pictures))
    >>> dataset = WithOrigins(pictures, memory, v2.RandomCrop(28))
    >>> image, target, origin = dataset[0]
    >>> image.shape, target, origin.cells.shape
    (torch.Size([3, 28, 28]), 7, torch.Size([28, 28]))
    """

    def __init__(
        self,
        dataset: Any,
        memory: SaliencyMemory,
        transform: v2.Transform | None = None,
        *,
        image_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        if len(dataset) != len(memory):
            raise ValueError(
                f"`memory` must have a map for each of the {len(dataset)} examples, got one of "
                f"{len(memory)}. Use SaliencyMemory(num_examples={len(dataset)})."
            )
        self.dataset = dataset
        self.transform = None if transform is None else _checked(transform)
        _check_image_transform(image_transform)
        self.image_transform = image_transform
        self._memory_grid = SaliencyMemory(1, cells=memory.grid)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        """Returns an image, its target, and where each of its pixels comes from."""
        image, target = self.dataset[index]
        if isinstance(image, PIL.Image.Image):
            size = (image.height, image.width)
        elif isinstance(image, Tensor) and image.ndim >= 3:
            image = tv_tensors.Image(image)
            size = tuple(image.shape[-2:])
        else:
            raise TypeError(
                "`dataset` must return PIL images or tensors (C, H, W), got "
                f"{type(image).__name__} for example {index}. Give its transforms to WithOrigins."
            )
        numbers = tv_tensors.Mask(self._memory_grid.cell_numbers(size))
        if self.transform is not None:
            image, numbers = self.transform(image, numbers)
        if self.image_transform is not None:
            image = self.image_transform(image)
        if isinstance(image, Tensor):
            image = image.as_subclass(Tensor)
        cells = numbers.as_subclass(Tensor)
        return image, target, Origin(torch.tensor(index), cells.view(cells.shape[-2:]))


def _checked(transform: Any) -> v2.Transform:
    """Returns a copy of a transform that fills cell numbers with 0, or raises."""
    transform = _carrying(copy.deepcopy(transform))
    for step in _transforms(transform):
        if isinstance(step, _WITHOUT_MASKS):
            raise ValueError(
                f"`transform` must carry masks, which {type(step).__name__} cannot. {_INSTEAD}"
            )
        if isinstance(step, v2.Lambda):
            raise ValueError(
                "`transform` must tell images from masks, which Lambda does not: it would change "
                "the cell numbers like the image. Give it as `image_transform`, if it moves no "
                "pixels."
            )
        if isinstance(step, v2.RandomErasing):
            raise ValueError(
                "`transform` must move the image and its cell numbers alike, but RandomErasing "
                "changes the image alone. Give it as `image_transform`: erased pixels then count "
                "for the cells that they cover."
            )
        if not isinstance(step, v2.Transform):
            raise TypeError(
                "`transform` must be made of torchvision's v2 transforms, which carry masks along, "
                f"got {type(step).__module__}.{type(step).__name__}. {_INSTEAD}"
            )
        if getattr(step, "fill", 0) not in (0, None):
            filled = getattr(step, "_fill", None)
            if not isinstance(filled, dict):
                raise ValueError(
                    f"`transform` must fill masks with 0, got fill={step.fill!r} in "
                    f"{type(step).__name__}. Use fill={{tv_tensors.Mask: 0, 'others': ...}}."
                )
            step._fill = {**filled, tv_tensors.Mask: 0}
    return transform


def _check_image_transform(transform: Any) -> None:
    """Raises `ValueError` for transforms of torchvision that move pixels without cell numbers."""
    for step in _transforms(transform):
        name, module = type(step).__name__, type(step).__module__
        if name in _MOVING and module.startswith("torchvision."):
            raise ValueError(
                f"`image_transform` must not move pixels, but {name} does: saliency would be "
                "remembered for other cells than it is of. Give it as `transform`, as one of "
                "torchvision's v2 transforms that take masks; for pipelines that cannot, take "
                "saliency from small images instead: comixup.saliency(..., scale=0.5)."
            )


def _carrying(transform: Any) -> Any:
    """Returns a transform that takes masks along, where torchvision has one for it.

    Behind ToPureTensor cell numbers would be taken for an image or for nothing, and samples are
    plain tensors in the end anyway; nn.Sequential takes a single argument.
    """
    if isinstance(transform, v2.ToPureTensor):
        return v2.Identity()
    if isinstance(transform, nn.Sequential):
        return v2.Compose([v2.Identity(), *map(_carrying, transform)])
    inner = getattr(transform, "transforms", None)
    if isinstance(inner, _COMPOSED):
        kind = nn.ModuleList if isinstance(inner, nn.ModuleList) else list
        transform.transforms = kind(map(_carrying, inner))
    return transform


def _transforms(transform: Any) -> Iterator[Any]:
    """Yields a transform and all that it is composed of."""
    yield transform
    inner = getattr(transform, "transforms", transform)
    if isinstance(inner, _COMPOSED):
        for step in inner:
            yield from _transforms(step)
