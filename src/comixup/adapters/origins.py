"""Data sets whose samples carry their origin, for one-pass mixing."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import PIL.Image
import torch
import torchvision  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.utils.data import Dataset, IterableDataset
from torchvision.transforms import v2  # type: ignore[import-untyped]

from comixup import Origin, SaliencyMemory
from comixup._checks import SetOnce
from comixup.adapters._replayed import TORCHVISION, Colours, Tracked, nested
from comixup.adapters.cell_numbers import CellNumbers

Sample: TypeAlias = tuple[Any, Any, Origin]
"""An image, its target, and where it comes from."""


def _kinds(*names: str) -> tuple[Any, ...]:
    """Returns the v2 transforms of these names, if the installed torchvision has them."""
    return tuple(getattr(v2, name) for name in names if hasattr(v2, name))


_SEQUENCES = (nn.Sequential, v2.Compose, torchvision.transforms.Compose)
_RANDOM_STEPS = (
    *_kinds("RandomApply", "RandomChoice", "RandomOrder"),
    torchvision.transforms.RandomApply,
    torchvision.transforms.RandomChoice,
    torchvision.transforms.RandomOrder,
)
_LIBRARIES = {"timm": "comixup.adapters.timm", "albumentations": "comixup.adapters.albumentations"}
"""Modules that track other libraries' transforms, by the library's top-level module."""
_AUTO_AUGMENT = _kinds("AutoAugment", "RandAugment", "TrivialAugmentWide")
_MOVING = _kinds(
    "CenterCrop",
    "ElasticTransform",
    "Pad",
    "RandomAffine",
    "RandomCrop",
    "RandomErasing",
    "RandomHorizontalFlip",
    "RandomPerspective",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomShortestSize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "Resize",
    "ScaleJitter",
)
_BY_CHANCE = _kinds(
    "RandomErasing",
    "RandomHorizontalFlip",
    "RandomPerspective",
    "RandomVerticalFlip",
    "RandomZoomOut",
)
"""Those of them applied with probability `p`, which they draw first."""
_COLOURS = _kinds(
    "ColorJitter",
    "ConvertImageDtype",
    "GaussianBlur",
    "GaussianNoise",
    "Grayscale",
    "Identity",
    "JPEG",
    "Normalize",
    "PILToTensor",
    "RGB",
    "RandomAdjustSharpness",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomEqualize",
    "RandomGrayscale",
    "RandomInvert",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomSolarize",
    "ToDtype",
    "ToImage",
    "ToPILImage",
    "ToPureTensor",
    "ToTensor",
)
_UNTRACKABLE = {
    "AugMix": "it blends several copies of an image, each moved otherwise, so that a pixel shows "
    "several places of its example. Use TrivialAugmentWide, RandAugment or AutoAugment",
    "AugMixAugment": "it blends several copies of an image. Use RandAugment or AutoAugment",
    "FiveCrop": "it makes several images of one. Use RandomCrop",
    "TenCrop": "it makes several images of one. Use RandomCrop",
    "RandomIoUCrop": "it crops by bounding boxes. Use RandomResizedCrop",
    "CutMix": "it mixes batches. Use comixup.CutMix on batches",
    "MixUp": "it mixes batches. Use comixup.InputMixup on batches",
    "LinearTransformation": "every pixel becomes a sum of all others",
    "Patchify": "it makes patches of an image. Use sizes that change per batch instead of NaFlex",
    "RandomResizedCropToSequence": "its sizes are those of NaFlex. Use RandomResizedCrop",
}
_FIXED = ("CenterCrop", "Pad", "Resize")
"""Deterministic geometric transforms, which the data set itself may apply."""
_OPERATION = "_apply_image_or_video_transform"
"""The private method by which torchvision's v2 auto-augment transforms apply each operation."""
_BEHAVIOUR = (
    *("__call__", "forward", "transform", "make_params", "check_inputs", "_call_kernel"),
    *("_needs_transform_list", "_transformed_types", _OPERATION),
)
"""Methods that define what a v2 transform does to its inputs."""
_OF_LIBRARIES = ("torchvision.", *(f"{name}." for name in _LIBRARIES))


class WithOrigins(SetOnce, Dataset[Sample]):
    """Wraps a data set of (image, target) to return (image, target, Origin).

    The numbers of an image's cells go through the same transforms as its pixels. So the memory
    knows which cell of which example each pixel shows, exactly, after any crop, flip, resize,
    rotation or TrivialAugment operation. Images equal those of the transform alone.

    Args:
        dataset: data set of (image, target), with PIL images, tensors (C, H, W) or arrays (H, W,
            C), before any geometric transform.
        memory: defines the cells.
        transform: transforms of torchvision (v2 and v1), timm or Albumentations, as you would pass
            them to the data set: geometric and color transforms, in any order and nesting. Erased
            pixels show no cell.
        colours_only: your own transforms in it, by class, function or object, that move no pixel.
            They are called with the image.
        moves_pixels: your own transforms in it that are called like v2 transforms, with the image
            and its `comixup.adapters.cell_numbers.CellNumbers`, and apply functions of
            v2.functional to both.

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
        transform: Callable[..., Any] | None = None,
        *,
        colours_only: Sequence[Any] = (),
        moves_pixels: Sequence[Any] = (),
    ) -> None:
        if not hasattr(dataset, "__len__") or isinstance(dataset, IterableDataset):
            raise TypeError(
                "`dataset` must have a length and return examples by their index, got "
                f"{type(dataset).__name__}. One-pass mixing remembers a map per example."
            )
        if len(memory.grid) != 2:
            raise ValueError(
                "`memory` must be of images, with two sides, got one with cells "
                f"{memory.grid}. Give Origin(indices, cells) yourself for other data."
            )
        if len(dataset) != len(memory):
            raise ValueError(
                f"`memory` must have a map for each of the {len(dataset)} examples, got one of "
                f"{len(memory)}. Use SaliencyMemory(num_examples={len(dataset)})."
            )
        _check_unmoved(dataset, colours_only)
        self.dataset, self.memory = dataset, memory
        self.colours_only, self.moves_pixels = colours_only, moves_pixels
        self.grid = memory.grid
        self.transform = transform

    @property
    def transform(self) -> Callable[..., Any] | None:
        """The transform of images and cell numbers; timm's `create_loader` sets it."""
        return self._transform

    @transform.setter
    def transform(self, value: Callable[..., Any] | None) -> None:
        declared = {"colours_only": self.colours_only, "moves_pixels": self.moves_pixels}
        self._tracked = None if value is None else tracked(value, **declared)
        self._transform = value

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        """Returns an image, its target and its origin."""
        index = range(len(self))[index]  # -1 is the last one
        sample = self.dataset[index]
        pair = isinstance(sample, (tuple, list)) and len(sample) == 2
        image, target = sample if pair else (sample, None)
        size = _size(image) if pair else None
        if size is None:
            raise TypeError(
                "`dataset` must return pairs of an image (PIL, a tensor (C, H, W) or an array "
                "(H, W, C)) and a target, got "
                f" {_kinds_of(sample)} for example {index}. Give transforms to WithOrigins, and "
                "other samples by a data set of your own around this one."
            )
        numbers = CellNumbers.of(size, self.grid)
        if self._tracked is not None:
            image, numbers = self._tracked(image, numbers)
        if _size(image) != numbers.image_size:
            raise RuntimeError(
                f"`transform` made an image of size {_size(image)}, but its cell numbers have the "
                f"size {numbers.image_size}. Does a transform given as `colours_only` move pixels?"
            )
        if isinstance(image, Tensor):
            image = image.as_subclass(Tensor)
        return image, target, Origin(torch.tensor(index), numbers.tensor())


def tracked(
    transform: Any,
    *,
    colours_only: Sequence[Any] = (),
    moves_pixels: Sequence[Any] = (),
) -> Tracked:
    """Returns a transform that moves an image's cell numbers with its pixels.

    It makes the same draws as `transform`, which is not changed. See `WithOrigins` for the
    arguments.

    >>> flip = tracked(v2.RandomHorizontalFlip(p=1))
    >>> _, numbers = flip(torch.rand(3, 2, 2), CellNumbers.of((2, 2), grid=(1, 2)))
    >>> numbers.tensor().tolist()
    [[2, 1], [2, 1]]
    """
    follow = functools.partial(tracked, colours_only=colours_only, moves_pixels=moves_pixels)
    known = _is_unchanged(transform)
    if known and isinstance(transform, _SEQUENCES):
        return _Steps(map(follow, _steps(transform)))
    if known and isinstance(transform, _RANDOM_STEPS):
        return nested(transform, follow)
    for kinds, declared, step in (
        (_COLOURS, colours_only, Colours),
        (_MOVING, moves_pixels, _Moves),
        (_AUTO_AUGMENT, (), _AutoAugment),
    ):
        if _declared(transform, declared) or (known and isinstance(transform, kinds)):
            return step(transform)
    of_library = _step_of(transform) if known else None
    if of_library is None:
        raise _rejection(transform)
    return of_library(transform)


def _step_of(transform: Any) -> Callable[[Any], Tracked] | None:
    """Returns the function that tracks a transform of torchvision's v1 or of another library."""
    for kind in type(transform).__mro__:
        library = _LIBRARIES.get(kind.__module__.partition(".")[0])
        steps = TORCHVISION if library is None else importlib.import_module(library).STEPS
        if kind.__name__ in steps.get(kind.__module__, ()):
            step: Callable[[Any], Tracked] = steps[kind.__module__][kind.__name__]
            return step
    return None


def _rejection(transform: Any) -> Exception:
    """Returns the error for a transform that cannot be tracked."""
    kind = type(transform)
    name = getattr(getattr(transform, "lambd", transform), "__name__", kind.__name__)
    if kind.__module__.startswith(_OF_LIBRARIES) and name in _UNTRACKABLE:
        return ValueError(
            f"`transform` must be one that cell numbers support, got {name}: {_UNTRACKABLE[name]}."
        )
    return TypeError(
        "`transform` must be made of transforms of torchvision, timm or Albumentations, unchanged, "
        f"which cell numbers follow, got {kind.__module__}.{kind.__name__} ({name}). If it moves "
        f"no pixel, declare it by colours_only=[{name}]; if it moves an image and its cell numbers "
        f"alike, as v2 transforms do, by moves_pixels=[{name}]. Otherwise take saliency from "
        "small images: comixup.saliency(..., scale=0.5)."
    )


def _is_unchanged(transform: Any) -> bool:
    """Whether a transform has its library's behavior, not overridden by a subclass."""
    layers = [
        kind
        for kind in type(transform).__mro__
        if not kind.__module__.startswith(("torch.", "builtins", *_OF_LIBRARIES))
    ]
    places = [vars(transform), *map(vars, layers)] if hasattr(transform, "__dict__") else []
    hooks = any(vars(transform).get(name) for name in ("_forward_hooks", "_forward_pre_hooks"))
    return not hooks and not any(name in place for place in places for name in _BEHAVIOUR)


def _steps(transform: Any) -> list[Any]:
    """Returns the transforms that a container is composed of."""
    return list(getattr(transform, "transforms", transform))


class _Steps(list[Tracked]):
    """A sequence of transforms."""

    def __call__(self, image: Any, numbers: CellNumbers) -> tuple[Any, CellNumbers]:
        for step in self:
            image, numbers = step(image, numbers)
        return image, numbers


@dataclass(frozen=True)
class _Moves:
    """A geometric v2 transform, applied to `CellNumbers` by its kernels."""

    transform: Any

    @functools.cached_property
    def _plain(self) -> bool:
        """Whether it is torchvision's own, in a version with a public `make_params`."""
        step = self.transform
        return isinstance(step, _MOVING) and _is_unchanged(step) and hasattr(step, "make_params")

    def __call__(self, image: Any, numbers: CellNumbers) -> tuple[Any, CellNumbers]:
        numbers.pil = isinstance(image, PIL.Image.Image)
        step: Any = self.transform
        if not self._plain:
            moved: tuple[Any, CellNumbers] = step(image, numbers)
            return moved
        # Same as its `forward`, without torchvision's flattening and unflattening of the sample,
        # which takes as long as transforming a small image.
        if isinstance(step, _BY_CHANCE) and torch.rand(1) >= step.p:
            return image, numbers
        params = step.make_params([image])
        return step.transform(image, params), step.transform(numbers, params)


@dataclass(frozen=True)
class _AutoAugment:
    """A v2 auto-augment transform, tracked operation by operation."""

    transform: Any

    def __post_init__(self) -> None:
        if not callable(getattr(self.transform, _OPERATION, None)):
            name = type(self.transform).__name__
            raise TypeError(
                f"`transform` must not have {name}, whose operations cannot be followed "
                f"in torchvision {torchvision.__version__}: it has no method {_OPERATION}, which "
                "0.16 to 0.29 have. Install one of these versions."
            )

    def __call__(self, image: Any, numbers: CellNumbers) -> tuple[Any, CellNumbers]:
        numbers.pil = isinstance(image, PIL.Image.Image)
        original = getattr(self.transform, _OPERATION)

        def apply(image: Any, operation: str, *args: Any, **kwargs: Any) -> Any:
            nonlocal numbers
            numbers = original(numbers, operation, *args, **kwargs)
            return original(image, operation, *args, **kwargs)

        # Patch a copy: other threads may use the transform at the same time.
        watched = object.__new__(type(self.transform))
        watched.__dict__.update(self.transform.__dict__)
        watched.__dict__[_OPERATION] = apply
        return watched(image), numbers


def _declared(transform: Any, declared: Sequence[Any]) -> bool:
    """Whether a transform was declared by the user, as a class, function or object."""
    function = getattr(transform, "lambd", transform)  # of v2.Lambda
    return any(
        isinstance(transform, known)
        if isinstance(known, type)
        else known is transform or known is function
        for known in declared
    )


def _check_unmoved(dataset: Any, colours_only: Sequence[Any]) -> None:
    """Raises for a data set, or one that it wraps, with its own random geometric transforms."""
    for inner in (getattr(dataset, "dataset", None), *(getattr(dataset, "datasets", None) or ())):
        if inner is not None:
            _check_unmoved(inner, colours_only)
    own = getattr(dataset, "transform", None)
    if own is not None and not _moves_none(own, colours_only):
        raise ValueError(
            "`dataset` must return images that no transform has moved, got "
            f"{type(dataset).__name__} with a transform. Give that to WithOrigins instead; declare "
            "transforms of your own that move no pixel by colours_only=[...]."
        )


def _moves_none(transform: Any, colours_only: Sequence[Any]) -> bool:
    """Whether a transform is known to be deterministic in geometry."""
    if _declared(transform, colours_only):
        return True
    if not _is_unchanged(transform):
        return False
    if isinstance(transform, (*_SEQUENCES, *_RANDOM_STEPS)):
        return all(_moves_none(step, colours_only) for step in _steps(transform))
    names = {kind.__name__ for kind in _COLOURS} | set(_FIXED)
    own = type(transform).__module__.startswith("torchvision.")
    return own and type(transform).__name__ in names


def _kinds_of(sample: Any) -> str:
    """Returns the types of a sample, for an error message."""
    if isinstance(sample, (tuple, list)):
        return f"({', '.join(type(item).__name__ for item in sample)})"
    return type(sample).__name__


def _size(image: Any) -> tuple[int, int] | None:
    """Returns an image's height and width; None for other objects."""
    if isinstance(image, PIL.Image.Image):
        return image.height, image.width
    if isinstance(image, Tensor) and image.ndim >= 3:
        return image.shape[-2], image.shape[-1]
    if isinstance(image, np.ndarray) and image.ndim in (2, 3):  # of Albumentations: channels last
        return image.shape[0], image.shape[1]
    return None
