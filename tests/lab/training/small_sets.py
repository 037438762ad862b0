"""All data sets that recipes train on, with a few images or clips each, in their real formats."""

import dataclasses
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "data"))

from comixup.lab.training import Hardware
from data_files import write_cifar100, write_folder, write_speech, write_tiny_imagenet

CIFAR_CLASSES = 4
CIFAR_TRAIN = 12
HERE = Hardware(accelerator="cpu", workers=0)


def write_all(root):
    """Writes every data set that has files; the digits come with a package. Returns the root."""
    write_cifar100(root, train=CIFAR_TRAIN, test=6, classes=CIFAR_CLASSES)
    write_tiny_imagenet(root, each=3, val=3)
    write_folder(root / "imagenet", train=4, test=2)
    write_speech(root)
    return root


def reduced(recipe, *, epochs=1, batch_size=6, image_sizes=None, **changes):
    """Returns a recipe for a test: few epochs, small batches and, where it scales them, images."""
    if recipe.images_per_class is not None:
        changes.setdefault("images_per_class", 2)
    if recipe.classes is not None:
        changes.setdefault("classes", ())  # the small sets have others
    recipe = recipe.changed(epochs=epochs, batch_size=batch_size, **changes)
    if image_sizes is not None:
        phases = zip(recipe.phases, image_sizes, strict=True)
        sized = tuple(dataclasses.replace(phase, image_size=size) for phase, size in phases)
        recipe = dataclasses.replace(recipe, phases=sized)
    return recipe
