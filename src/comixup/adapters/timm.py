"""timm's `Mixup` extended by Co-Mixup, and timm's loader in one-pass mixing."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from comixup import Origin, spectral_residual
from comixup._checks import SetOnce, check_boolean, check_number
from comixup.adapters._replayed import (
    Colours,
    Nested,
    OfPair,
    Replayed,
    ReplayedErasing,
    Tracked,
)
from comixup.adapters.origins import WithOrigins
from comixup.mixers import (
    Boxes,
    Choice,
    CoMixup,
    CutMix,
    InputMixup,
    Mixed,
    Mixer,
    mixes_images,
)


class Mixup(Choice):
    """timm's `Mixup` plus Co-Mixup: `x, target = mixup_fn(x, target)`.

    Change `from timm.data import Mixup` to `from comixup.adapters.timm import Mixup`. Like timm's,
    it returns targets (batch, classes) with label smoothing, also while `mixup_enabled` is False,
    so that `SoftTargetCrossEntropy` always works. Unlike timm's, it does not change its arguments,
    accepts odd batch sizes, draws partners at random, and uses torch's generators.

    Batches of mixup and CutMix have only the mixed loss; pass your own `mixer`, such as
    `CutMix(clean_weight=1)`, to add the clean one.

    By default Co-Mixup uses saliency without a model (`saliency_fn`). For gradient saliency, as in
    the paper, compute it first or call `comixup.training_step`:

        saliency = mixup_fn.saliency(model, x, target, loss_fn=train_loss_fn)
        x, target = mixup_fn(x, target, saliency)

    Args:
        mixup_alpha: parameter of mixup's Beta distribution; 0 disables mixup.
        cutmix_alpha: parameter of CutMix's Beta distribution; 0 disables CutMix.
        cutmix_minmax: min and max box side, as fractions of the image's; replaces `cutmix_alpha`.
        prob: probability that a batch is mixed.
        switch_prob: probability of CutMix rather than mixup if both are enabled.
        mode: "batch", or "elem" to draw mixup's and CutMix's ratios for each image. `prob`,
            `switch_prob` and `comixup_prob` apply to whole batches in both modes.
        correct_lam: must be True: CutMix's targets are always weighted by the visible pixels.
        label_smoothing: amount of label smoothing.
        num_classes: number of classes.
        comixup_prob: probability of Co-Mixup; None means 0.5, or 1 if mixup and CutMix are
            disabled.
        mixer: replaces Co-Mixup; None means `CoMixup` with the paper's settings.
        saliency_fn: returns maps (batch, *size) of images, for calls without `saliency`.
        generator: random generator on the CPU, unless `mixer` has its own; None means torch's
            global one.

    >>> mixup_fn = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=10)
    >>> x, target = mixup_fn(torch.rand(7, 3, 32, 32), torch.arange(7))
    >>> x.shape, target.shape
    (torch.Size([7, 3, 32, 32]), torch.Size([7, 10]))
    """

    def __init__(
        self,
        mixup_alpha: float = 1.0,
        cutmix_alpha: float = 0.0,
        cutmix_minmax: Sequence[float] | None = None,
        prob: float = 1.0,
        switch_prob: float = 0.5,
        mode: str = "batch",
        correct_lam: bool = True,
        label_smoothing: float = 0.1,
        num_classes: int = 1000,
        *,
        comixup_prob: float | None = None,
        mixer: Mixer | None = None,
        saliency_fn: Callable[[Tensor], Tensor] = spectral_residual,
        generator: torch.Generator | None = None,
    ) -> None:
        check_number("prob", prob, high=1)
        check_number("mixup_alpha", mixup_alpha)
        check_number("cutmix_alpha", cutmix_alpha)
        check_number("switch_prob", switch_prob, high=1)
        check_number("label_smoothing", label_smoothing, high=1)
        if mode not in ("batch", "elem"):
            raise ValueError(
                f'`mode` must be "batch" or "elem", got {mode!r}. Partners are drawn at random '
                'here, not in pairs: use "elem".'
            )
        check_boolean("correct_lam", correct_lam)
        if not correct_lam:
            raise ValueError(
                "`correct_lam` must be True, got False: targets always count the pixels that can "
                "be seen. Leave it out."
            )
        per_sample = mode == "elem"
        input_mixup: Mixer | None = None
        cutmix: Mixer | None = None
        if mixup_alpha:
            input_mixup = InputMixup(num_classes, alpha=mixup_alpha, per_sample=per_sample)
        if cutmix_minmax is not None:
            cutmix = MinMaxCutMix(num_classes, cutmix_minmax, per_sample=per_sample)
        elif cutmix_alpha:
            cutmix = CutMix(num_classes, alpha=cutmix_alpha, per_sample=per_sample)
        alone = input_mixup is None and cutmix is None
        if comixup_prob is None:
            comixup_prob = 1.0 if alone else 0.5
        check_number("comixup_prob", comixup_prob, high=1)
        if alone and comixup_prob < 1:
            raise ValueError(
                "`comixup_prob` must be 1 where neither mixup nor CutMix is active, got "
                f"{comixup_prob!r}. Use `prob` to leave batches unmixed, or set mixup_alpha or "
                "cutmix_alpha above 0."
            )
        if mixer is not None:
            _check_mixer(mixer, num_classes)
        both = input_mixup is not None and cutmix is not None
        switch = switch_prob if both else float(input_mixup is None)
        weights = {
            mixer or CoMixup(num_classes): comixup_prob,
            cutmix: (1 - comixup_prob) * switch,
            input_mixup: (1 - comixup_prob) * (1 - switch),
        }
        mixers = [method for method in weights if method is not None]
        super().__init__(
            mixers, [weights[method] for method in mixers], p=prob, generator=generator
        )
        self.comixup, self.cutmix, self.input_mixup = mixers[0], cutmix, input_mixup
        self.mixup_alpha = mixup_alpha
        self.cutmix_alpha = cutmix_alpha
        self.cutmix_minmax = cutmix_minmax
        self.prob = prob
        self.switch_prob = switch_prob
        self.mode = mode
        self.correct_lam = correct_lam
        self.label_smoothing = label_smoothing
        self.comixup_prob = comixup_prob
        self.mixer = mixer
        self.saliency_fn = saliency_fn

    @property
    def mixup_enabled(self) -> bool:
        """Whether batches are mixed; timm's train.py sets it to False at `mixup_off_epoch`."""
        return self.enabled

    @mixup_enabled.setter
    def mixup_enabled(self, value: bool) -> None:
        check_boolean("mixup_enabled", value)
        self.enabled = value

    def soft_targets(self, targets: Tensor, num_inputs: int) -> Tensor:
        """Returns smoothed class probabilities, (batch, classes) float32."""
        soft = super().soft_targets(targets, num_inputs)
        off = self.label_smoothing / soft.shape[1]
        return off + soft * (1 - self.label_smoothing)

    def smooth(self, targets: Tensor) -> Tensor:
        """Returns smoothed targets as in timm, from class indices or class probabilities.

        >>> Mixup(num_classes=4, label_smoothing=0.2).smooth(torch.tensor([1])).tolist()
        [[0.05000000074505806, 0.8500000238418579, 0.05000000074505806, 0.05000000074505806]]
        """
        inputs = len(targets) if isinstance(targets, Tensor) and targets.ndim else 0
        return self.soft_targets(targets, inputs)

    def decide(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns how to mix a batch, with `saliency_fn` if there was no clean pass."""
        if saliency is None and self._next is None and self.next_batch().needs_saliency:
            saliency = self.saliency_fn(images)
        return super().decide(images, saliency)

    def clean_targets(self, targets: Tensor) -> Tensor:
        """Returns smoothed soft targets for the clean loss."""
        return self.smooth(targets)


class MinMaxCutMix(CutMix):
    """CutMix with box sides drawn uniformly between two fractions of the image's sides.

    Args:
        num_classes: number of classes.
        minmax: smallest and largest fraction of a side, 0 <= smallest < largest <= 1.
        per_sample: draw boxes for each image rather than for the batch.
        generator: random generator on the CPU; None means torch's global one.
    """

    def __init__(
        self,
        num_classes: int | None,
        minmax: Sequence[float],
        *,
        per_sample: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(num_classes, per_sample=per_sample, generator=generator)
        if len(minmax) != 2 or not 0 <= minmax[0] < minmax[1] <= 1:
            raise ValueError(
                "`cutmix_minmax` must be two numbers, 0 <= smallest < largest <= 1, got "
                f"{minmax!r}. Usual values are (0.2, 0.8)."
            )
        self.minmax = tuple(minmax)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns partners and boxes for a batch."""
        m, size = len(images), tuple(images.shape[2:])
        sides = torch.tensor(size)
        low, high = ((fraction * sides).long() for fraction in self.minmax)
        shape = (m if self.per_sample else 1, 1, len(size))
        cut = low + self._below((high - low).clamp(min=1), shape)
        begin = self._below(sides - cut + 1, shape)
        return Mixed(Boxes(self.draw_partners(m), begin, begin + cut, size))

    def _below(self, bound: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Returns random integers below a bound."""
        return (torch.rand(shape, generator=self.generator) * bound).long()


def _check_mixer(mixer: Mixer, num_classes: int) -> None:
    """Raises for a method that contradicts other arguments of `Mixup`."""
    if not mixes_images(mixer) or isinstance(mixer, Choice):
        raise TypeError(
            "`mixer` must be a method that mixes images, such as comixup.CoMixup(num_classes), got "
            f"{type(mixer).__name__}."
        )
    if mixer.p != 1:
        raise ValueError(f"`mixer` must have p = 1, got {mixer.p!r}. Use `prob` instead.")
    if mixer.num_classes not in (None, num_classes):
        raise ValueError(
            f"`mixer` must have num_classes = {num_classes}, as given here, got "
            f"{mixer.num_classes}."
        )


# ---- Transforms ----------------------------------------------------------------------------------

_MOVING_OPERATIONS = {
    *("Rotate", "ShearX", "ShearY"),
    *("TranslateX", "TranslateXRel", "TranslateY", "TranslateYRel"),
}
_COLOUR_OPERATIONS = {
    *("AutoContrast", "Brightness", "BrightnessIncreasing", "Color", "ColorIncreasing", "Contrast"),
    *("ContrastIncreasing", "Desaturate", "Equalize", "GaussianBlur", "GaussianBlurRand", "Invert"),
    *("Posterize", "PosterizeIncreasing", "PosterizeOriginal", "Sharpness", "SharpnessIncreasing"),
    *("Solarize", "SolarizeAdd", "SolarizeIncreasing"),
}


class ReplayedOperation(Replayed):
    """A geometric operation of timm's RandAugment or AutoAugment."""

    def by_nearest(self) -> Any:
        """Returns a copy with nearest-neighbor interpolation and a fill of 0."""
        operation = copy.copy(self.transform)
        modes = operation.kwargs["resample"]  # it draws one of several
        nearest = (0,) * len(modes) if isinstance(modes, tuple | list) else 0
        operation.kwargs = {**operation.kwargs, "resample": nearest, "fillcolor": 0}
        return operation


def _operation(operation: Any) -> OfPair:
    """Returns the tracked form of an `AugmentOp`."""
    if operation.name in _MOVING_OPERATIONS:
        return OfPair(ReplayedOperation(operation))
    if operation.name in _COLOUR_OPERATIONS:
        return OfPair(Colours(operation))
    raise ValueError(
        "`transform` must have operations of timm 1.0 that cell numbers support, got "
        f"{operation.name}. Known ones are {sorted(_MOVING_OPERATIONS | _COLOUR_OPERATIONS)}."
    )


def _rand_augment(transform: Any) -> Tracked:
    held = copy.copy(transform)
    held.ops = list(map(_operation, transform.ops))
    return Nested(held)


def _auto_augment(transform: Any) -> Tracked:
    held = copy.copy(transform)
    held.policy = [list(map(_operation, operations)) for operations in transform.policy]
    return Nested(held)


STEPS: dict[str, dict[str, Callable[[Any], Tracked]]] = {
    "timm.data.transforms": {
        **dict.fromkeys(
            (
                *("CenterCropOrPad", "RandomCropOrPad", "RandomPad", "ResizeKeepRatio"),
                *("RandomResizedCropAndInterpolation", "TrimBorder"),
            ),
            Replayed,
        ),
        **dict.fromkeys(("MaybePILToTensor", "MaybeToTensor", "ToTensor"), Colours),
    },
    "timm.data.auto_augment": {"AutoAugment": _auto_augment, "RandAugment": _rand_augment},
    "timm.data.random_erasing": {"RandomErasing": ReplayedErasing},
}
"""timm's transforms that `WithOrigins` tracks, by module and class."""


# ---- Loader --------------------------------------------------------------------------------------


class _Packed(NamedTuple):
    """The batch's target for `PrefetchLoader`, which moves it to the device."""

    targets: Any
    origin: Origin

    def to(self, **settings: Any) -> _Packed:
        """Returns it on another device."""
        origin = Origin(*(part.to(**settings) for part in self.origin if part is not None))
        return _Packed(self.targets.to(**settings), origin)


def _collate(samples: list[Any]) -> tuple[Any, _Packed]:
    """Returns images and the packed rest, the pair that timm's loader expects."""
    images, targets, origin = default_collate(samples)
    return images, _Packed(targets, origin)


def _collate_sized(samples: list[Any]) -> tuple[Any, _Packed]:
    return _collate([sample for (sample,) in samples])


@dataclass(frozen=True)
class _Indices(Dataset[tuple[int]]):
    """A data set of indices."""

    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[int]:
        return (index,)


class OriginLoader(SetOnce):
    """Wraps a loader of timm's `create_loader` to yield (input, target, origin).

    `create_loader` sets its data set's transform: pass it a `WithOrigins` without a transform, and
    pass the loader, which is changed in place, to this class. Prefetcher, random erasing on the
    device, repeated augmentation and scheduled sizes work as in timm.

        dataset = WithOrigins(dataset, memory)
        loader = OriginLoader(create_loader(dataset, 224, batch_size, is_training=True, ...))
        for input, target, origin in loader:
            input, target = mixup(input, target, origin)

    Args:
        loader: from `timm.data.create_loader`, not iterated yet.
    """

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        batches = getattr(loader, "loader", loader)  # inside a PrefetchLoader
        if batches.collate_fn in (_collate, _collate_sized):
            return  # already changed by another OriginLoader
        erasing = getattr(loader, "random_erasing", None)
        if erasing is not None:
            loader.random_erasing = _Erasing(erasing)
        dataset = batches.dataset
        sized = hasattr(dataset, "transforms")  # ScheduledTransformDataset: one transform per size
        origins = dataset.dataset if sized else dataset
        if not isinstance(origins, WithOrigins):
            raise TypeError(
                "`loader` must be of a WithOrigins, got one of "
                f"{type(origins).__name__}. Call create_loader(WithOrigins(dataset, memory), ...)."
            )
        if sized:
            # It calls its transforms with images; here, with indices, they look up whole data sets.
            dataset.transforms = tuple(
                WithOrigins(
                    origins.dataset,
                    origins.memory,
                    transform,
                    colours_only=origins.colours_only,
                    moves_pixels=origins.moves_pixels,
                ).__getitem__
                for transform in dataset.transforms
            )
            dataset.dataset = _Indices(len(origins))
        batches.collate_fn = _collate_sized if sized else _collate

    def __iter__(self) -> Iterator[tuple[Tensor, Any, Origin]]:
        for images, (targets, origin) in self.loader:
            erased = getattr(images, _ERASED, None)
            if erased is not None:
                origin = origin._replace(cells=origin.cells.masked_fill(erased, 0))  # noqa: PLW2901
            yield images, targets, origin

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of timm's loader: `sampler`, `batch_sampler`, `dataset`."""
        if name == "loader":  # during unpickling
            raise AttributeError(name)
        return getattr(self.loader, name)


_ERASED = "_comixup_erased"
"""Attribute of a batch of images: mask of the pixels that `PrefetchLoader` erased."""


@dataclass(frozen=True)
class _Erasing:
    """timm's random erasing of batches, recording the erased pixels."""

    erasing: Any

    def __call__(self, images: Tensor) -> Tensor:
        before = random.getstate()
        images = self.erasing(images)
        after = random.getstate()
        # It draws boxes from Python's generator; with constant 0 it uses no other.
        constant = copy.copy(self.erasing)
        constant.rand_color = constant.per_pixel = False
        unseen = torch.full_like(images[:, :1], torch.nan)
        random.setstate(before)
        try:
            erased = ~constant(unseen).isnan().squeeze(1)
        finally:
            random.setstate(after)
        setattr(images, _ERASED, erased)
        return images
