"""Co-Mixup in Hugging Face's Trainer: with a pass for saliency per step, and without.

A tiny ResNet, built from a configuration: nothing is downloaded.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import Tensor
from transformers import ResNetConfig, ResNetForImageClassification, Trainer, TrainingArguments

import comixup
from comixup.adapters.hugging_face import MixesBatches
from tiny_data import BATCH, CLASSES, draw_shapes, parse_steps


class MixupTrainer(MixesBatches, Trainer):
    """A Trainer whose training batches are mixed; evaluation is as ever."""


def tiny_resnet() -> ResNetForImageClassification:
    """Returns an untrained network for the shapes."""
    return ResNetForImageClassification(
        ResNetConfig(
            embedding_size=12,
            hidden_sizes=[12, 24],
            depths=[1, 1],
            layer_type="basic",
            num_labels=len(CLASSES),
        )
    )


def data_set(count: int, seed: int = 0) -> list[dict[str, Tensor]]:
    """Returns examples as Trainer takes them: a dictionary each."""
    images, targets, _ = draw_shapes(count, seed)
    return [{"pixel_values": x, "labels": y} for x, y in zip(images, targets, strict=True)]


def train(mixup: comixup.Mixer, **settings: Any) -> tuple[float, float]:
    """Trains; returns the test loss before and after."""
    torch.manual_seed(0)
    examples = data_set(512)
    if mixup.needs_origin:
        examples = [x | {"index": torch.tensor(k)} for k, x in enumerate(examples)]
    with tempfile.TemporaryDirectory() as folder:
        trainer = MixupTrainer(
            mixup=mixup,
            model=tiny_resnet(),
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=BATCH,
                learning_rate=5e-3,
                use_cpu=True,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
                dataloader_pin_memory=False,
                remove_unused_columns=False,  # "index" is no argument of the model's
                **settings,
            ),
            train_dataset=examples,
            eval_dataset=data_set(128, seed=1),
        )
        before: float = trainer.evaluate()["eval_loss"]
        trainer.train()
        after: float = trainer.evaluate()["eval_loss"]
    return before, after


def main(steps: int = 60) -> dict[str, tuple[float, float]]:
    """Trains in both ways; returns the test loss before and after for each."""
    mixup = comixup.CoMixup(num_classes=len(CLASSES))
    one_pass = comixup.OnePass(
        comixup.CoMixup(num_classes=len(CLASSES)), comixup.SaliencyMemory(num_examples=512)
    )
    results = {
        "two passes": train(mixup, max_steps=steps),
        "one pass": train(one_pass, max_steps=steps),
    }
    for name, (before, after) in results.items():
        print(f"{name}: test loss {before:.2f} -> {after:.2f} after {steps} steps")
    return results


if __name__ == "__main__":
    main(parse_steps(__doc__))
