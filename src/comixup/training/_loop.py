"""The two loops: over the batches of a training epoch, and over those of an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from comixup import LossFn, Mixer, OnePass, Origin, training_step
from comixup._wrappers import unwrapped
from comixup.data import Loader, Purpose, seed_for
from comixup.mixers import ManifoldMixup
from comixup.models import MEMORY_FORMAT
from comixup.training._recipe import Recipe, Settings
from comixup.training._vat import vat_loss

if TYPE_CHECKING:
    from comixup._lightning import FabricModule

TOP = 5
_OLD_NAMES = {"correct": "right", "predictions": "answers"}
"""Of sums, in older checkpoints."""


@dataclass(frozen=True)
class Totals:
    """Sums over an epoch, kept on the device: reading them would make the host wait.

    Attributes:
        sums: loss times images, images, correct predictions of unmixed images, and the number of
            these predictions.
    """

    sums: Tensor

    @classmethod
    def begin(cls, device: torch.device, before: dict[str, float]) -> Totals:
        """Returns the sums of an epoch so far; none, at its start."""
        values = [
            before.get(name, before.get(_OLD_NAMES.get(name, name), 0.0)) for name in cls.names()
        ]
        return cls(torch.tensor(values, device=device))

    @staticmethod
    def names() -> tuple[str, ...]:
        """Returns what the sums are of."""
        return ("loss", "images", "correct", "predictions")

    def add(self, loss: Tensor, images: int, logits: Tensor | None, targets: Tensor) -> None:
        """Adds a micro-batch; `logits` are what the model made of unmixed images, if any."""
        self.sums[0] += loss.detach() * images
        self.sums[1] += images
        if logits is not None:
            self.sums[2] += (logits.argmax(1) == targets).sum()
            self.sums[3] += len(targets)

    def read(self, fabric: Fabric) -> dict[str, float]:
        """Returns the sums over all processes."""
        return dict(zip(self.names(), summed(fabric, self.sums), strict=True))


@dataclass(frozen=True)
class Stepper:
    """How steps are made: what stays the same over a run.

    Attributes:
        fabric: the processes.
        model: set up by Fabric.
        optimizer: set up by Fabric.
        mixer: the method; its generator is seeded for every part of a step.
        loss_fn: of mixed batches.
        clean_loss_fn: of clean ones.
        vat: keywords of `vat_loss` and its weight, or None.
        recipe: for the learning rates.
        seed: of the run.
        accumulate: parts of a process's share of a batch.
        memory_format: of the images, that of the model's weights.
    """

    fabric: Fabric
    model: FabricModule
    optimizer: torch.optim.Optimizer
    mixer: Mixer | OnePass
    loss_fn: LossFn
    clean_loss_fn: LossFn
    vat: Settings | None
    recipe: Recipe
    seed: int
    accumulate: int
    memory_format: torch.memory_format = MEMORY_FORMAT

    def run(
        self,
        images: Tensor,
        targets: Tensor,
        origin: Origin | None,
        batch: int,
        when: tuple[int, int, int],
        sums: Totals,
    ) -> None:
        """Makes one step of the optimiser.

        Args:
            images: this process's share of the batch.
            targets: theirs.
            origin: where they come from, for one-pass mixing.
            batch: images of the batch over all processes.
            when: the epoch, the step in it, and the number of steps in it.
            sums: to be added to.
        """
        epoch, step, steps = when
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.lr_at(epoch + step / steps)
        self.optimizer.zero_grad()
        micro_batches = _parts(images, targets, origin, self.accumulate)
        parts = [part for part in micro_batches if len(part[0])]
        for k, (part_images, part_targets, part_origin) in enumerate(parts):
            if isinstance(self.mixer, OnePass):
                self.mixer.turn = epoch * steps + step
            part = self.fabric.global_rank * self.accumulate + k
            self._seed(epoch, step, part)
            # Processes' gradients are averaged: each part is to weigh as many images as it has.
            weight = len(part_images) * self.fabric.world_size / batch
            last = k == len(parts) - 1
            with self.fabric.no_backward_sync(self.model, enabled=not last):
                self._part(part_images, part_targets, part_origin, weight, sums)
        self.optimizer.step()

    def _part(
        self,
        images: Tensor,
        targets: Tensor,
        origin: Origin | None,
        weight: float,
        sums: Totals,
    ) -> None:
        def backward(loss: Tensor) -> None:
            self.fabric.backward(loss * weight)

        made = training_step(
            self.model,
            self.mixer,
            images.contiguous(memory_format=self.memory_format),
            targets,
            origin=origin,
            loss_fn=self.loss_fn,
            clean_loss_fn=self.clean_loss_fn,
            backward=backward,
        )
        loss, reported = made.loss, made.mixed_loss
        if self.vat is not None:
            settings = {name: value for name, value in self.vat.items() if name != "weight"}
            smoothness = self.vat["weight"] * vat_loss(
                self.model,
                images,
                logits=made.outputs,
                generator=self.mixer.generator,
                **settings,
            )
            loss, reported = loss + smoothness, reported + smoothness
        backward(loss)
        logits = made.clean_outputs
        if logits is None and not self._mixed():
            logits = made.outputs
        sums.add(reported, len(images), None if logits is None else logits.detach(), targets)

    def _mixed(self) -> bool:
        return self.mixer.last.mixed

    def _seed(self, *counts: int) -> None:
        """Seeds every generator from the seed and the counts: they are its whole state."""
        # Dropout, and whatever else a model draws.
        torch.manual_seed(seed_for(self.seed, *counts, Purpose.MODEL))
        if self.mixer.generator is not None:
            self.mixer.generator.manual_seed(seed_for(self.seed, *counts, Purpose.MIXER))


def _parts(
    images: Tensor, targets: Tensor, origin: Origin | None, count: int
) -> Iterator[tuple[Tensor, Tensor, Origin | None]]:
    """Returns the micro-batches of a batch."""
    origins: Sequence[Origin | None] = [None] * count
    if origin is not None:
        cells = [None] * count if origin.cells is None else origin.cells.tensor_split(count)
        indices = origin.indices.tensor_split(count)
        origins = [Origin(*pair) for pair in zip(indices, cells, strict=True)]
    return zip(images.tensor_split(count), targets.tensor_split(count), origins, strict=True)


def train_epoch(
    stepper: Stepper,
    loader: Loader,
    *,
    epoch: int,
    first: int,
    batch_size: int,
    size: int,
    sums: Totals,
    after: Callable[[int], None],
) -> None:
    """Trains for the rest of an epoch.

    Args:
        stepper: how steps are made.
        loader: of this process's shares.
        epoch: counted from 0.
        first: steps of it that are done already.
        batch_size: images of a batch, over all processes.
        size: images of the epoch.
        sums: to be added to.
        after: called with the number of steps done, after each.
    """
    steps = len(loader)
    stepper.model.train()
    for number, (images, targets, origin) in enumerate(
        _batches(stepper, loader, epoch, first), first
    ):
        batch = min(batch_size, size - number * batch_size)
        stepper.run(images, targets, origin, batch, (epoch, number, steps), sums)
        after(number + 1)
    if isinstance(stepper.mixer, ManifoldMixup):
        stepper.mixer.disarm()
    if isinstance(stepper.mixer, OnePass):
        stepper.mixer.end_epoch()


def _batches(
    stepper: Stepper, loader: Loader, epoch: int, first: int
) -> Iterator[tuple[Tensor, Tensor, Origin | None]]:
    """Returns an epoch's batches, with where they come from if the method asks for it."""
    if isinstance(stepper.mixer, OnePass):
        return loader.epoch_with_origins(epoch, stepper.mixer.memory, first)
    return ((images, targets, None) for images, targets in loader.epoch(epoch, first))


@torch.no_grad()
def evaluate(
    fabric: Fabric,
    model: nn.Module,
    loader: Loader,
    after: Callable[[int], Any] = lambda done: None,
) -> dict[str, float]:
    """Returns top-1 and top-5 error in percent and the mean cross-entropy, over all processes.

    Processes may have different numbers of images, so the model is run without the wrapper that
    would make them wait for each other.
    """
    inner = unwrapped(model)
    _share_buffers(fabric, inner)
    inner.eval()
    sums = torch.zeros(4, device=fabric.device)
    for number, (images, targets) in enumerate(loader.epoch(0)):
        if len(images):
            with fabric.autocast():
                logits = inner(images.contiguous(memory_format=MEMORY_FORMAT)).float()
            top = logits.topk(min(TOP, logits.shape[1]), dim=1).indices == targets[:, None]
            sums[0] += F.cross_entropy(logits, targets, reduction="sum")
            sums[1] += top[:, 0].sum()
            sums[2] += top.sum()
            sums[3] += len(targets)
        after(number + 1)
    loss, right, near, count = summed(fabric, sums)
    return {
        "error": 100 * (1 - right / count),
        "top5_error": 100 * (1 - near / count),
        "loss": loss / count,
    }


@torch.no_grad()
def logits_of(fabric: Fabric, model: nn.Module, loader: Loader) -> tuple[Tensor, Tensor]:
    """Returns the logits of all images, (n, classes) float32, and their classes, in host memory.

    Args:
        fabric: of this process, which computes alone.
        model: the network, wrapped or not.
        loader: of whole batches, not of this process's share of them.
    """
    inner = unwrapped(model)
    inner.eval()
    found, classes = [], []
    for images, targets in loader.epoch(0):
        with fabric.autocast():
            found.append(inner(images.contiguous(memory_format=MEMORY_FORMAT)).float())
        classes.append(targets)
    return torch.cat(found).cpu(), torch.cat(classes).cpu()


def summed(fabric: Fabric, values: Tensor) -> list[float]:
    """Returns the sums of values over all processes."""
    total = fabric.all_reduce(values.clone(), reduce_op="sum")
    numbers: list[float] = torch.as_tensor(total).tolist()
    return numbers


def _share_buffers(fabric: Fabric, model: nn.Module) -> None:
    """Gives all processes the first one's buffers, as every training step does at its start."""
    if fabric.world_size > 1:
        for buffer in model.buffers():
            torch.distributed.broadcast(buffer, src=0)
