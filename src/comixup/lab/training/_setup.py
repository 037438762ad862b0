"""What a run trains: network, mixer, optimiser and batches, built and restored from a state."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from comixup import Mixer
from comixup._passes import unwrapped
from comixup.lab import models
from comixup.lab._networks import check_fit, load_weights, memory_format
from comixup.lab._preprocess import Shape
from comixup.lab._seeds import Purpose, seed_for
from comixup.lab.data import DataSet, Loader, Split
from comixup.lab.models import Preprocessing
from comixup.lab.training._folder import State, load_optimizer
from comixup.lab.training._mixers import make_method
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._run import Run

if TYPE_CHECKING:
    from comixup._lightning import FabricModule, FabricOptimizer


def preprocessing_of(data: DataSet, image_size: int | None = None) -> Preprocessing:
    """Returns how unaugmented images of a data set become a network's input.

    Args:
        data: the data set.
        image_size: pixels per side, as for `Split.loader`; None means the set's own.
    """
    shape = shape_of(data, image_size)
    resize = data.test.resized_side(shape[1])
    return Preprocessing(
        shape, tuple(data.mean), tuple(data.std), min(shape[1:]) if resize is None else resize
    )


def shape_of(data: DataSet, image_size: int | None = None) -> Shape:
    """Returns (C, H, W) of the images that a data set's loaders yield; see `preprocessing_of`."""
    channels, height, width = data.shape
    return (channels, height, width) if image_size is None else (channels, image_size, image_size)


def network_of(weights: str | Path) -> dict[str, Any]:
    """Returns the changes of a recipe that make its network that of a file: its model and width.

    Args:
        weights: a run's folder or a file of weights. One that does not say what network it is of
            changes nothing.
    """
    header = models.read_header(weights)
    return {} if header.model is None else {"model": header.model, "width": header.width}


EVALUATION_BATCH = 250


@dataclass(frozen=True)
class Loaders:
    """Makes the loaders of a run.

    Attributes:
        run: what is trained.
        data: what it is trained on.
        rank: of this process.
        world_size: number of processes.
        device: where batches are wanted.
        workers: processes that read images from disk.
    """

    run: Run
    data: DataSet
    rank: int
    world_size: int
    device: torch.device
    workers: int

    def training(self, epoch: int) -> Loader:
        """Returns this process's shares of an epoch's batches, augmented."""
        phase = self.run.trained.phase_at(epoch)
        return self.data.train.loader(
            phase.batch_size,
            seed=self.run.seed,
            augment=self.run.trained.augment,
            image_size=phase.image_size,
            min_scale=phase.min_scale,
            rank=self.rank,
            world_size=self.world_size,
            device=self.device,
            workers=self.workers,
        )

    def evaluation(self, split: Split) -> Loader:
        """Returns this process's shares of the batches of a split."""
        return self._unaugmented(split, self.rank, self.world_size)

    def whole(self, split: Split) -> Loader:
        """Returns the whole batches of a split, for a process that evaluates alone."""
        return self._unaugmented(split, 0, 1)

    def _unaugmented(self, split: Split, rank: int, world_size: int) -> Loader:
        return split.loader(
            EVALUATION_BATCH,
            image_size=self.run.final_image_size,
            rank=rank,
            world_size=world_size,
            device=self.device,
            workers=self.workers,
        )


_FACTOR = "lr_factor"
"""Of a group of weights: its learning rate as a multiple of the recipe's."""


def make_optimizer(recipe: Recipe, model: nn.Module, head: str = "") -> torch.optim.Optimizer:
    """Returns the recipe's optimiser.

    Biases and normalisation are a group of their own where they do not decay, and the last layer
    where it has another learning rate: `set_lr` gives it that.

    Args:
        recipe: says all of it.
        model: the network.
        head: name of its last layer, for which a recipe may have another learning rate.
    """
    chosen: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            factor = recipe.head_lr if name.startswith(f"{head}.") else 1.0
            decays = recipe.decay_norms or weight.ndim > 1
            chosen.setdefault((factor, decays), []).append(weight)
    groups: list[dict[str, Any]] = [
        {"params": weights, _FACTOR: factor, **({} if decays else {"weight_decay": 0.0})}
        for (factor, decays), weights in chosen.items()
    ]
    lr, decay = recipe.lr_at(0), recipe.weight_decay
    if recipe.optimizer == "adam":
        return torch.optim.Adam(groups, lr=lr, weight_decay=decay)
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=lr, weight_decay=decay)
    return torch.optim.SGD(
        groups, lr=lr, momentum=recipe.momentum, nesterov=recipe.nesterov, weight_decay=decay
    )


def set_lr(optimizer: torch.optim.Optimizer | FabricOptimizer, lr: float) -> None:
    """Sets the learning rate of an optimiser; groups may have a multiple of it."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get(_FACTOR, 1.0)


class WeightAverage:
    """A network's weights and buffers, averaged over the steps of its optimiser.

    `torch.optim.swa_utils.AveragedModel` would average counts too, and has no warm-up.

    Args:
        trained: the network; it has no hooks yet, which the copy would have too.
        decay: weight of the average in the next one, in [0, 1), once the warm-up is over.

    Attributes:
        model: a copy of the network with the averages. Their type is float32 at least: in half
            precision, a decay near 1 would round every step away.
        steps: how many were averaged.
    """

    def __init__(self, trained: nn.Module, decay: float) -> None:
        self._trained, self._decay = trained, decay
        dtype = torch.promote_types(next(trained.parameters()).dtype, torch.float32)
        self.model = copy.deepcopy(trained).to(dtype).requires_grad_(False)
        self.steps = 0

    @property
    def decay(self) -> float:
        """The decay of the next step, (1 + steps) / (10 + steps) at first.

        The initial weights are soon forgotten, also where a run has a few hundred steps.
        """
        return min(self._decay, (1 + self.steps) / (10 + self.steps))

    @torch.no_grad()
    def update(self) -> None:
        """Averages in what the optimiser's last step made; integers are copied."""
        averages: list[Tensor] = []
        current: list[Tensor] = []
        pairs = zip(_tensors(self.model), _tensors(self._trained), strict=True)
        for average, tensor in pairs:
            if average.is_floating_point():
                averages.append(average)
                current.append(tensor.detach().to(average.dtype))
            else:
                average.copy_(tensor)
        update = get_ema_multi_avg_fn(self.decay)  # type: ignore[no-untyped-call]
        update(averages, current, self.steps)
        self.steps += 1


def _tensors(model: nn.Module) -> itertools.chain[Tensor]:
    return itertools.chain(model.parameters(), model.buffers())


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
