"""Co-Mixup with Hugging Face Accelerate, with gradient accumulation.

On one device: `python examples/accelerate_training.py`; on several: `accelerate launch` it.
"""

from __future__ import annotations

import itertools

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed

import comixup
from tiny_data import CLASSES, check_changed, parse_steps, small_net, test_loss, train_loader


def main(steps: int = 60, accumulate: int = 2) -> tuple[float, float]:
    """Trains; returns the test loss before and after."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    set_seed(0)  # the same weights in every process; data and draws differ by rank below
    model = small_net()
    before = test_loss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, train_loader())

    generator = torch.Generator().manual_seed(accelerator.process_index)
    mixup = comixup.CoMixup(num_classes=len(CLASSES), generator=generator)
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for images, targets in itertools.islice(batches, steps * accumulate):
        with accelerator.accumulate(model):
            step = comixup.training_step(
                model, mixup, images, targets, backward=accelerator.backward
            )
            accelerator.backward(step.loss)
            optimizer.step()
            # Last, not first: while it accumulates Accelerate skips this call, and at the start of
            # the step that is not skipped it would wipe what the steps before have gathered.
            optimizer.zero_grad()
            check_changed(images, targets, mixup.last.plan, step.targets)

    after = test_loss(accelerator.unwrap_model(model))
    accelerator.print(f"test loss {before:.2f} -> {after:.2f} after {steps} steps")
    return before, after


if __name__ == "__main__":
    main(parse_steps(__doc__))
