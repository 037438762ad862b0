"""From a recipe to its optimiser."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from comixup.lab.training._recipe import Recipe


def make_optimizer(recipe: Recipe, model: nn.Module) -> torch.optim.Optimizer:
    """Returns the recipe's optimiser; biases and normalisation apart where they do not decay."""
    weights = [p for p in model.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [{"params": weights}]
    if not recipe.decay_norms:
        groups = [
            {"params": [p for p in weights if p.ndim > 1]},
            {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
        ]
    lr, decay = recipe.lr_at(0), recipe.weight_decay
    if recipe.optimizer == "adam":
        return torch.optim.Adam(groups, lr=lr, weight_decay=decay)
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=lr, weight_decay=decay)
    return torch.optim.SGD(
        groups, lr=lr, momentum=recipe.momentum, nesterov=recipe.nesterov, weight_decay=decay
    )
