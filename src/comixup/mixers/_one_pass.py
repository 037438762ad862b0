"""Co-Mixup at the price of one pass: saliency is remembered, not computed anew for every batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from comixup._checks import check_boolean, check_choice, check_number, warn_caller
from comixup._recording import recordable
from comixup.core.cell_means import mixed_cell_means
from comixup.core.grid import upsampled
from comixup.core.labelling import Labelling
from comixup.core.memory import Origin, SaliencyMemory, warn_of_skipped
from comixup.core.mix import mix
from comixup.core.saliency import channel_norm
from comixup.core.tensor_checks import check_images
from comixup.mixers._choice import Choice
from comixup.mixers._comixup import CoMixup
from comixup.mixers._eager import eager
from comixup.mixers._mixer import Mixed, Mixer, host_by_default
from comixup.mixers._partly_mixed import PartlyMixed
from comixup.mixers._repr import call_of

Unit: TypeAlias = Literal["batch", "image"]
_PATIENCE = 3
"""Epochs after which most examples must have been in a clean batch."""


@dataclass
class _Seen:
    """Images of an epoch, to find out whether maps come to use.

    Attributes:
        clean: of clean batches, whose backward pass writes maps.
        mixed: of mixed batches.
        without_maps: those of them whose examples have no map.
    """

    clean: int = 0
    mixed: int = 0
    without_maps: int = 0

    @property
    def images(self) -> int:
        """All of them."""
        return self.clean + self.mixed


class OnePass:
    """Mixes batches by saliency maps that earlier batches left behind, so that none needs a pass.

    Clean and mixed batches take turns. A clean batch trains the model as it is, and the backward
    pass that is made anyway gives its images' gradient, which refreshes the examples' maps in the
    memory; a mixed batch reads the maps of its examples. Per step this is half of the paper's sum
    of the clean and the mixed gradient, at the price of one forward and one backward pass.

    In a loop of your own the call takes, beside images and targets, where the images come from:

        for images, targets, indices in loader:
            images, targets = mixup(images, targets, Origin(indices))
            F.cross_entropy(model(images), targets).backward()   # refreshes a clean batch's maps
            ...
        mixup.end_epoch()

    Args:
        mixer: a method that needs saliency: `CoMixup`, `PuzzleMix`, or a `Choice` with one of them.
            Batches of its other methods are mixed batches too, and read no maps.
        memory: the maps of the data set's examples.
        rate: fraction of the batches that are mixed, evenly spread: 0.5 is every other one.
        recycle: let mixed batches refresh the maps of what they show, too; those of `CoMixup`.
        unit: what is clean or mixed: a whole "batch", or each "image" of every batch. Then `rate`
            is the fraction of a batch's outputs that are mixtures, of all of its images; the
            others are its first images as they are.

    Attributes:
        turn: batches so far; it decides whether the next one is mixed.

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
        recycle: bool = False,
        unit: Unit = "batch",
    ) -> None:
        if not isinstance(mixer, Mixer) or not mixer.needs_saliency:
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
        if not isinstance(memory, SaliencyMemory):
            raise TypeError(
                f"`memory` must be a SaliencyMemory, got {type(memory).__name__}. Use "
                "SaliencyMemory(num_examples=len(dataset))."
            )
        check_number("rate", rate, high=1)
        check_boolean("recycle", recycle)
        check_choice("unit", unit, get_args(Unit))
        own = mixer.p != 1 or bool(getattr(mixer, "num_outputs", None))
        if unit == "image" and (recycle or own or isinstance(mixer, Choice)):
            raise ValueError(
                '`unit` must be "batch" with recycle=True, for a Choice, and for a mixer with `p` '
                f"or `num_outputs` of its own, got {unit!r}. Choose `rate` instead."
            )
        self.mixer = mixer
        self.memory = memory
        self.rate = rate
        self.recycle = recycle
        self.unit: Unit = unit
        self.turn = 0
        # Workers share it.
        self._fraction = torch.ones((), dtype=torch.float64, device="cpu")
        self._warned = False
        self._seen = _Seen()
        mixer.uniform_expected = True  # examples that were not seen yet have no map

    @property
    def generator(self) -> torch.Generator | None:
        """Where the mixer's draws come from."""
        return self.mixer.generator

    @property
    def fraction(self) -> float:
        """How many batches are mixed, relative to `rate`: rate * fraction of them.

        1 at first. Set it for an epoch, for instance by a `Schedule`; it is part of `state_dict`.
        """
        return float(self._fraction)

    @fraction.setter
    def fraction(self, value: float) -> None:
        check_number("fraction", value, high=1)
        self._fraction.fill_(value)

    @property
    def enabled(self) -> bool:
        """Whether batches are mixed at all: False sets `fraction` to 0, True to 1."""
        return self.fraction > 0 and self.mixer.enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        check_boolean("enabled", value)
        self.fraction = float(value)

    def share_memory_(self) -> OnePass:
        """Lets worker processes see the maps and `fraction` as they are; returns itself."""
        self.memory.share_memory_()
        self._fraction.share_memory_()  # type: ignore[no-untyped-call]
        return self

    @property
    def last(self) -> Mixed:
        """What was decided for the last batch."""
        return self.mixer.last

    def __repr__(self) -> str:
        """Returns the call that makes such a one."""
        return call_of(self)

    @eager
    def __call__(
        self, images: Tensor, targets: Tensor, origin: Origin | Tensor
    ) -> tuple[Tensor, Tensor]:
        """Returns the batch to train on, mixed or not, and its soft targets, (m', classes) float32.

        Images of a clean batch come back with `requires_grad`: the backward pass of their loss
        writes their gradient's norm to the memory.

        Args:
            images: (m, C, *size), floating point. Not changed.
            targets: (m,) class indices, or (m, classes) class probabilities. Not changed.
            origin: which examples the images show, and which cells of them; indices alone if they
                were not cropped, flipped or otherwise moved.
        """
        check_images(images)
        origin = checked_origin(origin, images)
        if self.unit == "image":
            return self._mix_within(images, targets, origin)
        mixed = self.mixes(self.turn)
        self.turn += 1
        if not (mixed and self.enabled):
            return self._clean(images, targets, origin)
        outputs, soft = self.mix_by_maps(self.mixer, images, targets, origin)
        plan = self.last.plan
        if self.last.cells is not None:  # mixed by maps
            self._seen.mixed += len(images)
            self._seen.without_maps += self.last.uniform_maps
        if self._seen.images > _PATIENCE * len(self.memory) and not self.memory.epoch:
            self._warn(
                f"No epoch has ended after {self._seen.images} images, of a memory of "
                f"{len(self.memory)} examples: maps are read once `end_epoch` was called. Call it "
                "after every epoch."
            )
        if self.recycle and isinstance(plan, Labelling):
            outputs = _tracked(outputs, lambda gradient: self._write_mixed(origin, plan, gradient))
        return outputs, soft

    def track(self, images: Tensor, origin: Origin | Tensor | None) -> Tensor:
        """Returns images whose backward pass writes their gradient's norm to the memory.

        For batches that are not mixed here: those of `OnePassCollate`, or any others.

        Args:
            images: (m, C, *size), floating point. Not changed.
            origin: where they come from; None (a mixed batch) leaves them as they are.
        """
        if origin is None:
            return images
        known = checked_origin(origin, images)
        self._seen.clean += len(images)
        return _tracked(images, lambda gradient: self.memory.write_gradient(known, gradient))

    def mixes(self, turn: int) -> bool:
        """Returns whether the batch of a turn, counted from 0, is mixed, at this `fraction`.

        >>> from comixup import CoMixup
        >>> mixup = OnePass(CoMixup(10), SaliencyMemory(num_examples=9), rate=0.5)
        >>> [mixup.mixes(turn) for turn in range(4)]
        [False, True, False, True]
        """
        rate = self.rate * self.fraction
        return int((turn + 1) * rate) > int(turn * rate)

    def mix_by_maps(
        self, mixer: Mixer, images: Tensor, targets: Tensor, origin: Origin
    ) -> tuple[Tensor, Tensor]:
        """Returns a batch mixed by a mixer, which reads maps if the method of this batch does."""
        method = mixer.next_method()
        needed = method is not None and method.needs_saliency
        return mixer(images, targets, self.maps_for(images, origin) if needed else None)

    def maps_for(self, images: Tensor, origin: Origin) -> Tensor:
        """Returns the maps, (m, *size), by which a batch is mixed."""
        return self.memory.read(origin, images.shape[2:])

    def end_epoch(self) -> None:
        """Lets the maps written in this epoch be read from now on; call it in every process."""
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
        """Returns the maps, the turn, `fraction` and the state of the mixer."""
        return {
            "turn": self.turn,
            "fraction": self.fraction,
            "memory": self.memory.state_dict(),
            "mixer": self.mixer.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        self.memory.load_state_dict(state["memory"])
        self.mixer.load_state_dict(state["mixer"])
        self.turn = int(state["turn"])
        self.fraction = state["fraction"]

    def _clean(self, images: Tensor, targets: Tensor, origin: Origin) -> tuple[Tensor, Tensor]:
        """Returns the batch as it is, set up to refresh its examples' maps."""
        mixer = self.mixer
        mixer.remember(Mixed(Mixer.leave(mixer, images), mixed=False))
        soft = mixer.soft_targets(targets, len(images))
        return self.track(images, origin), soft

    def _mix_within(self, images: Tensor, targets: Tensor, origin: Origin) -> tuple[Tensor, Tensor]:
        """Returns the first images as they are, then mixtures of all of them."""
        m, mixer = len(images), self.mixer
        mixed = round(m * self.rate * self.fraction)
        if not (mixed and self.enabled):
            return self._clean(images, targets, origin)
        clean = m - mixed
        soft = mixer.soft_targets(targets, m)
        with host_by_default():
            drawn = self._draw(images, self.maps_for(images, origin), mixed)
            plan = PartlyMixed(clean, mixed, drawn.plan)
            ratio = drawn.target_ratio
            if ratio is not None:
                ratio = torch.cat([torch.eye(m)[:clean], ratio[:mixed]])
            mixer.remember(replace(drawn, plan=plan, target_ratio=ratio))
            outputs, soft = mix(images, soft, plan, source_ratio=ratio)
        shown = Origin(
            origin.indices[:clean], None if origin.cells is None else origin.cells[:clean]
        )
        if not clean:
            return outputs, soft
        return _tracked(
            outputs, lambda gradient: self.memory.write_gradient(shown, gradient[:clean])
        ), soft

    def _draw(self, images: Tensor, saliency: Tensor, num_outputs: int) -> Mixed:
        """Returns how the mixer makes (at least) so many outputs of a batch."""
        mixer = copy.copy(self.mixer)
        if isinstance(mixer, CoMixup):
            mixer.num_outputs = num_outputs
        return mixer.draw(images, saliency)

    def _write_mixed(self, origin: Origin, plan: Labelling, gradient: Tensor) -> None:
        """Writes a mixed batch's gradient to the cells of the examples that it shows."""
        norms = channel_norm(gradient)
        # Outputs differ in the size of their loss.
        norms = norms / norms.flatten(1).mean(1).clamp(min=1e-30).view(-1, *[1] * (norms.ndim - 1))
        size = norms.shape[1:]
        numbers = origin.cells
        if numbers is None:
            numbers = self.memory.cell_numbers(size).expand(len(origin.indices), *size)
        sources = upsampled(plan.sources.to(norms.device), size)
        found = mixed_cell_means(numbers, norms, sources, self.memory.num_cells)
        self.memory.write_cells(origin.indices, *found)


def _tracked(images: Tensor, write: Callable[[Tensor], None]) -> Tensor:
    """Returns a copy of images, on which models may work in place, whose gradient is handed on."""
    if not images.is_floating_point():
        raise TypeError(
            f"`images` must be floating point to have a gradient, got {images.dtype}. Scale them, "
            "for instance by torchvision's v2.ToDtype(torch.float32, scale=True)."
        )
    inputs = recordable(images.detach()).requires_grad_()
    inputs.register_hook(write)  # type: ignore[no-untyped-call]
    return inputs.clone()


def checked_origin(origin: Origin | Tensor | None, images: Tensor) -> Origin:
    """Returns where a batch comes from, as one kind of thing."""
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
