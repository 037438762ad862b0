"""Draws tracked.png: digits with the saliency that a one-pass run remembers, before and after.

Trains the recipe `digits` with one-pass Co-Mixup and TrivialAugment (30 epochs, 200 digits per
class: two CPU-minutes), then reads the maps of ten training digits back from its checkpoint.

    python docs/images/draw_tracked.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torchvision.transforms import v2

from comixup import Origin, SaliencyMemory
from comixup._figures import write_figure
from comixup.adapters.cell_numbers import CellNumbers
from comixup.adapters.origins import tracked
from comixup.lab.data import load
from comixup.lab.training import RECIPES, Hardware, change_method, train
from comixup.plots import plot_tracked

PICTURE = Path(__file__).with_name("tracked.png")
SEED, DRAWS = 0, 5


def main() -> None:
    """Trains, reads the maps back and writes the picture."""
    recipe = RECIPES["digits"].changed(epochs=30, images_per_class=200, augment="trivial")
    recipe = change_method(recipe, "comixup", {}, saliency="one-pass")
    digits = load("digits", images_per_class=200, seed=SEED)
    memory = SaliencyMemory(len(digits.train))
    with tempfile.TemporaryDirectory() as out:
        here = Hardware(accelerator="cpu")
        train(recipe, method="comixup", seeds=[SEED], out=Path(out), hardware=here)
        [checkpoint] = Path(out).rglob("checkpoint.pt")
        memory.load_state_dict(torch.load(checkpoint, weights_only=True)["memory"])
    classes = digits.train.targets
    examples = torch.stack([(classes == k).nonzero()[3, 0] for k in range(10)])
    images = digits.train.images[examples].expand(-1, 3, -1, -1)
    follow = tracked(v2.Compose([v2.RandomCrop(28, padding=3), v2.TrivialAugmentWide()]))
    torch.manual_seed(DRAWS)
    moved = []
    for image in images:
        picture, numbers = v2.functional.to_pil_image(image), CellNumbers.of((28, 28), memory.grid)
        picture, numbers = follow(picture, numbers)
        moved.append((v2.functional.pil_to_tensor(picture), numbers.tensor()))
    after, cells = (torch.stack(part) for part in zip(*moved, strict=True))
    figure = plot_tracked(
        images / 255,
        memory.read(examples, (28, 28)),
        after / 255,
        memory.read(Origin(examples, cells)),
    )
    write_figure(figure, PICTURE)


if __name__ == "__main__":
    main()
