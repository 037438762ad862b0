"""One-pass mixing in a data loader's workers: the training process only trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from comixup._checks import check_count
from comixup._random import coin
from comixup.core.memory import Origin
from comixup.core.tensors import check_images
from comixup.mixers._one_pass import OnePass, checked_origin

Batch: TypeAlias = tuple[Tensor, Tensor, Origin | None]
"""Images, soft targets, and where the images come from; None for a mixed batch."""


class OnePassCollate:
    """A `collate_fn` that mixes batches by remembered saliency, in the workers of a data loader.

    Samples are (image, target, index) or (image, target, Origin). Whether a batch is mixed, and
    all draws, depend on `seed`, the epoch and the batch's indices alone: so it does not matter how
    many workers there are, how they were started, or whether they are persistent. The samples and
    their order are the data set's and the sampler's (see docs/one-pass.md).

        loader = DataLoader(dataset, 100, collate_fn=OnePassCollate(mixup), num_workers=4)
        for images, targets, origin in loader:
            images = mixup.track(images.to(device), origin)
            F.cross_entropy(model(images), targets.to(device)).backward()
            ...
        mixup.end_epoch()

    Args:
        mixup: shared with the training loop. Its maps and `fraction`, and its mixer's, move to
            shared memory here; its settings are those that it has when workers are started.
        seed: of all draws.
        collate: puts samples together.
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
        if mixup.recycle:
            raise ValueError(
                "`mixup` must have recycle=False to mix in workers: the training process does not "
                "know what a mixed batch shows."
            )
        if mixup.unit != "batch":
            raise ValueError(
                '`mixup` must have unit="batch" to mix in workers: whole batches are clean or '
                f"mixed there, got unit={mixup.unit!r}."
            )
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
        # A copy: without workers this is the training process, whose own generator is its own.
        generator = torch.Generator().manual_seed(seed)
        mixer = mixup.mixer.with_generator(generator)
        soft = mixer.soft_targets(targets, len(images))
        if not (mixup.enabled and coin(mixup.rate * mixup.fraction, generator)):
            return images, soft, origin
        return *mixup.mix_by_maps(mixer, images, soft, origin), None


def _without_none(sample: Any) -> Any:
    """Returns a sample that torch can collate: of an origin without cell numbers, its index."""
    if isinstance(sample, (tuple, list)) and sample and isinstance(sample[-1], Origin):
        *others, origin = sample
        return (*others, origin.indices) if origin.cells is None else sample
    return sample
