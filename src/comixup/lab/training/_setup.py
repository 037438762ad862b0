"""What a run trains: network, mixer and optimiser, built, restored from a state, stored in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from lightning_fabric import Fabric
from torch import nn

from comixup import Mixer
from comixup._passes import unwrapped
from comixup.lab import models
from comixup.lab._networks import check_fit, load_weights, memory_format
from comixup.lab._seeds import Purpose, seed_for
from comixup.lab.data import DataSet
from comixup.lab.training._checkpoint import State, load_optimizer
from comixup.lab.training._loop import Stepper
from comixup.lab.training._losses import balanced_weights, losses
from comixup.lab.training._make_mixer import make_method
from comixup.lab.training._optimizer import make_optimizer
from comixup.lab.training._preprocessing import shape_of
from comixup.lab.training._run import Run
from comixup.lab.training._vat import WeightedVat
from comixup.lab.training._weight_average import WeightAverage

if TYPE_CHECKING:
    from comixup._lightning import FabricModule, FabricOptimizer

COLOUR_LEVELS = 255
"""The radius of VAT's ball is given in levels of 8-bit colours."""


@dataclass(frozen=True)
class Setup:
    """What a run trains, set up by Fabric.

    Attributes:
        fabric: the processes.
        model: the network.
        optimizer: of its weights.
        mixer: mixes the batches; with a memory of saliency if its method takes one pass.
        memory_format: of weights and images.
        new_weights: names of those that the file of initial weights did not have.
        average: of the network's weights, where its method has one.
    """

    fabric: Fabric
    model: FabricModule
    optimizer: FabricOptimizer
    mixer: Mixer
    memory_format: torch.memory_format
    new_weights: tuple[str, ...] = ()
    average: WeightAverage | None = None

    @property
    def evaluated(self) -> nn.Module:
        """The network that is evaluated and exported: with averaged weights if there are any."""
        return unwrapped(self.model) if self.average is None else self.average.model

    def restore(self, state: State, folder: Path) -> None:
        """Loads a checkpoint's state; one that does not fit raises `ValueError`.

        Args:
            state: which has no weights before the first checkpoint: then nothing is changed.
            folder: of the checkpoint, for the error message.
        """
        if not state.model:
            return
        try:
            load_weights(self.evaluated, state.model)
            if self.average is not None:
                load_weights(unwrapped(self.model), state.trained)
                self.average.steps = state.averaged_steps
            load_optimizer(self.optimizer.optimizer, state.optimizer)
            self.fabric.strategy.precision.load_state_dict(state.precision)
            if self.mixer.memory is not None:
                self.mixer.memory.load_state_dict(state.memory)
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as why:
            raise ValueError(
                f"`checkpoint` must fit this run's network and optimiser, but that of "
                f"{folder} does not ({str(why).strip().splitlines()[0][:200]}). Nothing was "
                "changed: use the previous versions, or choose another folder with --out."
            ) from None

    def take_best(self, state: State) -> None:
        """Loads the weights that were best by validation, where a state has them."""
        if state.best:
            load_weights(self.evaluated, state.best)

    def store(self, state: State) -> None:
        """Puts everything that is trained into a state, for a checkpoint."""
        if self.mixer.memory is not None:
            state.memory = self.mixer.memory.state_dict()
        state.model = self.evaluated.state_dict()
        if self.average is not None:
            state.trained = unwrapped(self.model).state_dict()
            state.averaged_steps = self.average.steps
        state.optimizer = self.optimizer.state_dict()
        state.precision = self.fabric.strategy.precision.state_dict()


def build_setup(run: Run, data: DataSet, fabric: Fabric, *, begun: bool = False) -> Setup:
    """Returns a run's network with its initial weights, its mixer and its optimiser.

    Args:
        run: what is trained.
        data: what it is trained on.
        fabric: the processes.
        begun: whether the weights come from a checkpoint: those that it began with are then not
            looked for.
    """
    recipe = run.trained
    torch.manual_seed(seed_for(run.seed, Purpose.INITIAL_WEIGHTS))
    # For the images that it ends with and is used on: they decide the stride of our stems.
    model = models.build(
        recipe.model,
        data.num_classes,
        shape=shape_of(data, run.final_image_size),
        width=recipe.width,
        pretrained=recipe.pretrained and not begun,
    )
    for side in {phase.image_size for phase in recipe.phases}:
        check_fit(model, recipe.model, shape_of(data, side), data.num_classes)
    new = []
    if recipe.weights and not begun:
        new = models.load_matching(model, recipe.weights, data.num_classes)
    models.freeze(model, recipe.freeze, data.num_classes)
    layout = memory_format(model, fabric.device)
    model.to(memory_format=layout)
    method = run.recipe.choose(run.method)
    mixer = make_method(method, data.num_classes, len(data.train), torch.Generator())
    head = models.head_name(model, data.num_classes) if recipe.head_lr != 1 else ""
    wrapped, optimizer = fabric.setup(model, make_optimizer(recipe, model, head))
    # On its device and in its precision, which `setup` gave it.
    average = None if method.ema is None else WeightAverage(model, method.ema)
    mixer.attach(model)
    return Setup(fabric, wrapped, optimizer, mixer, layout, tuple(new), average)


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
    return Stepper(
        fabric=setup.fabric,
        model=setup.model,
        optimizer=setup.optimizer,
        mixer=setup.mixer,
        loss_fn=loss_fn,
        clean_loss_fn=clean_loss_fn,
        vat=None if vat is None else WeightedVat(**{**vat, "scale": _colour_level(data)}),
        recipe=recipe,
        seed=run.seed,
        accumulate=accumulate,
        memory_format=setup.memory_format,
        average=setup.average,
    )


def _colour_level(data: DataSet) -> tuple[float, ...]:
    """Returns the size of one of 255 levels of colour in normalised images, per channel."""
    return tuple(1 / (COLOUR_LEVELS * std) for std in data.std)
