"""Hugging Face `datasets` and `Trainer`: mixing, and origins for one-pass mixing.

Imports neither library before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from comixup import Mixer, Origin, SaliencyMemory, training_step
from comixup._checks import SetOnce
from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import tracked

INDEX, CELLS = "index", "cells"
"""Columns of a batch: which example each image shows, and the cell of each of its pixels."""


class OriginTransform(SetOnce):
    """A transform for `dataset.with_transform` that adds each example's origin.

    The data set has a column "index" (`dataset.add_column("index", range(len(dataset)))`). It
    returns the transformed images as "pixel_values", and "cells".

        dataset = dataset.with_transform(OriginTransform(augmentation, memory))

    Args:
        transform: transform of one image, see `WithOrigins`.
        memory: defines the cells.
        image: the column of PIL images; other columns are unchanged.
        colours_only, moves_pixels: your own transforms, see `WithOrigins`.
    """

    def __init__(
        self,
        transform: Callable[..., Any],
        memory: SaliencyMemory,
        *,
        image: str = "image",
        colours_only: Sequence[Any] = (),
        moves_pixels: Sequence[Any] = (),
    ) -> None:
        self.image, self._grid = image, memory.grid
        self._tracked = tracked(transform, colours_only=colours_only, moves_pixels=moves_pixels)

    def __call__(self, examples: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """Returns a transformed batch of examples, for `with_transform`."""
        missing = {self.image, INDEX} - set(examples)
        if missing:
            raise ValueError(
                f"`examples` must have the columns {self.image!r} and {INDEX!r}, got "
                f"{sorted(examples)}. Use "
                f'dataset.add_column("{INDEX}", range(len(dataset))) before with_transform.'
            )
        others = {name: column for name, column in examples.items() if name != self.image}
        moved = []
        for picture in examples[self.image]:
            picture = picture.convert("RGB")  # noqa: PLW2901
            numbers = CellNumbers.of((picture.height, picture.width), self._grid)
            moved.append(self._tracked(picture, numbers))
        return {
            **others,
            "pixel_values": [pixels for pixels, _ in moved],
            CELLS: [numbers.tensor() for _, numbers in moved],
        }


class MixesBatches:
    """A mixin that mixes a Trainer's training batches; evaluation is unchanged.

    The model is called without labels and the loss is cross-entropy with soft targets: given float
    labels, transformers models compute binary cross-entropy.

        class MixupTrainer(MixesBatches, Trainer):
            pass

        trainer = MixupTrainer(mixup=comixup.CoMixup(num_classes=10), model=model, args=args, ...)

    List it before `Trainer` among the base classes. `OnePass` requires a column "index", and
    "cells" if images are transformed (`OriginTransform`); `end_epoch` is called for you.

    Args:
        mixup: any method of comixup that mixes images.
        settings: arguments of the Trainer.
    """

    def __init__(self, *arguments: Any, mixup: Mixer, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        me: Any = self
        if mixup.needs_origin and me.args.remove_unused_columns:
            raise ValueError(
                "`args` must have remove_unused_columns=False, got True: the Trainer would drop "
                f'"{INDEX}" and "{CELLS}", which the model does not take. Use '
                "TrainingArguments(..., remove_unused_columns=False)."
            )
        self.mixup = mixup
        # So that the Trainer divides the loss by gradient_accumulation_steps, as `_backward` does.
        self.model_accepts_loss_kwargs = False
        if mixup.needs_origin:
            me.add_callback(_end_epoch_callback(mixup))

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, **kwargs: Any
    ) -> Any:
        """Returns the loss of the mixed batch in training, of the unmixed batch otherwise."""
        indices, cells = inputs.pop(INDEX, None), inputs.pop(CELLS, None)
        if not model.training:
            parent: Any = super()
            return parent.compute_loss(model, inputs, return_outputs, **kwargs)
        if self.mixup.needs_origin and indices is None:
            raise ValueError(
                f'`train_dataset` must have a column "{INDEX}" for one-pass mixing, got '
                f'{sorted(inputs)}. Use dataset.add_column("{INDEX}", range(len(dataset))).'
            )
        step = training_step(
            model,
            self.mixup,
            inputs["pixel_values"],
            inputs["labels"],
            origin=None if indices is None else Origin(indices, cells),
            loss_fn=_cross_entropy,
            backward=self._backward,
        )
        return (step.loss, step.outputs) if return_outputs else step.loss

    def _backward(self, loss: Tensor) -> None:
        """Runs the clean loss's backward pass, scaled as the Trainer will scale the mixed one's."""
        me: Any = self
        me.accelerator.backward(loss / me.current_gradient_accumulation_steps)


def _cross_entropy(outputs: Any, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs.logits, targets)


def _end_epoch_callback(mixup: Any) -> Any:
    """Returns a callback that calls `end_epoch` after every epoch."""
    from transformers import TrainerCallback  # noqa: PLC0415

    class EndEpoch(TrainerCallback):
        def on_epoch_end(self, *arguments: Any, **kwargs: Any) -> None:
            mixup.end_epoch()

    return EndEpoch()
