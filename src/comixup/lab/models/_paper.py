"""The paper's networks: pre-activation and wide ResNets, ResNeXt, a small one, and two for speech.

The residual ones are a `StagedNetwork`: a stem, stages, a mean over the image and a linear layer.
Their functions share arguments: `num_classes`, `in_channels` of the images, and `stem_stride` of
the first convolution, 1 for CIFAR and 2 for Tiny-ImageNet.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

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


def _stages(
    make_block: MakeBlock, blocks: Sequence[int], strides: Sequence[int], inputs: int, outputs: int
) -> tuple[list[nn.Module], int]:
    """Returns stages, each with twice the feature maps of the one before, and those of the last."""
    stages: list[nn.Module] = []
    for count, stride in zip(blocks, strides, strict=True):
        stages.append(chain(make_block, count, inputs, outputs, stride))
        inputs, outputs = outputs, 2 * outputs
    return stages, inputs


# ---- Pre-activation ResNets (He et al., ECCV 2016) -----------------------------------------------


RESNET10_BLOCKS = (1, 1, 1, 1)
RESNET18_BLOCKS = (2, 2, 2, 2)
RESNET34_BLOCKS = (3, 4, 6, 3)
RESNET_STRIDES = (1, 2, 2, 2)
"""Stride of each stage's first block: the first stage keeps the stem's resolution."""


class PreActBlock(nn.Module):
    """Two 3 x 3 convolutions, each after its batch norm and ReLU, added to their input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, maps: Tensor) -> Tensor:
        """Returns the input, projected where its shape changes, plus what the convolutions add."""
        active = F.relu(self.bn1(maps))
        # As in He et al., a projection sees the activated input, the identity the input itself.
        kept: Tensor = maps if self.shortcut is None else self.shortcut(active)
        added: Tensor = self.conv2(F.relu(self.bn2(self.conv1(active))))
        return kept + added


def preact_resnet(
    num_classes: int,
    *,
    blocks: Sequence[int] = RESNET18_BLOCKS,
    strides: Sequence[int] = RESNET_STRIDES,
    width: int = 64,
    in_channels: int = 3,
    stem_stride: int = 1,
    final_norm: bool = False,
) -> StagedNetwork:
    """Returns a pre-activation ResNet, by default the paper's PreActResNet18.

    Args:
        num_classes: number of classes.
        blocks: number of blocks in each stage.
        strides: stride of each stage.
        width: feature maps of the stem and the first stage, which each later stage doubles.
        in_channels: channels of the images.
        stem_stride: stride of the first convolution.
        final_norm: end in batch norm and ReLU, as He et al. do. The official implementation of
            Co-Mixup leaves them out, so the last block's sum is averaged as it is.

    >>> sum(parameter.numel() for parameter in preact_resnet(100).parameters())
    11217316
    """
    stem = nn.Conv2d(in_channels, width, 3, stem_stride, padding=1, bias=False)
    stages, channels = _stages(PreActBlock, blocks, strides, width, width)
    norm = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU()) if final_norm else None
    return StagedNetwork(stem, stages, channels=channels, num_classes=num_classes, norm=norm)


def small(
    num_classes: int,
    *,
    width: int = 32,
    in_channels: int = 3,
    stem_stride: int = 1,
    output_stride: int = 16,
) -> StagedNetwork:
    """Returns a pre-activation ResNet of three blocks that two CPU cores train in minutes.

    Every stage halves the resolution, the first one too: at full resolution a block would cost
    more than all others together. Stages that would give a location of the last feature maps more
    than `output_stride` pixels of the image keep it: with 8, images of 64 x 64 have last feature
    maps of 8 x 8, by which objects can be localized, instead of 4 x 4.
    """
    strides, reached = [], stem_stride
    for _ in range(3):
        strides.append(2 if 2 * reached <= output_stride else 1)
        reached *= strides[-1]
    return preact_resnet(
        num_classes,
        blocks=(1, 1, 1),
        strides=strides,
        width=width,
        in_channels=in_channels,
        stem_stride=stem_stride,
        final_norm=True,
    )


# ---- Wide ResNets (Zagoruyko and Komodakis, BMVC 2016) -------------------------------------------


WIDE_STEM_WIDTH = 16
"""Feature maps of the first convolution, and of the first stage before it is widened."""

OFFICIAL_MOMENTUM = 0.9
"""Of the last batch norm in the official implementation; the others have torch's 0.1. In torch it
is the weight of the new batch, so that the statistics used at test time are those of the last few
batches."""


class WideBlock(nn.Module):
    """Two 3 x 3 convolutions, each after its batch norm and ReLU, added to their input.

    It differs from `PreActBlock` as the official implementation does: convolutions have biases, the
    stride is on the second one, and a projection sees the input before its batch norm and ReLU.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, stride, padding=1)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, maps: Tensor) -> Tensor:
        """Returns the input, projected where its shape changes, plus what the convolutions add."""
        kept: Tensor = maps if self.shortcut is None else self.shortcut(maps)
        added: Tensor = self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(maps))))))
        return kept + added


def wide_resnet(
    num_classes: int, *, depth: int, width: int, in_channels: int = 3, stem_stride: int = 1
) -> StagedNetwork:
    """Returns WRN-depth-width.

    It has 6 n + 4 layers, n blocks of two layers in each of three stages, which are `width` times
    wider than a ResNet's 16, 32 and 64 feature maps.
    """
    blocks = (depth - 4) // 6
    stem = nn.Conv2d(in_channels, WIDE_STEM_WIDTH, 3, stem_stride, padding=1)
    stages, channels = _stages(
        WideBlock, [blocks] * 3, (1, 2, 2), WIDE_STEM_WIDTH, WIDE_STEM_WIDTH * width
    )
    norm = nn.Sequential(nn.BatchNorm2d(channels, momentum=OFFICIAL_MOMENTUM), nn.ReLU())
    return StagedNetwork(stem, stages, channels=channels, num_classes=num_classes, norm=norm)


# ---- ResNeXt for small images (Xie et al., CVPR 2017) --------------------------------------------


RESNEXT_STEM_WIDTH = 64
"""Feature maps of the first convolution; `base_width` is the width of a group beside it."""

EXPANSION = 4
"""Feature maps that leave a block, for each of the stage's nominal ones."""


class ResNeXtBlock(nn.Module):
    """A grouped 3 x 3 convolution between two 1 x 1 ones, added to their input."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, *, groups: int, base_width: int
    ) -> None:
        super().__init__()
        inner = groups * (outputs // EXPANSION * base_width // RESNEXT_STEM_WIDTH)
        self.conv1 = nn.Conv2d(inputs, inner, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride, padding=1, groups=groups, bias=False)
        self.bn2 = nn.BatchNorm2d(inner)
        self.conv3 = nn.Conv2d(inner, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, maps: Tensor) -> Tensor:
        """Returns ReLU of the input, projected where its shape changes, plus what is added."""
        kept: Tensor = maps if self.shortcut is None else self.shortcut(maps)
        inner = F.relu(self.bn1(self.conv1(maps)))
        inner = F.relu(self.bn2(self.conv2(inner)))
        return F.relu(kept + self.bn3(self.conv3(inner)))


def resnext(
    num_classes: int,
    *,
    depth: int = 29,
    groups: int = 4,
    base_width: int = 24,
    in_channels: int = 3,
    stem_stride: int = 1,
) -> StagedNetwork:
    """Returns ResNeXt-depth, groups x base_width d, by default the paper's ResNeXt29-4-24.

    It has 9 n + 2 layers, n blocks of three layers in each of three stages. A group of the 3 x 3
    convolutions has `base_width` feature maps in the first stage. The official implementation has
    it with a stem of stride 1 alone; for Tiny-ImageNet we take 2, as its other networks do.
    """
    blocks = (depth - 2) // 9
    block = functools.partial(ResNeXtBlock, groups=groups, base_width=base_width)
    stem = nn.Sequential(
        nn.Conv2d(in_channels, RESNEXT_STEM_WIDTH, 3, stem_stride, padding=1, bias=False),
        nn.BatchNorm2d(RESNEXT_STEM_WIDTH),
        nn.ReLU(),
    )
    stages, channels = _stages(
        block, [blocks] * 3, (1, 2, 2), RESNEXT_STEM_WIDTH, RESNEXT_STEM_WIDTH * EXPANSION
    )
    model = StagedNetwork(stem, stages, channels=channels, num_classes=num_classes)
    # Weights are drawn as the official implementation does, for this network alone.
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.kaiming_normal_(module.weight)
            nn.init.zeros_(module.bias)
    return model


# ---- LeNet and VGG-11 for spectrograms -----------------------------------------------------------

# As in the code that mixup's speech experiment began from. Both have layers that see all locations
# at once, so they are built for one size. What they return are logits, not log-probabilities as in
# that code: the losses of this package take logits. The last layer is `fc`.

SPECTROGRAM = (1, 160, 100)
"""Channels, frequencies and times of the paper's spectrograms."""

LENET_CHANNELS = 20
LENET_HIDDEN = 1000
LENET_SMALLEST = 16
"""Smallest side that leaves a place after two convolutions and poolings."""

VGG11_STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))
"""Feature maps of the convolutions before each pooling."""

VGG_HIDDEN = 512
VGG_SMALLEST = 2 ** len(VGG11_STAGES)


def lenet(num_classes: int, *, shape: tuple[int, int, int] = SPECTROGRAM) -> nn.Sequential:
    """Returns two convolutions and two linear layers for images of one size.

    >>> import torch
    >>> lenet(30)(torch.rand(2, 1, 160, 100)).shape
    torch.Size([2, 30])
    """
    _check_sides(shape, LENET_SMALLEST)
    channels, *sides = shape
    # A convolution and pooling leave (side - 4) // 2 pixels; there are two of them.
    height, width = (((side - 4) // 2 - 4) // 2 for side in sides)
    maps = LENET_CHANNELS
    layer1 = nn.Sequential(nn.Conv2d(channels, maps, 5), nn.MaxPool2d(2), nn.ReLU())
    layer2 = nn.Sequential(nn.Conv2d(maps, maps, 5), nn.Dropout2d(), nn.MaxPool2d(2), nn.ReLU())
    return nn.Sequential(
        OrderedDict(
            layer1=layer1,
            layer2=layer2,
            flatten=nn.Flatten(),
            hidden=nn.Linear(maps * height * width, LENET_HIDDEN),
            relu=nn.ReLU(),
            dropout=nn.Dropout(),
            fc=nn.Linear(LENET_HIDDEN, num_classes),
        )
    )


def speech_vgg11(num_classes: int, *, shape: tuple[int, int, int] = SPECTROGRAM) -> nn.Sequential:
    """Returns VGG-11 with batch norm for spectrograms of one size, `layer1` to `layer5` and so on.

    >>> import torch
    >>> speech_vgg11(30).eval()(torch.rand(2, 1, 160, 100)).shape
    torch.Size([2, 30])
    """
    _check_sides(shape, VGG_SMALLEST)
    inputs, *sides = shape
    height, width = (side // VGG_SMALLEST for side in sides)
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    for k, stage in enumerate(VGG11_STAGES):
        layers: list[nn.Module] = []
        for maps in stage:
            layers += [nn.Conv2d(inputs, maps, 3, padding=1), nn.BatchNorm2d(maps), nn.ReLU()]
            inputs = maps
        parts[f"layer{k + 1}"] = nn.Sequential(*layers, nn.MaxPool2d(2))
    parts["flatten"] = nn.Flatten()
    # There is no ReLU between the two linear layers in the original code either.
    parts["hidden"] = nn.Linear(inputs * height * width, VGG_HIDDEN)
    parts["fc"] = nn.Linear(VGG_HIDDEN, num_classes)
    return nn.Sequential(parts)


def _check_sides(shape: tuple[int, int, int], smallest: int) -> None:
    if min(shape[1:]) < smallest:
        raise ValueError(
            f"`shape` must be at least {smallest} high and wide, got {shape}. Enlarge the inputs, "
            "or use a network for images, such as 'small'."
        )
