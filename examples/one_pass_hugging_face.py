"""One-pass Co-Mixup with Hugging Face: datasets.with_transform and the Trainer.

Lines that one-pass mixing adds end in "# one pass"; those that it changes follow the line they
were, behind "# was:".
"""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from datasets import Dataset
from torchvision import transforms
from transformers import Trainer, TrainingArguments

import comixup
from comixup.adapters.hugging_face import MixesBatches, OriginTransform
from hugging_face_trainer import tiny_resnet
from tiny_data import Photographs, parse_steps


class MixupTrainer(MixesBatches, Trainer):
    """A Trainer that mixes."""


def main(steps: int = 20) -> list[float]:
    """Trains on photographs; returns the loss of every step."""
    torch.manual_seed(0)
    augmentation = transforms.Compose(
        [
            transforms.RandomResizedCrop(48),
            transforms.RandomHorizontalFlip(),
            transforms.TrivialAugmentWide(),
            transforms.ToTensor(),
        ]
    )

    def plain(examples: dict[str, Any]) -> dict[str, Any]:
        """Returns a batch of augmented examples."""
        images = [augmentation(image.convert("RGB")) for image in examples["image"]]
        return {"pixel_values": images, "label": examples["label"]}

    views = Photographs()
    dataset = Dataset.from_dict(
        {"image": views.views, "label": [label for _, label in views]},
    )
    memory = comixup.SaliencyMemory(len(dataset))  # one pass
    mixup = comixup.OnePass(comixup.CoMixup(num_classes=4), memory)  # one pass
    dataset = dataset.add_column("index", list(range(len(dataset))))  # one pass
    # was: dataset = dataset.with_transform(plain)
    dataset = dataset.with_transform(OriginTransform(augmentation, memory))
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=16,
            learning_rate=5e-3,
            logging_steps=1,
            remove_unused_columns=False,  # else the Trainer drops "image" before the transform
            use_cpu=True,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        # was: trainer = Trainer(tiny_resnet(), settings, train_dataset=dataset)
        trainer = MixupTrainer(tiny_resnet(), settings, train_dataset=dataset, mixup=mixup)
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f} after {len(losses)} steps")
    return losses


if __name__ == "__main__":
    main(parse_steps(__doc__, 20))
