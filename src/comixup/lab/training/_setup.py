"""Sets up a run: network with initial weights, optimizer, averaged weights."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from comixup.lab import models
from comixup.lab._networks import check_fit
from comixup.lab._preprocess import Shape
from comixup.lab._seeds import Purpose, seed_for
from comixup.lab.data import DataSet
from comixup.lab.models import Preprocessing
from comixup.lab.models._libraries import import_library
from comixup.lab.models._load import freeze, head_name, load_matching
from comixup.lab.training._mixers import passes_per_image
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._run import Run

LR_FACTOR = "lr_factor"
"""Key of a parameter group: its learning rate, relative to the recipe's."""


def preprocessing_of(data: DataSet, image_size: int | None = None) -> Preprocessing:
    """Returns the preprocessing of a data set's unaugmented images.

    Args:
        data: the data set.
        image_size: pixels per side, see `Split.loader`; None means the set's own.
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
    """Returns the recipe fields, model and width, for the network of a weights file.

    Empty if the file does not name its network.
    """
    header = models.read_header(weights)
    return {} if header.model is None else {"model": header.model, "width": header.width}


def build_network(run: Run, data: DataSet, *, begun: bool = False) -> tuple[nn.Module, list[str]]:
    """Returns a run's network with its initial weights, and the names of those not in their file.

    For a run with a checkpoint (`begun`), initial weights are not loaded.
    """
    recipe, new = run.trained, []
    torch.manual_seed(seed_for(run.seed, Purpose.INITIAL_WEIGHTS))
    # For the final image size, which determines the stride of comixup's stems.
    model = models.build(
        recipe.model,
        data.num_classes,
        shape=shape_of(data, run.final_image_size),
        width=recipe.width,
        pretrained=recipe.pretrained and not begun,
    )
    for side in {phase.image_size for phase in recipe.phases}:
        check_fit(model, recipe.model, shape_of(data, side), data.num_classes)
    if recipe.weights and not begun:
        new = load_matching(model, recipe.weights, data.num_classes)
    freeze(model, recipe.freeze, data.num_classes)
    return model, list(new)


def with_sync_batch_norm(model: nn.Module, run: Run, fabric: Fabric) -> nn.Module:
    """Returns a run's network with statistics of batch norm over the images of all processes.

    Each pass waits for the others', so every process has to make the same passes.
    """
    if fabric.world_size == 1 or run.recipe.freeze != "none":  # one batch; or no batch's statistics
        return model
    if fabric.device.type == "cpu":
        raise ValueError(
            "`sync_batch_norm` must be left out on CPUs, got it with "
            f"{fabric.world_size} processes: torch.nn.SyncBatchNorm computes on GPUs alone. Leave "
            "--sync-batch-norm out, or choose GPUs with --accelerator cuda."
        )
    passes, annealed = passes_per_image(run.chosen), run.chosen.schedule.get("annealed", False)
    if passes % 1 or (annealed and passes > 1):
        raise ValueError(
            "`sync_batch_norm` must be left out for a method of which some batches take a pass "
            f"more than others, got {run.method}: each process draws for itself, and would wait "
            "for passes that the others do not make. Mix every batch (p=1, --schedule constant), "
            "by methods that take alike."
        )
    convert: Callable[[nn.Module], nn.Module] = nn.SyncBatchNorm.convert_sync_batchnorm
    if any(type(module).__module__.startswith("timm.") for module in model.modules()):
        # torch's would drop the activation that some of timm's batch norms have in them.
        convert = import_library("timm").layers.convert_sync_batchnorm
    return convert(model)


def make_optimizer(recipe: Recipe, model: nn.Module, num_classes: int) -> torch.optim.Optimizer:
    """Returns the recipe's optimizer.

    Biases and normalization layers are a separate group if they do not decay; so is the last layer
    if it has another learning rate: `LR_FACTOR` times the recipe's.
    """
    head = head_name(model, num_classes) if recipe.head_lr != 1 else ""
    chosen: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            factor = recipe.head_lr if name.startswith(f"{head}.") else 1.0
            decays = recipe.decay_norms or weight.ndim > 1
            chosen.setdefault((factor, decays), []).append(weight)
    groups: list[dict[str, Any]] = [
        {"params": weights, LR_FACTOR: factor, **({} if decays else {"weight_decay": 0.0})}
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


class WeightAverage:
    """Exponential moving average of a network's weights and buffers over optimizer steps.

    `torch.optim.swa_utils.AveragedModel` would average counters too, and has no warm-up.

    Args:
        trained: the network, without hooks, which would be copied.
        decay: decay after the warm-up, in [0, 1).

    Attributes:
        model: a copy of the network with the averages, in float32 at least: in half precision, a
            decay near 1 would round every step away.
        steps: number of averaged steps.
    """

    def __init__(self, trained: nn.Module, decay: float) -> None:
        self._trained, self._decay = trained, decay
        dtype = torch.promote_types(next(trained.parameters()).dtype, torch.float32)
        self.model = copy.deepcopy(trained).to(dtype).requires_grad_(False)
        self.steps = 0

    @property
    def decay(self) -> float:
        """The decay of the next step, (1 + steps) / (10 + steps) at first.

        So the initial weights lose their weight soon, also in runs of a few hundred steps.
        """
        return min(self._decay, (1 + self.steps) / (10 + self.steps))

    @torch.no_grad()
    def update(self) -> None:
        """Updates the averages after an optimizer step; integers are copied."""
        averages: list[Tensor] = []
        current: list[Tensor] = []
        networks = (self.model, self._trained)
        tensors = (itertools.chain(model.parameters(), model.buffers()) for model in networks)
        for average, tensor in zip(*tensors, strict=True):
            if average.is_floating_point():
                averages.append(average)
                current.append(tensor.detach().to(average.dtype))
            else:
                average.copy_(tensor)
        update = get_ema_multi_avg_fn(self.decay)  # type: ignore[no-untyped-call]
        update(averages, current, self.steps)
        self.steps += 1
