"""One-pass Co-Mixup with timm: create_loader, its prefetcher and erasing, and a TrainingTask.

Lines that one-pass mixing adds end in "# one pass"; those that it changes follow the line they
were, behind "# was:".
"""

from __future__ import annotations

import timm
import torch
from timm.data import create_loader
from timm.optim import create_optimizer_v2
from timm.task import ClassificationTask

import comixup
from comixup.adapters.origins import WithOrigins
from comixup.adapters.timm import OriginLoader
from tiny_data import Photographs, parse_steps


def main(steps: int = 20) -> list[float]:
    """Trains on photographs; returns the loss of every step."""
    torch.manual_seed(0)
    device = torch.device("cpu")
    dataset = Photographs()
    mixup = comixup.OnePass(comixup.CoMixup(4), comixup.SaliencyMemory(len(dataset)))  # one pass
    dataset = WithOrigins(dataset, mixup.memory)  # one pass
    loader = create_loader(
        dataset,
        input_size=48,
        batch_size=16,
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1-mmax9",  # Pillow 13 stops at magnitude 10
        re_prob=0.25,
        re_mode="pixel",
        num_workers=0,
        device=device,
    )
    loader = OriginLoader(loader)  # one pass
    model = timm.create_model("test_resnet", num_classes=4)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=3e-3)
    task = ClassificationTask(model, torch.nn.CrossEntropyLoss(), device=device, verbose=False)
    losses: list[float] = []
    while len(losses) < steps:
        for batch in loader:
            # was: input_, target = batch
            input_, target = mixup(*batch)
            optimizer.zero_grad()
            loss = task(input_, target)["loss"]
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        mixup.end_epoch()  # one pass
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f} after {len(losses)} steps")
    return losses


if __name__ == "__main__":
    main(parse_steps(__doc__, 20))
