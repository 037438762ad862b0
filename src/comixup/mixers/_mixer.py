"""The calling convention that all methods share."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, TypedDict

import torch
from torch import Tensor, nn

from comixup._checks import check_count, check_number
from comixup._labelling import Labelling
from comixup._mix import Plan, check_images, mix_shares
from comixup._random import coin
from comixup._saliency import Backward, CleanPass, LossFn, clean_pass
from comixup._targets import soft_targets


@dataclass(frozen=True, eq=False)
class Mixed:
    """What was decided for a batch.

    Attributes:
        plan: how it is mixed, in host memory. `plan.mix_images` mixes other tensors the same way
            (one-hot segmentation masks, a teacher's maps); `plan.masks` and `plan.source_ratio()`
            tell who is where.
        mixed: False if the batch was left as it was, by chance `p` or because mixing is off.
        layer: the layer of the model in which the images are mixed, where they are not mixed
            themselves (manifold mixup).
        target_ratio: (m', m) weights of the inputs' targets, where they are not the inputs' shares
            of the pixels.
        uniform_maps: inputs whose saliency was zero, constant, NaN or infinite. Nothing in them
            stands out, so they count as salient everywhere alike.
    """

    plan: Plan
    mixed: bool = True
    layer: str | None = None
    target_ratio: Tensor | None = None
    uniform_maps: int = 0


class CleanSettings(TypedDict, total=False):
    """How a method wants its pass over the clean batch."""

    keep_gradients: bool
    clean_weight: float


class Mixer(ABC):
    """A method of mixing batches: `images, targets = mixer(images, targets, saliency)`.

    Attributes:
        num_classes: columns of the mixed targets; None if targets come with theirs.
        p: probability that a batch is mixed at all. One that is not has no pass over the clean
            batch either, so its gradient is of one loss where others' are of two.
        generator: where all draws come from, on the CPU; None means torch's global one.
        validate: check class indices even where the host has to wait for a device.
        enabled: set it to False to stop mixing, for instance in the last epochs.
        last: what was decided for the last batch; None before the first.
    """

    needs_saliency: ClassVar[bool] = False

    def __init__(
        self,
        num_classes: int | None = None,
        *,
        p: float = 1.0,
        generator: torch.Generator | None = None,
        validate: bool = False,
    ) -> None:
        if num_classes is not None:
            check_count("num_classes", num_classes)
        check_number("p", p, high=1)
        if generator is not None and not isinstance(generator, torch.Generator):
            raise TypeError(
                f"`generator` must be a torch.Generator, got {generator!r}. Use "
                "torch.Generator().manual_seed(seed)."
            )
        if generator is not None and generator.device.type != "cpu":
            raise ValueError(
                "`generator` must be on the CPU, where all draws are made, got one on "
                f"{generator.device}. Use torch.Generator().manual_seed(seed)."
            )
        self.num_classes = num_classes
        self.p = p
        self.generator = generator
        self.validate = validate
        self.enabled = True
        self.last: Mixed | None = None
        self._toss: bool | None = None

    def __call__(
        self, images: Tensor, targets: Tensor, saliency: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns the mixed images and their soft targets, (m', classes) float32.

        Args:
            images: (m, C, *size). Not changed.
            targets: (m,) class indices, or (m, classes) soft or multi-label shares. Not changed.
            saliency: for methods that need it, what `mixer.saliency(...)` returned, or maps
                (m, *size) of your own, of any size, not negative.
        """
        check_images(images)
        shares = soft_targets(targets, len(images), self.num_classes, validate=self.validate)
        with _host_by_default():
            if self._takes_part():
                if self.needs_saliency:
                    _check_saliency(saliency, images, type(self).__name__)
                self.last = self.draw(images, saliency)
            else:
                self.last = Mixed(self.leave(images), mixed=False)
            last, ratio = self.last, self.last.target_ratio
            if ratio is None:
                ratio = last.plan.source_ratio(images.shape[2:])
            mixed = last.plan.mix_images(images) if last.layer is None else images
        return mixed, mix_shares(shares, ratio)

    @abstractmethod
    def draw(self, images: Tensor, saliency: Tensor | None) -> Mixed:
        """Returns how to mix a batch; every random choice of the method is made here."""

    def leave(self, images: Tensor) -> Plan:
        """Returns the plan that leaves a batch as it is."""
        own = torch.arange(len(images), device="cpu").view(-1, *[1] * (images.ndim - 1))
        return Labelling(own, num_inputs=len(images))

    def saliency(
        self,
        model: nn.Module,
        images: Tensor,
        targets: Tensor,
        *,
        loss_fn: LossFn | None = None,
        backward: Backward | None = None,
    ) -> Tensor | None:
        """Returns the saliency that mixing this batch takes, to be given to the mixer.

        None, without a pass over the clean batch, for methods that need no saliency and for
        batches that are not to be mixed (`p`, `enabled`). See `comixup.saliency` for the arguments.
        """
        clean = self.clean_pass(model, images, targets, loss_fn=loss_fn, backward=backward)
        return None if clean is None else clean.saliency

    def clean_pass(
        self,
        model: nn.Module,
        images: Tensor,
        targets: Tensor,
        *,
        loss_fn: LossFn | None = None,
        backward: Backward | None = None,
    ) -> CleanPass | None:
        """Returns what `saliency` returns, with the clean loss and outputs beside it."""
        if not self.needs_saliency:
            return None
        # The coin is tossed here already, so that no pass is made in vain; the call then keeps to
        # it. Without a call in between the next toss replaces it: each batch has one.
        self._toss = coin(self.p, self.generator)
        if not (self._toss and self.enabled):
            return None
        settings = self.clean_settings()
        return clean_pass(model, images, targets, loss_fn=loss_fn, backward=backward, **settings)

    def clean_settings(self) -> CleanSettings:
        """Returns how this method wants its pass over the clean batch."""
        return {}

    def _takes_part(self) -> bool:
        """Whether this batch is mixed: by the toss made for its saliency, or else a new one."""
        toss = coin(self.p, self.generator) if self._toss is None else self._toss
        self._toss = None
        return toss and self.enabled


def _host_by_default() -> contextlib.AbstractContextManager[object]:
    """Returns a context in which plans are made in host memory, whatever torch's default device."""
    if torch.get_default_device().type == "cpu":
        return contextlib.nullcontext()
    return torch.device("cpu")


def _check_saliency(saliency: Tensor | None, images: Tensor, method: str) -> None:
    if saliency is None:
        raise ValueError(
            f"`saliency` must be given to {method}, got None. Use "
            "mixer.saliency(model, images, targets), or comixup.spectral_residual(images) where "
            "there is no model."
        )
    if not isinstance(saliency, Tensor):
        raise TypeError(f"`saliency` must be a torch tensor, got {type(saliency).__name__}.")
    if saliency.ndim != images.ndim - 1 or len(saliency) != len(images) or not saliency.numel():
        raise ValueError(
            f"`saliency` must have shape ({len(images)}, *size) with {images.ndim - 2} spatial "
            f"dimensions, a map for each image, got {tuple(saliency.shape)} for images "
            f"{tuple(images.shape)}."
        )
