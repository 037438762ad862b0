"""The paper's clean gradient under Lightning's automatic optimization.

Works with `lightning` and with `pytorch_lightning`, and imports neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class KeepCleanGradient:
    """A mixin that keeps the gradient of the clean pass without manual optimization.

    Lightning zeroes the gradients, and with them the clean gradient, between `training_step` and
    the backward pass of its loss. This mixin zeroes them after the optimizer's step instead, which
    changes no other gradient. Clipping, schedulers, precision and `accumulate_grad_batches` work as
    usual.

        class Classifier(KeepCleanGradient, lightning.LightningModule):
            def training_step(self, batch, batch_idx):
                step = comixup.training_step(
                    self.net, self.mixup, *batch, backward=self.clean_backward
                )
                return step.loss

    List it before `LightningModule` among the base classes. Supports one optimizer that calls its
    closure once per step (LBFGS calls it several times).
    """

    keeps_clean_gradient = True
    """Checked by the warning about automatic optimization."""

    trainer: Any

    def clean_backward(self, loss: Tensor) -> None:
        """Runs the clean loss's backward pass, scaled as Lightning will scale the mixed one's."""
        trainer = self.trainer
        trainer.strategy.backward(loss / trainer.accumulate_grad_batches, None)

    def optimizer_zero_grad(
        self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer
    ) -> None:
        """Does nothing: it is called between the clean and the mixed backward pass."""

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: Any,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """Steps, then zeroes the gradients for the next batch."""
        super().optimizer_step(  # type: ignore[misc]  # LightningModule's
            epoch, batch_idx, optimizer, optimizer_closure
        )
        optimizer.zero_grad()
