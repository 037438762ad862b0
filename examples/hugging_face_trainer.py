"""Co-Mixup in Hugging Face's Trainer: `compute_loss` is all that is overridden.

A tiny ResNet, built from a configuration: nothing is downloaded.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import ResNetConfig, ResNetForImageClassification, Trainer, TrainingArguments

import comixup
from tiny_data import BATCH, CLASSES, check_changed, draw_shapes, parse_steps


def cross_entropy(outputs: Any, targets: Tensor) -> Tensor:
    """Returns the loss of soft targets. The model's own would take float labels for multi-label."""
    return F.cross_entropy(outputs.logits, targets)


class CoMixupTrainer(Trainer):
    """A Trainer whose training batches are mixed; evaluation is as ever."""

    def __init__(self, mixup: comixup.Mixer, **settings: Any) -> None:
        super().__init__(**settings)
        self.mixup = mixup
        # Trainer is to divide the loss by gradient_accumulation_steps, as `clean_backward` does.
        self.model_accepts_loss_kwargs = False

    def clean_backward(self, loss: Tensor) -> None:
        """Runs the clean loss's backward pass, scaled as Trainer will scale the mixed one's."""
        self.accelerator.backward(loss / self.current_gradient_accumulation_steps)

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any
    ) -> Any:
        """Returns the loss of the mixed batch while training, else that of the batch as it is."""
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, **kwargs)
        images, labels = inputs["pixel_values"], inputs["labels"]
        # `labels` are not given to the model: it would see floats and choose BCE.
        step = comixup.training_step(
            model, self.mixup, images, labels, loss_fn=cross_entropy, backward=self.clean_backward
        )
        check_changed(images, labels, self.mixup.last.plan, step.targets)
        return (step.loss, step.outputs) if return_outputs else step.loss


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


def main(steps: int = 60, accumulate: int = 1) -> tuple[float, float]:
    """Trains; returns the test loss before and after."""
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=accumulate,
            learning_rate=5e-3,
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = CoMixupTrainer(
            mixup=comixup.CoMixup(num_classes=len(CLASSES)),
            model=tiny_resnet(),
            args=settings,
            train_dataset=data_set(512),
            eval_dataset=data_set(128, seed=1),
        )
        before = trainer.evaluate()["eval_loss"]
        trainer.train()
        after = trainer.evaluate()["eval_loss"]
    print(f"test loss {before:.2f} -> {after:.2f} after {steps} steps")
    return before, after


if __name__ == "__main__":
    main(parse_steps(__doc__))
