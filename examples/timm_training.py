"""Co-Mixup in a timm training loop: a timm model, optimizer, scheduler, loss and weight average.

The one changed line is the import of `Mixup`.
"""

from __future__ import annotations

import timm
import torch
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import ModelEmaV3

from comixup.adapters.timm import Mixup  # was: from timm.data import Mixup
from tiny_data import BATCH, CLASSES, SIZE, parse_steps, test_loss, train_loader

BATCHES = 10
"""A short epoch."""


def main(steps: int = 60) -> tuple[float, float]:
    """Trains, the last epoch without mixing; returns the test loss before and after."""
    torch.manual_seed(0)
    epochs = -(-steps // BATCHES)
    mixup_off_epoch = epochs - 1
    model = timm.create_model("test_resnet", num_classes=len(CLASSES))
    optimizer = create_optimizer_v2(model, opt="adamw", lr=3e-3, weight_decay=0.05)
    scheduler, _ = create_scheduler_v2(
        optimizer,
        sched="cosine",
        num_epochs=epochs,
        step_on_epochs=False,
        updates_per_epoch=BATCHES,
    )
    model_ema = ModelEmaV3(model, decay=0.9)
    mixup_fn = Mixup(
        mixup_alpha=0.2, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=len(CLASSES)
    )
    train_loss_fn = SoftTargetCrossEntropy()
    before = test_loss(model)

    loader = train_loader(BATCHES * BATCH)
    for epoch in range(epochs):
        if epoch >= mixup_off_epoch:
            mixup_fn.mixup_enabled = False  # targets stay soft, so the loss stays the same
        for batch, (input_, target) in enumerate(loader):
            update = epoch * BATCHES + batch
            if update == steps:
                break
            # With the model's own saliency. Without this line, and without the third argument
            # below, Co-Mixup looks for what stands out in the images by themselves.
            optimizer.zero_grad()
            saliency = mixup_fn.saliency(model, input_, target, loss_fn=train_loss_fn)
            mixed, soft_target = mixup_fn(input_, target, saliency)

            loss = train_loss_fn(model(mixed), soft_target)
            loss.backward()
            optimizer.step()
            model_ema.update(model, step=update)
            scheduler.step_update(update + 1)

    after = test_loss(model)
    print(f"test loss {before:.2f} -> {after:.2f} after {steps} steps on {SIZE} x {SIZE} pixels")
    print(f"averaged weights: {test_loss(model_ema.module):.2f}")
    return before, after


if __name__ == "__main__":
    main(parse_steps(__doc__))
