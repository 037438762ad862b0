"""A small network trained on a folder of pictures, for tests of what is done with the result."""

import dataclasses
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "data"))

from comixup.lab.training import RECIPES, Hardware, train
from data_files import write_folder

SIZE = 32
CLASSES = ("ant", "bee")


def train_on_folder(root, **changes):
    """Writes pictures into root/pictures and trains on them; returns the run's folder."""
    data = write_folder(root / "pictures", train=4, test=3, classes=CLASSES)
    settings = {"model": "small", "width": 8, "validation": 0.25} | changes
    recipe = RECIPES["digits"].changed(
        data="folder", epochs=1, batch_size=6, images_per_class=0, **settings
    )
    phases = tuple(dataclasses.replace(phase, image_size=SIZE) for phase in recipe.phases)
    recipe = dataclasses.replace(recipe, name="mine", phases=phases)
    hardware = Hardware(accelerator="cpu", workers=0)
    train(recipe, method="vanilla", out=root / "runs", data_root=data, hardware=hardware)
    return root / "runs" / "mine" / "vanilla" / "seed-0"
