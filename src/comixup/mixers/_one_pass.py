"""One-pass mixing: saliency remembered from earlier batches instead of an extra pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from comixup._checks import SetOnce, check_boolean, check_count, check_number, warn_caller
from comixup._passes import recordable
from comixup._random import coin
from comixup.core.memory import Origin, SaliencyMemory, warn_of_skipped
from comixup.core.tensors import check_images, check_no_transform
from comixup.mixers._mixer import Mixed, Mixer, eager, mixes_images

Batch: TypeAlias = tuple[Tensor, Tensor, Origin | None]
"""Images, soft targets, and where the images come from; None for a mixed batch."""
_PATIENCE = 3
"""Epochs after which most examples should have been in a clean batch."""


@dataclass
class _Seen:
    """Counts of an epoch's images, for warnings about unused maps."""

    clean: int = 0
    mixed: int = 0
    without_maps: int = 0  # mixed images whose examples have no map

    @property
    def images(self) -> int:
        """The number of images."""
        return self.clean + self.mixed


class OnePass(Mixer):
    """One-pass mixing: every other batch is mixed, with saliency maps from earlier batches.

    Clean and mixed batches alternate. The backward pass of a clean batch also computes its images'
    gradient, which updates the examples' maps in the memory; a mixed batch reads the maps of its
    examples. On average a step has half of the paper's sum of the clean and the mixed gradient, at
    the cost of one forward and one backward pass.

    In your own loop the call takes images, targets and the images' origin:

        for images, targets, indices in loader:
            images, targets = mixup(images, targets, Origin(indices))
            F.cross_entropy(model(images), targets).backward()   # refreshes a clean batch's maps
            ...
        mixup.end_epoch()

    Args:
        mixer: a method that needs saliency: `CoMixup`, `PuzzleMix`, or a `Choice` with one of them.
            Batches of its other methods are mixed too, without maps.
        memory: the maps of the data set's examples.
        rate: fraction of batches to mix, evenly spaced: 0.5 is every other one.

    Attributes:
        step: number of batches so far; it determines whether the next one is mixed.

    >>> from comixup import CoMixup
    >>> mixup = OnePass(CoMixup(num_classes=10), SaliencyMemory(num_examples=1000))
    >>> origin = Origin(indices=torch.arange(8))
    >>> images, targets = mixup(torch.rand(8, 3, 32, 32), torch.arange(8), origin)
    >>> images.shape, targets.shape, mixup.last.mixed
    (torch.Size([8, 3, 32, 32]), torch.Size([8, 10]), False)
    """

    def __init__(
        self,
        mixer: Mixer,
        memory: SaliencyMemory,
        *,
        rate: float = 0.5,
    ) -> None:
        if not mixes_images(mixer) or not mixer.needs_saliency:
            raise TypeError(
                "`mixer` must be a method that needs saliency, CoMixup or PuzzleMix, or a Choice "
                f"with one of them, got {type(mixer).__name__}. Other methods take one pass as "
                "they are."
            )
        if mixer.needs_clean_pass:
            raise ValueError(
                "`mixer` must do without a clean pass, got a Choice with a method that needs no "
                "saliency and has `clean_weight` above 0. Set it to 0 there."
            )
        if mixer.recalls:
            raise ValueError(
                "`mixer` must mix batches that do not depend on the one before, got a Choice with "
                "RecursiveMix. Clean and mixed batches alternate here: train it by itself."
            )
        if not isinstance(memory, SaliencyMemory):
            raise TypeError(
                f"`memory` must be a SaliencyMemory, got {type(memory).__name__}. Use "
                "SaliencyMemory(num_examples=len(dataset))."
            )
        check_number("rate", rate, high=1)
        super().__init__(mixer.num_classes, generator=mixer.generator, validate=mixer.validate)
        self.mixer = mixer
        self.memory: SaliencyMemory = memory
        self.rate = rate
        self._warned = False
        self._seen = _Seen()
        mixer.uniform_expected = True  # examples not seen yet have no map

    @property
    def generators(self) -> tuple[torch.Generator, ...]:
        """The mixer's generators."""
        return self.mixer.generators

    @property
    def enabled(self) -> bool:
        """Whether batches are mixed: False sets `fraction` to 0, True to 1."""
        return self.fraction > 0 and self.mixer.enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        check_boolean("enabled", value)
        self.fraction = float(value)

    def share_memory_(self) -> OnePass:
        """Shares the maps and each `fraction` with worker processes; returns itself."""
        self.memory.share_memory_()
        for fraction in (self._fraction, self.mixer._fraction):
            fraction.share_memory_()  # type: ignore[no-untyped-call]
        return self

    @property
    def last(self) -> Mixed:
        """How the last batch was mixed."""
        return self.mixer.last

    @eager
    def __call__(
        self, images: Tensor, targets: Tensor, origin: Origin | Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the batch to train on, mixed or not, and its soft targets, (m', classes) float32.

        Images of a clean batch are returned with `requires_grad`: the backward pass of their loss
        writes the norm of their gradient to the memory.

        Args:
            images: (m, C, *size), floating point. Not changed.
            targets: (m,) class indices, or (m, classes) class probabilities. Not changed.
            origin: which examples the images show, and which cells of them; indices alone if they
                were not cropped, flipped or otherwise moved.
        """
        check_images(images)
        check_no_transform(type(self).__name__)
        known = checked_origin(origin, images)
        soft = self.mixer.soft_targets(targets, len(images))
        mixed = self.mixes(self._step)
        self._step += 1
        if not (mixed and self.mixer.enabled):
            return self._clean(images, soft, known)
        outputs, soft = self.mix_by_maps(self.mixer, images, soft, known)
        decided = self.mixer.last
        if decided.cells is not None:  # mixed with maps
            self._seen.mixed += len(images)
            self._seen.without_maps += decided.uniform_maps
        if self._seen.images > _PATIENCE * len(self.memory) and not self.memory.epoch:
            self._warn(
                f"No epoch has ended after {self._seen.images} images, of a memory of "
                f"{len(self.memory)} examples: maps are read once `end_epoch` was called. Call it "
                "after every epoch."
            )
        return outputs, soft

    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns the plan that its mixer draws for a batch."""
        return self.mixer.draw(images, saliency)

    def track(self, images: Tensor, origin: Origin | Tensor | None) -> Tensor:
        """Returns a copy of images whose backward pass updates the memory.

        For batches that were not mixed by this call, such as those of `OnePassCollate`.

        Args:
            images: (m, C, *size), floating point. Not changed.
            origin: where they come from; None (a mixed batch) returns them unchanged.
        """
        if origin is None:
            return images
        return self._refreshing(images, checked_origin(origin, images))

    def _refreshing(self, images: Tensor, origin: Origin) -> Tensor:
        self._seen.clean += len(images)
        return _tracked(images, origin, self.memory)

    def mixes(self, step: int) -> bool:
        """Returns whether the batch of a step, counted from 0, is mixed.

        >>> from comixup import CoMixup
        >>> mixup = OnePass(CoMixup(10), SaliencyMemory(num_examples=9), rate=0.5)
        >>> [mixup.mixes(step) for step in range(4)]
        [False, True, False, True]
        """
        rate = self.rate * float(self._fraction)
        return int((step + 1) * rate) > int(step * rate)

    def mix_by_maps(
        self, mixer: Mixer, images: Tensor, soft: Tensor, origin: Origin
    ) -> tuple[Tensor, Tensor]:
        """Returns a batch mixed by `mixer`, with remembered maps if it needs saliency."""
        try:
            needed = mixer.next_batch().needs_saliency
            return mixer.apply(images, soft, self.maps_for(images, origin) if needed else None)
        except BaseException:
            mixer.forget_clean_pass()
            raise

    def maps_for(self, images: Tensor, origin: Origin) -> Tensor:
        """Returns the remembered maps of a batch, (m, *size)."""
        return self.memory.read(origin, images.shape[2:])

    def end_epoch(self) -> None:
        """Ends an epoch: its maps become readable. Call it in every process."""
        seen, self._seen = self._seen, _Seen()
        written = self.memory.written
        self.memory.end_epoch()
        if self._warned:
            return
        if int(self.memory.skipped):
            self._warned = True
            warn_of_skipped(self.memory)
        elif seen.clean and not written:
            self._warn(
                f"No saliency map was written in an epoch of {seen.clean} clean images, so nothing "
                "will be mixed by saliency: the backward pass of their loss must reach the images. "
                "Call loss.backward() (torch.autograd.grad writes none), and run no part of the "
                "model under torch.no_grad()."
            )
        elif self.memory.epoch > _PATIENCE and 0 < seen.mixed == seen.without_maps:
            why = "the same examples come in mixed batches every time. Shuffle the data set."
            if not seen.clean:
                why = "no batch was clean, and clean ones write maps. Choose a `rate` below 1."
            self._warn(
                f"None of the {seen.mixed} images of mixed batches had a saliency map in epoch "
                f"{self.memory.epoch}: {why}"
            )

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            warn_caller(f"{message} This warning is shown once.")

    def state_dict(self) -> dict[str, Any]:
        """Returns the maps, the step, `fraction` and the mixer's state."""
        return {
            "step": self.step,
            "fraction": self.fraction,
            "memory": self.memory.state_dict(),
            "mixer": self.mixer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a `state_dict`."""
        self.memory.load_state_dict(state["memory"])
        self.mixer.load_state_dict(state["mixer"])
        self.step = int(state["step"])
        self.fraction = state["fraction"]

    def _clean(self, images: Tensor, soft: Tensor, origin: Origin) -> tuple[Tensor, Tensor]:
        """Returns a clean batch whose backward pass updates its maps."""
        self.mixer._last = Mixed(self.identity_plan(images), mixed=False)
        return self._refreshing(images, origin), soft


def _tracked(images: Tensor, origin: Origin, memory: SaliencyMemory) -> Tensor:
    """Returns a copy of images whose gradient is written to the memory.

    The origin is copied: loaders may reuse its tensors for the next batch before this one's
    backward pass.
    """
    if not images.is_floating_point():
        raise TypeError(
            f"`images` must be floating point to have a gradient, got {images.dtype}. Scale them, "
            "for instance by torchvision's v2.ToDtype(torch.float32, scale=True)."
        )
    inputs = recordable(images.detach()).requires_grad_()
    kept = Origin(origin.indices.clone(), None if origin.cells is None else origin.cells.clone())
    inputs.register_hook(lambda gradient: memory.write_gradient(kept, gradient))  # type: ignore[no-untyped-call]
    return inputs.clone()


def checked_origin(origin: Origin | Tensor | None, images: Tensor) -> Origin:
    """Returns a validated `Origin` of a batch."""
    if origin is None:
        raise ValueError(
            "`origin` must say which examples the images show, got None. Let the data set return "
            "each example's index and give Origin(indices), or Origin(indices, cells) if images "
            "are cropped or flipped."
        )
    if not isinstance(origin, Origin):
        origin = Origin(origin) if isinstance(origin, Tensor) else Origin(*origin)
    if not isinstance(origin.indices, Tensor) or origin.indices.shape != (len(images),):
        got = tuple(getattr(origin.indices, "shape", ())) or type(origin.indices).__name__
        raise ValueError(
            f"`origin.indices` must have an index for each of the {len(images)} images, got {got}."
        )
    if origin.cells is not None and tuple(origin.cells.shape[1:]) != tuple(images.shape[2:]):
        raise ValueError(
            f"`origin.cells` must have the images' size {tuple(images.shape[2:])}, got "
            f"{tuple(origin.cells.shape[1:])}. Put the cell numbers through the same transforms."
        )
    return origin


class OnePassCollate(SetOnce):
    """A `collate_fn` for one-pass mixing in the workers of a data loader.

    Samples are (image, target, index) or (image, target, Origin). Whether a batch is mixed, and all
    draws, depend only on `seed`, the epoch and the batch's indices: not on the number of workers,
    their start method, or whether they are persistent. Samples and their order depend on the data
    set and the sampler (see docs/one-pass.md).

        loader = DataLoader(dataset, 100, collate_fn=OnePassCollate(mixup), num_workers=4)
        for images, targets, origin in loader:
            images = mixup.track(images.to(device), origin)
            F.cross_entropy(model(images), targets.to(device)).backward()
            ...
        mixup.end_epoch()

    Args:
        mixup: the one of the training loop. Its maps and `fraction`, and its mixer's, are moved to
            shared memory; workers have the other settings that it has when they start.
        seed: seed of all draws.
        collate: collates the samples before they are mixed.
    """

    def __init__(
        self,
        mixup: OnePass,
        *,
        seed: int = 0,
        collate: Callable[[list[Any]], Any] = default_collate,
    ) -> None:
        if not isinstance(mixup, OnePass):
            raise TypeError(f"`mixup` must be a OnePass, got {type(mixup).__name__}.")
        if mixup.memory.device.type != "cpu":
            raise ValueError(
                "`mixup` must have its memory on the CPU, where workers read it, got one on "
                f"{mixup.memory.device}."
            )
        check_count("seed", seed, low=0)
        self.mixup = mixup
        self.seed = seed
        self.collate = collate
        mixup.share_memory_()

    def __call__(self, samples: list[Any]) -> Batch:
        """Returns a batch to train on, mixed or not."""
        if self.collate is default_collate:
            samples = [_without_none(sample) for sample in samples]
        collated = self.collate(samples)
        if not isinstance(collated, (tuple, list)) or len(collated) != 3:
            raise ValueError(
                "`samples` must be (image, target, index) or (image, target, Origin), got "
                f"{samples[0]!r:.100}. Let the data set return each example's index."
            )
        images, targets, where = collated
        check_images(images)
        origin = checked_origin(where, images)
        mixup, numbers = self.mixup, origin.indices.tolist()
        entropy = [self.seed, mixup.memory.epoch, *numbers]
        seed = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))
        # A copy: without workers, this runs in the training process, with its own generator.
        generator = torch.Generator().manual_seed(seed)
        mixer = mixup.mixer.with_generator(generator)
        soft = mixer.soft_targets(targets, len(images))
        if not (mixup.enabled and coin(mixup.rate * mixup.fraction, generator)):
            return images, soft, origin
        return *mixup.mix_by_maps(mixer, images, soft, origin), None


def _without_none(sample: Any) -> Any:
    """Returns a sample without None in its origin, which torch cannot collate."""
    if isinstance(sample, (tuple, list)) and sample and isinstance(sample[-1], Origin):
        *others, origin = sample
        return (*others, origin.indices) if origin.cells is None else sample
    return sample
