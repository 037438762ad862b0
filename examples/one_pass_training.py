"""Co-Mixup at the price of one pass, with TrivialAugment.

In a plain loop, in a loader's workers, in Lightning and with Accelerate.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from lightning import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.transforms import v2

import comixup
from comixup.adapters.origins import WithOrigins
from tiny_data import BATCH, CLASSES, draw_shapes, parse_steps, small_net, test_loss

COUNT = 512
MEAN, STD = 0.5, 0.3
"""Of the shapes' pixels."""
AUGMENTATION = v2.Compose(
    [
        v2.RandomCrop(32, padding=4),
        v2.RandomHorizontalFlip(),
        v2.TrivialAugmentWide(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize([MEAN] * 3, [STD] * 3),
    ]
)


def one_pass() -> tuple[comixup.OnePass, WithOrigins]:
    """Returns what mixes, and a data set whose samples tell where their pixels come from."""
    images, targets, _ = draw_shapes(COUNT)
    pixels = ((images * STD + MEAN) * 255).clamp(0, 255).to(torch.uint8)  # as files have them
    shapes = TensorDataset(pixels, targets)
    memory = comixup.SaliencyMemory(num_examples=len(shapes))
    mixup = comixup.OnePass(comixup.CoMixup(num_classes=len(CLASSES)), memory)
    return mixup, WithOrigins(shapes, memory, AUGMENTATION)


def train(epochs: int) -> tuple[float, float]:
    """Returns the test loss before and after training: four lines are one-pass mixing's."""
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    before = test_loss(model)
    mixup, shapes = one_pass()
    for _ in range(epochs):
        for images, targets, origin in DataLoader(shapes, BATCH, shuffle=True):
            optimizer.zero_grad()
            mixed, soft_targets = mixup(images, targets, origin)
            F.cross_entropy(model(mixed), soft_targets).backward()
            optimizer.step()
        mixup.end_epoch()  # what the clean batches' gradients showed is read from now on
    return before, test_loss(model)


def train_with_workers(epochs: int, workers: int = 2) -> tuple[float, float]:
    """Returns the same where the loader's workers mix and the training process only trains."""
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    before = test_loss(model)
    mixup, shapes = one_pass()
    collate = comixup.OnePassCollate(mixup)
    loader = DataLoader(shapes, BATCH, shuffle=True, collate_fn=collate, num_workers=workers)
    for _ in range(epochs):
        for images, targets, origin in loader:
            optimizer.zero_grad()
            tracked = mixup.track(images, origin)  # a mixed batch has no origin and needs none
            F.cross_entropy(model(tracked), targets).backward()
            optimizer.step()
        mixup.end_epoch()
    return before, test_loss(model)


class Shapes(LightningModule):
    """One-pass mixing in Lightning, with its automatic optimization."""

    def __init__(self, mixup: comixup.OnePass) -> None:
        super().__init__()
        self.model: nn.Module = small_net()
        self.mixup = mixup

    def training_step(self, batch: tuple[Tensor, Tensor, comixup.Origin], batch_idx: int) -> Tensor:
        """Returns the loss of a batch, mixed or clean."""
        images, targets = self.mixup(*batch)
        return F.cross_entropy(self.model(images), targets)

    def on_train_epoch_end(self) -> None:
        """Lets the maps of this epoch be read from now on."""
        self.mixup.end_epoch()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns what Lightning steps."""
        return torch.optim.AdamW(self.model.parameters(), lr=5e-3)


def train_lightning(epochs: int) -> tuple[float, float]:
    """Returns the test loss before and after training with Lightning."""
    mixup, shapes = one_pass()
    module = Shapes(mixup)
    before = test_loss(module.model)
    trainer = Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(shapes, BATCH, shuffle=True))
    return before, test_loss(module.model)


def train_accelerate(epochs: int) -> tuple[float, float]:
    """Returns the test loss before and after training with Accelerate."""
    accelerator = Accelerator(cpu=True)
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    before = test_loss(model)
    mixup, shapes = one_pass()
    model, optimizer, loader = accelerator.prepare(
        model, optimizer, DataLoader(shapes, BATCH, shuffle=True)
    )
    for _ in range(epochs):
        for images, targets, origin in loader:
            optimizer.zero_grad()
            mixed, soft_targets = mixup(images, targets, origin)
            accelerator.backward(F.cross_entropy(model(mixed), soft_targets))
            optimizer.step()
        mixup.end_epoch()  # in every process
    return before, test_loss(accelerator.unwrap_model(model))


def main(steps: int = 60) -> dict[str, tuple[float, float]]:
    """Trains in each way; returns the test loss before and after for each."""
    torch.manual_seed(0)
    epochs = max(1, steps * BATCH // COUNT)
    results = {
        "plain loop": train(epochs),
        "mixed by workers": train_with_workers(epochs),
        "Lightning": train_lightning(epochs),
        "Accelerate": train_accelerate(epochs),
    }
    for name, (before, after) in results.items():
        print(f"{name}: test loss {before:.2f} -> {after:.2f} after {epochs} epochs")
    return results


if __name__ == "__main__":
    main(parse_steps(__doc__))
