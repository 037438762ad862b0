"""From a recipe to its optimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from comixup.lab.training._recipe import Recipe

if TYPE_CHECKING:
    from comixup._lightning import FabricOptimizer

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
