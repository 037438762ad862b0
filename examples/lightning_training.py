"""Co-Mixup in Lightning: with the clean gradient, by a mixin or by hand, and without it."""

from __future__ import annotations

from typing import Any

import lightning
import torch
from torch import Tensor

import comixup
from comixup.adapters.lightning import KeepCleanGradient
from tiny_data import CLASSES, check_changed, parse_steps, small_net, test_loss, train_loader


class CoMixupClassifier(KeepCleanGradient, lightning.LightningModule):
    """The paper's way: the gradient of the clean batch is added to that of the mixed one."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()
        self.mixup = comixup.CoMixup(num_classes=len(CLASSES))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Returns the loss of the mixed batch; Lightning does the rest."""
        step = comixup.training_step(self.net, self.mixup, *batch, backward=self.clean_backward)
        check_changed(*batch, self.mixup.last.plan, step.targets)
        self.log("mixed_loss", step.mixed_loss, prog_bar=True)
        return step.loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=5e-3)


class ManualClassifier(lightning.LightningModule):
    """The same by manual optimization."""

    def __init__(self) -> None:
        super().__init__()
        # Automatic optimization zeroes the gradients after training_step has returned its loss,
        # and would throw away what the pass over the clean batch left there.
        self.automatic_optimization = False
        self.net = small_net()
        self.mixup = comixup.CoMixup(num_classes=len(CLASSES))

    def training_step(self, batch: Any, batch_idx: int) -> None:
        """Runs both backward passes and the optimizer."""
        optimizer = self.optimizers()
        optimizer.zero_grad()
        step = comixup.training_step(self.net, self.mixup, *batch, backward=self.manual_backward)
        self.manual_backward(step.loss)
        optimizer.step()
        check_changed(*batch, self.mixup.last.plan, step.targets)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=5e-3)


class MixedOnlyClassifier(lightning.LightningModule):
    """The cheap way: clean images show where to look, and are not trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()
        self.mixup = comixup.CoMixup(num_classes=len(CLASSES), keep_gradients=False)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """Returns the loss of the mixed batch; Lightning does the rest."""
        step = comixup.training_step(self.net, self.mixup, *batch)
        check_changed(*batch, self.mixup.last.plan, step.targets)
        return step.loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=5e-3)


def main(steps: int = 60) -> dict[str, tuple[float, float]]:
    """Trains each way; returns the test loss before and after for each."""
    results = {}
    for kind in (CoMixupClassifier, ManualClassifier, MixedOnlyClassifier):
        torch.manual_seed(0)
        module = kind()
        before = test_loss(module.net)
        trainer = lightning.Trainer(
            max_steps=steps,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_model_summary=False,
        )
        trainer.fit(module, train_loader())
        results[kind.__name__] = before, test_loss(module.net)
    for name, (before, after) in results.items():
        print(f"{name}: test loss {before:.2f} -> {after:.2f} after {steps} steps")
    return results


if __name__ == "__main__":
    main(parse_steps(__doc__))
