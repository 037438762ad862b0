"""The training loop: one optimiser step, and the steps of an epoch."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from comixup import LossFn, Mixer, Origin, Plan, training_step
from comixup.lab._networks import MEMORY_FORMAT
from comixup.lab._seeds import Purpose, seed_for
from comixup.lab.data import DataSet, Loader
from comixup.lab.training._losses import balanced_weights, losses
from comixup.lab.training._processes import summed
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._run import Run
from comixup.lab.training._setup import Setup, WeightAverage, set_lr
from comixup.lab.training._vat import vat_loss

if TYPE_CHECKING:
    from comixup._lightning import FabricModule, FabricOptimizer


COLOUR_LEVELS = 255
"""The radius of VAT's ball is given in levels of 8-bit colours."""


@dataclass(frozen=True)
class Totals:
    """Sums over an epoch, kept on the device: reading them would make the host wait.

    Attributes:
        sums: loss times images, images, correct predictions of unmixed images, and the number of
            these predictions.
        counts: outputs of the mixer, the inputs in them, and outputs of a single input: on the
            host, where plans are made.
    """

    sums: Tensor
    counts: Tensor = field(default_factory=lambda: torch.zeros(3))

    @classmethod
    def begin(cls, device: torch.device, before: dict[str, float]) -> Totals:
        """Returns the sums of an epoch so far; zeros at its start."""
        values = [before.get(name, 0.0) for name in cls.names()]
        return cls(torch.tensor(values[:4], device=device), torch.tensor(values[4:]))

    @staticmethod
    def names() -> tuple[str, ...]:
        """Returns what the sums and counts are of."""
        return ("loss", "images", "correct", "predictions", "outputs", "inputs", "unmixed")

    def add(self, loss: Tensor, images: int, logits: Tensor | None, targets: Tensor) -> None:
        """Adds a micro-batch; `logits` are those of unmixed images, if there are any."""
        self.sums[0] += loss.detach() * images
        self.sums[1] += images
        if logits is not None and targets.ndim == 1:
            self.sums[2] += (logits.argmax(1) == targets).sum()
            self.sums[3] += len(targets)

    def count(self, plan: Plan) -> None:
        """Adds how many inputs the outputs of a micro-batch have."""
        inputs = (plan.source_ratio() > 0).sum(1)
        self.counts.add_(torch.tensor([len(inputs), inputs.sum(), (inputs == 1).sum()]))

    @property
    def unmixed(self) -> float:
        """The fraction of this process's outputs so far that have a single input."""
        outputs, _, single = self.counts.tolist()
        return single / outputs if outputs else 0.0

    def read(self, fabric: Fabric) -> dict[str, float]:
        """Returns the sums over all processes."""
        values = torch.cat([self.sums, self.counts.to(self.sums.device)])
        return dict(zip(self.names(), summed(fabric, values), strict=True))


@dataclass(frozen=True)
class Stepper:
    """What makes optimiser steps; it stays the same over a run.

    Attributes:
        fabric: the processes.
        model: set up by Fabric.
        optimizer: set up by Fabric.
        mixer: the method; its generator is seeded for every micro-batch.
        loss_fn: of mixed batches.
        clean_loss_fn: of clean batches.
        vat: keywords of `vat_loss`, which is added to the loss of unmixed batches, and its
            `weight`; None without it.
        recipe: for the learning rates.
        seed: of the run.
        accumulate: micro-batches of each process and step.
        memory_format: of the images, that of the model's weights.
        average: of the model's weights, kept up to date; None without it.
    """

    fabric: Fabric
    model: FabricModule
    optimizer: FabricOptimizer
    mixer: Mixer
    loss_fn: LossFn
    clean_loss_fn: LossFn
    vat: Mapping[str, Any] | None
    recipe: Recipe
    seed: int
    accumulate: int
    memory_format: torch.memory_format = MEMORY_FORMAT
    average: WeightAverage | None = None

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
        set_lr(self.optimizer, self.recipe.lr_at(epoch + step / steps))
        self.optimizer.zero_grad()
        split = _micro_batches(images, targets, origin, self.accumulate)
        micro_batches = [micro for micro in split if len(micro[0])]
        for k, (micro_images, micro_targets, micro_origin) in enumerate(micro_batches):
            self.mixer.turn = epoch * steps + step
            self._seed(epoch, step, self.fabric.global_rank * self.accumulate + k)
            # Gradients are averaged over processes: a micro-batch is weighted by its images.
            weight = len(micro_images) * self.fabric.world_size / batch
            last = k == len(micro_batches) - 1
            with self.fabric.no_backward_sync(self.model, enabled=not last):
                self._backward(micro_images, micro_targets, micro_origin, weight, sums)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()

    def _backward(
        self,
        images: Tensor,
        targets: Tensor,
        origin: Origin | None,
        weight: float,
        sums: Totals,
    ) -> None:
        """Adds the gradient of a micro-batch's loss, times its weight."""

        def backward(loss: Tensor) -> None:
            self.fabric.backward(loss * weight)

        step = training_step(
            self.model,
            self.mixer,
            images.contiguous(memory_format=self.memory_format),
            targets,
            origin=origin,
            loss_fn=self.loss_fn,
            clean_loss_fn=self.clean_loss_fn,
            backward=backward,
        )
        loss, reported = step.loss, step.mixed_loss
        if self.vat is not None:  # its method mixes nothing: the outputs are the images' own
            settings = dict(self.vat)
            smoothness = settings.pop("weight") * vat_loss(
                self.model,
                images,
                logits=step.outputs,
                generator=self.mixer.generator,
                **settings,
            )
            loss, reported = loss + smoothness, reported + smoothness
        backward(loss)
        logits = step.clean_outputs
        if logits is None and not self.mixer.last.mixed:
            logits = step.outputs
        sums.add(reported, len(images), None if logits is None else logits.detach(), targets)
        if not self.mixer.mixes_nothing:
            sums.count(self.mixer.last.plan)

    def _seed(self, *counts: int) -> None:
        """Seeds every generator from the seed and the counts: they are its whole state."""
        # Dropout, and whatever else a model draws.
        torch.manual_seed(seed_for(self.seed, *counts, Purpose.MODEL))
        if self.mixer.generator is not None:
            self.mixer.generator.manual_seed(seed_for(self.seed, *counts, Purpose.MIXER))


def make_stepper(run: Run, data: DataSet, setup: Setup, accumulate: int) -> Stepper:
    """Returns what makes a run's training steps.

    Args:
        run: for its losses, learning rates and seed.
        data: what it is trained on.
        setup: what is trained.
        accumulate: micro-batches of each process and step.
    """
    recipe, vat = run.trained, run.recipe.choose(run.method).vat
    weights = None
    if recipe.class_weights is not None:
        weights = balanced_weights(data.train.targets, data.num_classes).to(setup.fabric.device)
    loss_fn, clean_loss_fn = losses(recipe.loss, data.num_classes, weights, recipe.label_smoothing)
    # Of one of 255 levels of colour in normalised images.
    colour_level = tuple(1 / (COLOUR_LEVELS * std) for std in data.std)
    return Stepper(
        fabric=setup.fabric,
        model=setup.model,
        optimizer=setup.optimizer,
        mixer=setup.mixer,
        loss_fn=loss_fn,
        clean_loss_fn=clean_loss_fn,
        vat=None if vat is None else {**vat, "scale": colour_level},
        recipe=recipe,
        seed=run.seed,
        accumulate=accumulate,
        memory_format=setup.memory_format,
        average=setup.average,
    )


def train_steps(
    stepper: Stepper,
    loader: Loader,
    *,
    epoch: int,
    first: int,
    batch_size: int,
    size: int,
    sums: Totals,
) -> Generator[int, None, None]:
    """Trains for the rest of an epoch; yields the number of steps done, after each of them.

    Args:
        stepper: makes the steps.
        loader: of this process's shares.
        epoch: counted from 0.
        first: steps of it that are done already.
        batch_size: images of a batch, over all processes.
        size: images of the epoch.
        sums: to be added to.
    """
    steps = len(loader)
    stepper.model.train()
    batches: Iterator[tuple[Tensor, Tensor, Origin | None]]
    if stepper.mixer.memory is not None:
        batches = loader.epoch_with_origins(epoch, stepper.mixer.memory, first)
    else:
        batches = ((images, targets, None) for images, targets in loader.epoch(epoch, first))
    for number, (images, targets, origin) in enumerate(batches, first):
        batch = min(batch_size, size - number * batch_size)
        stepper.run(images, targets, origin, batch, (epoch, number, steps), sums)
        yield number + 1
    stepper.mixer.disarm()
    stepper.mixer.end_epoch()


def _micro_batches(
    images: Tensor, targets: Tensor, origin: Origin | None, count: int
) -> Iterator[tuple[Tensor, Tensor, Origin | None]]:
    """Returns a process's share of a batch, divided into micro-batches."""
    origins: Sequence[Origin | None] = [None] * count
    if origin is not None:
        cells = [None] * count if origin.cells is None else origin.cells.tensor_split(count)
        indices = origin.indices.tensor_split(count)
        origins = [Origin(*pair) for pair in zip(indices, cells, strict=True)]
    return zip(images.tensor_split(count), targets.tensor_split(count), origins, strict=True)
