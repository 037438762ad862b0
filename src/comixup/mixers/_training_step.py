"""One step of training, the same for every method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from comixup._passes import check_can_record, recordable
from comixup.core.memory import Origin
from comixup.core.saliency import Backward, LossFn, loss_of
from comixup.core.tensors import check_model
from comixup.mixers._hooks import check_and_cancel, layer_hooks
from comixup.mixers._mixer import Mixer

_ARGUMENTS = "model, mixer, images, targets"


@dataclass(frozen=True, eq=False)
class Step:
    """The result of a training step, before its backward pass.

    Attributes:
        loss: loss of the mixed batch times its weight (`Mixer.mixed_weight`), to call `.backward()`
            on.
        outputs: the model's outputs for the mixed batch.
        targets: the mixed batch's targets.
        mixed_loss: unweighted loss of the mixed batch, detached, for logging.
        clean_loss: unweighted loss of the clean batch, detached; None without a clean pass. If the
            method keeps gradients, its weighted gradient is already in the weights' `.grad`.
        clean_outputs: the model's outputs for the clean batch, or None: use them for the training
            accuracy.
    """

    loss: Tensor
    outputs: Any
    targets: Tensor
    mixed_loss: Tensor
    clean_loss: Tensor | None = None
    clean_outputs: Any = None


def training_step(
    model: nn.Module,
    mixer: Mixer | None,
    images: Tensor,
    targets: Tensor,
    *,
    origin: Origin | Tensor | None = None,
    loss_fn: LossFn | None = None,
    clean_loss_fn: LossFn | None = None,
    backward: Backward | None = None,
) -> Step:
    """Returns the loss of a mixed batch, after a clean pass if the method needs one.

    Zero the gradients before this call, not after: methods that keep the clean gradient add it to
    `.grad`. Then run the backward pass of `.loss`.

    Args:
        model: in training mode; wrapped, compiled or neither.
        mixer: any of this package's methods; None trains on the unmixed batch.
        images: (m, C, *size).
        targets: (m,) class indices, or (m, classes) class probabilities.
        origin: where the images come from, for `OnePass`.
        loss_fn: scalar loss of (outputs, soft targets); None means `cross_entropy`.
        clean_loss_fn: scalar loss of (outputs, targets) for the clean batch; None means `loss_fn`.
            `OnePass` passes it soft targets.
        backward: your own backward pass, the one you also call with `.loss`: a GradScaler's,
            Fabric's, Accelerate's; None means `loss.backward()`.

    >>> import torch
    >>> from comixup import CoMixup
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(192, 10))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> optimizer.zero_grad()
    >>> step = training_step(model, CoMixup(10), torch.rand(8, 3, 8, 8), torch.arange(8))
    >>> step.loss.backward()
    >>> optimizer.step()
    """
    check_model(model, _ARGUMENTS, (Mixer,))
    if not isinstance(mixer, Mixer | None):
        raise TypeError(
            f"`mixer` must be a mixer of comixup, or None, got {type(mixer).__name__}. The "
            f"arguments are ({_ARGUMENTS})."
        )
    check_can_record("training_step")
    check_and_cancel(layer_hooks(model))  # remove plans of other mixers
    clean, given = None, images
    if mixer is not None:
        mixer.attach(model)
        guide: Any = origin
        takes_turns = mixer.needs_origin
        if not takes_turns:
            guide = None
            mixer.forget_clean_pass()  # a batch that was never mixed
            clean = mixer.run_clean_pass(model, images, targets, clean_loss_fn or loss_fn, backward)
            if clean is not None:
                guide = clean.saliency
        images, targets = mixer(images, targets, guide)
        if takes_turns and mixer.enabled and not mixer.last.mixed:  # the paper's clean batch
            loss_fn = clean_loss_fn or loss_fn
    if images is given:  # models may modify their inputs
        images = images.clone()
    try:
        outputs = model(images)
        loss = loss_of(outputs, recordable(targets), loss_fn)
    except BaseException:
        if mixer is not None:
            mixer.cancel()  # no backward pass follows
        raise
    weight = 1.0 if mixer is None else mixer.mixed_weight
    return Step(
        loss if weight == 1 else loss * weight,
        outputs,
        targets,
        loss.detach(),
        None if clean is None else clean.loss,
        None if clean is None else clean.outputs,
    )
