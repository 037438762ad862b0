"""Co-Mixup in a plain PyTorch loop, without and with mixed precision."""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F

import comixup
from tiny_data import CLASSES, check_changed, parse_steps, small_net, test_loss, train_loader


def train(steps: int) -> tuple[float, float]:
    """Returns the test loss before and after training: four lines are Co-Mixup's."""
    model = small_net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    before = test_loss(model)

    mixup = comixup.CoMixup(num_classes=len(CLASSES))
    batches = itertools.chain.from_iterable(itertools.repeat(train_loader()))
    for images, targets in itertools.islice(batches, steps):
        optimizer.zero_grad()  # before the saliency, which leaves the clean gradient in place
        saliency = mixup.saliency(model, images, targets)
        mixed, soft_targets = mixup(images, targets, saliency)
        loss = F.cross_entropy(model(mixed), soft_targets)
        loss.backward()
        optimizer.step()
        check_changed(images, targets, mixup.last.plan, soft_targets)  # an example looks
    return before, test_loss(model)


def train_mixed_precision(steps: int, device: str = "cpu") -> tuple[float, float]:
    """Returns the same with autocast and a GradScaler, by the one call that every method shares."""
    model = small_net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    before = test_loss(model)

    mixup = comixup.CoMixup(num_classes=len(CLASSES))
    scaler = torch.amp.GradScaler(device)

    def backward(loss: torch.Tensor) -> None:  # both passes must carry the same scale
        scaler.scale(loss).backward()

    batches = itertools.chain.from_iterable(itertools.repeat(train_loader()))
    for images, targets in itertools.islice(batches, steps):
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16 if device == "cpu" else torch.float16):
            step = comixup.training_step(
                model, mixup, images.to(device), targets.to(device), backward=backward
            )
        backward(step.loss)
        scaler.step(optimizer)
        scaler.update()
        check_changed(images, targets, mixup.last.plan, step.targets.cpu())
    return before, test_loss(model)


def main(steps: int = 60) -> dict[str, tuple[float, float]]:
    """Trains both ways; returns the test loss before and after for each."""
    torch.manual_seed(0)
    results = {"float32": train(steps), "mixed precision": train_mixed_precision(steps)}
    for name, (before, after) in results.items():
        print(f"{name}: test loss {before:.2f} -> {after:.2f} after {steps} steps")
    return results


if __name__ == "__main__":
    main(parse_steps(__doc__))
