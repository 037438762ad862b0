"""What training costs, as estimated before it: so much per pass over a recipe's training images."""

from __future__ import annotations

from dataclasses import dataclass

from comixup.lab.paper._small_recipes import DIGITS, SMALL, VARIANTS, recipe_named
from comixup.lab.training import Method

GPU_FLOPS = 1e13
"""Floating-point operations per second that one GPU is taken to train with. The paper's vanilla
ImageNet training ran at 0.7e13 for each of its four RTX 2080 Ti (0.374 s for 448 images)."""
_PASS_FLOPS = 6.0
"""Per multiply-add of a forward pass: two operations, and twice as many again backwards."""
_GPU = {
    "cifar100-preactresnet18": (0.555, 50_000),
    "cifar100-wrn16-8": (2.00, 50_000),
    "cifar100-resnext29-4-24": (0.761, 50_000),
    "cifar100-multi-input": (0.555, 50_000),
    "cifar100-sensitivity": (0.555, 50_000),
    "cifar100-vat": (0.555, 50_000),
    "tiny-imagenet-preactresnet18": (0.556, 100_000),
    "imagenet-resnet50": (3.68, 1_281_167),
    "speech-vgg11": (2.33, 51_088),
    "speech-lenet": (0.056, 51_088),
}
"""Giga multiply-adds of a forward pass, counted (ImageNet: mean over its phases), and images."""
_CPU_SECONDS = {
    SMALL: 2.2,
    **dict.fromkeys(VARIANTS.values(), 2.2),
    "tiny-imagenet-small": 3.0,
    "speech-small": 25.0,
    DIGITS: 4.0,
}
"""Of one core for a pass over the training images, as measured; with 3,000 clips."""


@dataclass(frozen=True)
class Cost:
    """An estimate of compute time.

    Attributes:
        cpu_seconds: of one core.
        gpu_seconds: of one GPU.
    """

    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cpu_seconds + other.cpu_seconds, self.gpu_seconds + other.gpu_seconds)

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.cpu_seconds + self.gpu_seconds

    def __str__(self) -> str:
        """The estimate in words.

        >>> print(Cost(cpu_seconds=90.0), "|", Cost(gpu_seconds=7200.0), "|", Cost(0.5))
        1.5 CPU-minutes | 2.0 GPU-hours | seconds
        """
        words = []
        for kind, seconds in (("CPU", self.cpu_seconds), ("GPU", self.gpu_seconds)):
            if seconds >= 3600:
                hours = seconds / 3600
                words.append(
                    f"{hours:.1f} {kind}-hours" if hours < 10 else f"{hours:,.0f} {kind}-hours"
                )
            elif seconds >= 60:
                words.append(f"{seconds / 60:.2g} {kind}-minutes")
        return " and ".join(words) or "seconds"


def run_cost(recipe: str, method: str) -> Cost:
    """Returns an estimate for training one run of a recipe."""
    whole = recipe_named(recipe)
    chosen = whole.choose(method)
    passes = whole.epochs * chosen.epoch_multiplier * passes_of(chosen)
    if recipe in _GPU:
        giga, images = _GPU[recipe]
        return Cost(gpu_seconds=passes * images * giga * 1e9 * _PASS_FLOPS / GPU_FLOPS)
    return Cost(cpu_seconds=passes * _CPU_SECONDS[recipe])


def passes_of(method: Method) -> float:
    """Returns the passes over a training image that a method of the paper's tables makes.

    `training.passes_per_image` counts them for any method, but needs torch, which a list is not to
    wait for.
    """
    if method.vat is not None:  # the perturbed images, and a pass for each update of the noise
        return 2.0 + float(method.vat["updates"])
    return 2.0 if method.mixer in ("puzzlemix", "comixup") else 1.0
