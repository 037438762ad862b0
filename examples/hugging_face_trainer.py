"""Co-Mixup in Hugging Face's Trainer: `compute_loss` is all that is overridden.

A tiny ResNet, built from a configuration: nothing is downloaded.
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    ResNetConfig,
    ResNetForImageClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import comixup
from tiny_data import BATCH, CLASSES, check_changed, draw_shapes, parse_steps


def cross_entropy(outputs: Any, targets: Tensor) -> Tensor:
    """Returns the loss of soft targets. The model's own would take float labels for multi-label."""
    return F.cross_entropy(outputs.logits, targets)


class CoMixupTrainer(Trainer):
    """A Trainer whose training batches are mixed; evaluation is as ever."""

    def __init__(self, mixup: comixup.Mixer | comixup.OnePass, **settings: Any) -> None:
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


class OnePassTrainer(CoMixupTrainer):
    """The same with one pass per step. Examples have "indices", which no model takes."""

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any
    ) -> Any:
        """Returns the loss of the batch, mixed or clean, while training."""
        indices = inputs.pop("indices", None)
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, **kwargs)
        step = comixup.training_step(
            model,
            self.mixup,
            inputs["pixel_values"],
            inputs["labels"],
            origin=comixup.Origin(indices),
            loss_fn=cross_entropy,
        )
        return (step.loss, step.outputs) if return_outputs else step.loss


class EndEpoch(TrainerCallback):
    """Lets the maps of an epoch be read from now on."""

    def __init__(self, mixup: comixup.OnePass) -> None:
        self.mixup = mixup

    def on_epoch_end(self, *arguments: Any, **kwargs: Any) -> None:
        """Called by the Trainer, in every process."""
        self.mixup.end_epoch()


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


def train(
    trainer_of: type[CoMixupTrainer], mixup: comixup.Mixer | comixup.OnePass, **settings: Any
) -> tuple[float, float]:
    """Trains; returns the test loss before and after."""
    torch.manual_seed(0)
    examples = data_set(512)
    if isinstance(mixup, comixup.OnePass):
        examples = [x | {"indices": torch.tensor(k)} for k, x in enumerate(examples)]
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(
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
                remove_unused_columns=False,  # "indices" are no argument of the model's
                **settings,
            ),
            train_dataset=examples,
            eval_dataset=data_set(128, seed=1),
            callbacks=[EndEpoch(mixup)] if isinstance(mixup, comixup.OnePass) else None,
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
        "two passes": train(CoMixupTrainer, mixup, max_steps=steps),
        "one pass": train(OnePassTrainer, one_pass, max_steps=steps),
    }
    for name, (before, after) in results.items():
        print(f"{name}: test loss {before:.2f} -> {after:.2f} after {steps} steps")
    return results


if __name__ == "__main__":
    main(parse_steps(__doc__))
