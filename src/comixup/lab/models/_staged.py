"""What the residual networks share: a stem, stages, a mean over the image and a linear layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from comixup._checks import check_count

MakeBlock = Callable[[int, int, int], nn.Module]
"""Makes a block from its input channels, its output channels and its stride."""

STRIDES = "_extra_state"
"""Key of the strides in a state dict: torch's own name for what is neither weight nor buffer."""


class StagedNetwork(nn.Module):
    """A classifier of images of any size: `stem`, `layer1`, `layer2`, ..., `norm`, `avgpool`, `fc`.

    Its state dict records the strides of its convolutions, so that weights of a network with other
    strides, which have the same shapes, raise `ValueError` instead of giving other answers.

    Args:
        stem: what turns images into the first feature maps.
        stages: become `layer1`, `layer2` and so on, in this order.
        channels: feature maps that the last stage makes.
        num_classes: number of classes.
        norm: what happens to the last stage's output before it is averaged; None for nothing.

    >>> import torch
    >>> stem, stage = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
    >>> model = StagedNetwork(stem, [stage], channels=8, num_classes=5)
    >>> model(torch.rand(2, 1, 28, 28)).shape, model.features(torch.rand(2, 1, 28, 28)).shape
    (torch.Size([2, 5]), torch.Size([2, 8, 24, 24]))
    """

    def __init__(
        self,
        stem: nn.Module,
        stages: Sequence[nn.Module],
        *,
        channels: int,
        num_classes: int,
        norm: nn.Module | None = None,
    ) -> None:
        super().__init__()
        check_count("num_classes", num_classes)
        self.stem = stem
        self.stage_names = tuple(f"layer{k}" for k in range(1, len(stages) + 1))
        for name, stage in zip(self.stage_names, stages, strict=True):
            self.add_module(name, stage)
        self.norm = nn.Identity() if norm is None else norm
        # The official implementation averages over fixed windows: 4 x 4 in its PreActResNet, 8 x 8
        # in its WRN and ResNeXt. At the sizes it is used with, the last maps are just as large, so
        # that its mean is this one; here any other size works too.
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, num_classes)

    def features(self, images: Tensor) -> Tensor:
        """Returns the last feature maps, (batch, channels, *smaller size), before the mean."""
        maps: Tensor = self.stem(images)
        for name in self.stage_names:
            maps = getattr(self, name)(maps)
        maps = self.norm(maps)
        return maps

    def forward(self, images: Tensor) -> Tensor:
        """Returns the logits of the classes, (batch, num_classes)."""
        logits: Tensor = self.fc(self.avgpool(self.features(images)).flatten(1))
        return logits

    def get_extra_state(self) -> Tensor:
        """Returns the strides of all convolutions, (number, 2), in the order of the modules."""
        strides = [module.stride for module in self.modules() if isinstance(module, nn.Conv2d)]
        return torch.tensor(strides, dtype=torch.int64, device="cpu").reshape(-1, 2)

    def set_extra_state(self, state: Any) -> None:
        """Raises `ValueError` unless a state dict is of a network with the strides of this one."""
        own, given = self.get_extra_state().tolist(), torch.as_tensor(state).tolist()
        if own == given:
            return
        pairs = zip(own, given, strict=False)
        number, (here, there) = next(
            ((k, pair) for k, pair in enumerate(pairs) if pair[0] != pair[1]), (0, ("?", "?"))
        )
        raise ValueError(
            "`state_dict` must have the strides of this network, but those of convolution "
            f"{number} are {here} here and {there} there. Build it with the `shape` that it was "
            "trained with, or use comixup.lab.models.load."
        )


def chain(
    make_block: MakeBlock, count: int, inputs: int, outputs: int, stride: int
) -> nn.Sequential:
    """Returns a stage: `count` blocks one after the other, of which the first has the stride."""
    blocks = [make_block(inputs, outputs, stride)]
    blocks += [make_block(outputs, outputs, 1) for _ in range(count - 1)]
    return nn.Sequential(*blocks)
