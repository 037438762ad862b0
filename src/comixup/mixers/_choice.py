"""A random choice of methods, and schedules of the fraction of mixed batches."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_count, check_number
from comixup._random import coin
from comixup.mixers._mixer import Mixed, Mixer, NextBatch, mixes_images

ALTERNATING = 6
"""Tenths of the epochs after which an annealed schedule mixes every other epoch only."""
FALLING = 9
"""Tenths of the epochs after which it decreases linearly to zero."""
_C = TypeVar("_C", bound="Choice")


class Choice(Mixer):
    """Mixes each batch by one of several methods, drawn by their weights.

    The method of a batch is drawn before its clean pass (`training_step`, `saliency`), which is
    skipped if the method needs none; `clean_weight` and `mixed_weight` are those of the drawn
    method. `last.chosen` is the index of the method of the last batch.

    Args:
        mixers: the methods, with p = 1. Those without a generator use this one's.
        weights: relative probabilities of the methods; None means equal ones.
        p: probability that a batch is mixed at all.
        generator: random generator on the CPU; None means torch's global one.

    Attributes:
        num_classes: that of the methods.
        needs_saliency: whether any method with a weight above 0 does.
        recalls: likewise.

    >>> from comixup import CoMixup, CutMix
    >>> mixup = Choice([CoMixup(num_classes=10), CutMix(num_classes=10)], weights=[2, 1])
    >>> images, targets = torch.rand(8, 3, 32, 32), torch.arange(8)
    >>> mixed, soft = mixup(images, targets, saliency=torch.rand(8, 32, 32))
    >>> mixed.shape, soft.shape, mixup.last.chosen in (0, 1)
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]), True)
    """

    def __init__(
        self,
        mixers: Sequence[Mixer],
        weights: Sequence[float] | None = None,
        *,
        p: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        _check_mixers(mixers)
        self.mixers = tuple(mixers)
        self.weights = None if weights is None else _checked_weights(weights, len(self.mixers))
        classes = {mixer.num_classes for mixer in self.mixers} - {None}
        if len(classes) > 1:
            raise ValueError(
                "`mixers` must have the same `num_classes`, got "
                f"{' and '.join(str(mixer.num_classes) for mixer in self.mixers)}. Make them alike."
            )
        super().__init__(
            next(iter(classes), None),
            p=p,
            generator=generator,
            validate=any(mixer.validate for mixer in self.mixers),
        )
        every = self.weights or (1.0,) * len(self.mixers)
        self._possible = [index for index, weight in enumerate(every) if weight > 0]
        self._bounds = list(itertools.accumulate(every[index] for index in self._possible))
        self.needs_saliency = any(self.mixers[index].needs_saliency for index in self._possible)
        self.recalls = any(self.mixers[index].recalls for index in self._possible)
        for mixer in self.mixers:
            # All methods share the last batch, whichever mixed it.
            vars(mixer).update(generator=mixer.generator or generator, _previous=self._previous)

    @property
    def uniform_expected(self) -> bool:
        """Whether constant saliency maps raise no warning, for all methods."""
        return all(mixer.uniform_expected for mixer in self.mixers)

    @uniform_expected.setter
    def uniform_expected(self, value: bool) -> None:
        for mixer in self.mixers:
            mixer.uniform_expected = value

    @property
    def needs_clean_pass(self) -> bool:
        """Whether any of the methods needs a clean pass."""
        return any(self.mixers[index].needs_clean_pass for index in self._possible)

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """Its own generators and those of the methods, without duplicates."""
        own = [*super().generators, *(g for mixer in self.mixers for g in mixer.generators)]
        return tuple({id(generator): generator for generator in own}.values())

    def _draw_next(self) -> NextBatch:
        mixed, chosen = coin(self.p * float(self._fraction), self.generator), self._choose()
        return NextBatch(self.mixers[chosen], mixed=mixed, chosen=chosen)

    def decide(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns how this batch is mixed by its method."""
        unprepared = saliency is None and self._next is None
        if unprepared and self.needs_saliency and self.p * self.fraction > 0:
            # In every batch, not only if the drawn method needs it.
            raise ValueError(
                f"`saliency` must be given to {type(self).__name__}, one of whose methods needs "
                "it, got None. Use mixer.saliency(model, images, targets), or "
                "comixup.spectral_residual(images) where there is no model."
            )
        return super().decide(images, saliency)

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns how a randomly chosen method mixes a batch."""
        chosen = self._choose()
        return replace(self.mixers[chosen].draw(images, saliency), chosen=chosen)

    def with_generator(self: _C, generator: torch.Generator) -> _C:
        """Returns a copy that, with its methods, draws from another generator."""
        choice = super().with_generator(generator)
        vars(choice)["mixers"] = tuple(mixer.with_generator(generator) for mixer in self.mixers)
        return choice

    def _choose(self) -> int:
        """Returns the index of a method, drawn by the weights."""
        index = 0
        if len(self._possible) > 1:  # a certain outcome draws nothing
            place = float(torch.rand((), generator=self.generator, device="cpu"))
            index = bisect.bisect(self._bounds, place * self._bounds[-1])
        return self._possible[index]


def _check_mixers(mixers: Sequence[Mixer]) -> None:
    """Raises unless all methods can be alternatives of one choice."""
    if not isinstance(mixers, Sequence) or not mixers:
        raise ValueError(
            f"`mixers` must be a list of methods, at least one, got {mixers!r}. Use "
            "Choice([CoMixup(num_classes), CutMix(num_classes)])."
        )
    for mixer in mixers:
        if not mixes_images(mixer) or isinstance(mixer, Choice):
            raise TypeError(
                "`mixers` must be methods that mix images, such as CoMixup(num_classes), got "
                f"{type(mixer).__name__}. ManifoldMixup mixes inside the model: train it by "
                "itself. Wrap the choice instead: OnePass(Choice([...]), memory). Methods of "
                "another Choice: list them here."
            )
        if mixer.p != 1:
            raise ValueError(
                f"`mixers` must have p = 1, got a {type(mixer).__name__} of p = {mixer.p!r}. Give "
                "`p` to the Choice, which decides whether a batch is mixed."
            )


def _checked_weights(weights: Sequence[float], count: int) -> tuple[float, ...]:
    """Returns validated weights, one per method."""
    if not isinstance(weights, Sequence) or isinstance(weights, str):
        raise TypeError(
            f"`weights` must be a list of numbers, one for each of the mixers, got {weights!r}."
        )
    if len(weights) != count:
        raise ValueError(
            f"`weights` must have a number for each of the {count} mixers, got {len(weights)}. "
            "Leave them out for equal ones."
        )
    for weight in weights:
        check_number("weights", weight)
    if not sum(weights):
        raise ValueError(f"`weights` must sum to more than 0, got {list(weights)!r}.")
    return tuple(float(weight) for weight in weights)


@dataclass(frozen=True)
class Schedule:
    """The fraction of the batches to mix in each epoch: `mixup.fraction = schedule(epoch)`.

    It multiplies the method's own (`p`, or `rate` of `OnePass`).

    Attributes:
        epochs: total number of epochs.
        first_epoch: the first mixed epoch, counted from 0, after a warm-up without mixing.
        off_epoch: the first epoch no longer mixed, like timm's `mixup_off_epoch`; None: mix to the
            end.
        annealed: Mixup Without Hesitation (Yu, Wang and Wu, 2021): all batches until 60 % of the
            epochs, then those of even epochs until 90 %, then a fraction that decreases linearly
            from 1 to 0.

    >>> schedule = Schedule(10, off_epoch=8)
    >>> [schedule(epoch) for epoch in (0, 7, 8, 9)]
    [1.0, 1.0, 0.0, 0.0]
    >>> schedule = Schedule(100, annealed=True)
    >>> [schedule(epoch) for epoch in (59, 60, 61, 90, 95, 99)]
    [1.0, 1.0, 0.0, 1.0, 0.5, 0.1]
    """

    epochs: int
    _: KW_ONLY
    first_epoch: int = 0
    off_epoch: int | None = None
    annealed: bool = False

    def __post_init__(self) -> None:
        check_count("epochs", self.epochs)
        check_count("first_epoch", self.first_epoch, low=0)
        if self.off_epoch is not None:
            check_count("off_epoch", self.off_epoch, low=0, high=self.epochs)
        end = self.epochs if self.off_epoch is None else self.off_epoch
        if self.first_epoch >= end:
            raise ValueError(
                f"`first_epoch` must be below {end}, where mixing ends, got {self.first_epoch}: no "
                "epoch would be mixed. Use NoMix to train without mixing."
            )
        check_boolean("annealed", self.annealed)

    def __call__(self, epoch: int) -> float:
        """Returns the fraction, from 0 to 1, for an epoch counted from 0."""
        check_count("epoch", epoch, low=0, high=self.epochs - 1)
        if epoch < self.first_epoch or (self.off_epoch is not None and epoch >= self.off_epoch):
            return 0.0
        if not self.annealed or 10 * epoch < ALTERNATING * self.epochs:
            return 1.0
        if 10 * epoch < FALLING * self.epochs:
            return float(epoch % 2 == 0)
        return 10 * (self.epochs - epoch) / ((10 - FALLING) * self.epochs)
