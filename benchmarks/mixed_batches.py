"""What mixed batches look like: inputs per output, batch saliency and diversity, as in Figure 2.

Batch saliency is what an output shows of its inputs' saliency, each input's map summing to one: 1
without mixing. Diversity is 1 - sum_j sum_j' o~_j . o~_j' / m over pairs of different outputs. Both
are means over batches. Saliency is the gradient of a small network that is first trained on
CIFAR-100 for a few minutes; for photographs (any folder of JPEG files) it is that of
EfficientNet-Lite0, trained on ImageNet. Needs COMIXUP_DATA to name a folder with
`cifar-100-python`; photographs are its folder `photos`. `--batches 0` measures these alone, and
writes their numbers to docs/results/photographs.csv.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib as mpl
import torch
from torch import Tensor

from comixup import CoMixup, CutMix, InputMixup, Mixer, PuzzleMix, saliency
from comixup.lab import explorer
from common import FIGURES, console, has_images, mean_and_error, options, progress, seeded, table
from networks import cifar_batch, small_network, train

mpl.use("Agg")
import matplotlib.pyplot as plt

PAPER = {"none": 1.0, "input": 1.0, "CutMix": 1.0, "Puzzle Mix": 1.22, "Co-Mixup": 1.36}
"""Batch saliency in Figure 2 (c), on ImageNet."""

MOST = 5
"""Outputs of this many inputs and more are counted together."""

TAUS = (0.0, 0.2, 0.4, 0.6, 0.83, 1.0)
GRIDS = (4, 7, 14)
NETWORK = "efficientnet-lite0"
NUMBERS = FIGURES.parents[1] / "docs" / "results" / "photographs.csv"


@dataclass
class Statistics:
    """What was measured over batches."""

    saliency: list[float] = field(default_factory=list)
    diversity: list[float] = field(default_factory=list)
    inputs: Tensor = field(default_factory=lambda: torch.zeros(MOST))

    def add(self, mixer: Mixer, images: Tensor, maps: Tensor) -> None:
        """Counts one batch."""
        mixer(images, torch.arange(len(images)), maps)
        plan = mixer.last.plan
        share = maps / maps.flatten(1).sum(1).view(-1, 1, 1)
        shown = plan.mix_images(share.unsqueeze(1)).sum() / len(images)
        ratio = plan.source_ratio(images.shape[2:])
        together = ratio.sum(0).square().sum() - ratio.square().sum()
        self.saliency.append(float(shown))
        self.diversity.append(1 - float(together) / len(images))
        used = (ratio > 0).sum(1).clamp(max=MOST)
        self.inputs += torch.bincount(used - 1, minlength=MOST)

    def row(self, name: str, paper: str = "") -> list[str]:
        """Returns a line of the table."""
        percent = 100 * self.inputs / self.inputs.sum()
        cells = [mean_and_error(values) for values in (self.saliency, self.diversity)]
        return [
            name,
            "/".join(f"{value:.0f}" for value in percent),
            *[f"{mean:.3f} ± {error:.3f}" for mean, error in cells],
            paper,
        ]


def methods() -> dict[str, Callable[[], Mixer]]:
    """Returns the methods compared, by name; every one with its own published settings."""
    return {
        "none": lambda: InputMixup(100, p=0),
        "input": lambda: InputMixup(100, generator=seeded(0)),
        "CutMix": lambda: CutMix(100, generator=seeded(0)),
        "Puzzle Mix": lambda: PuzzleMix(100, generator=seeded(0)),
        "Co-Mixup": lambda: CoMixup(100, generator=seeded(0)),
        "Co-Mixup, hard clip": lambda: CoMixup(100, clip="hard", generator=seeded(0)),
    }


def measure(mixer: Mixer, batches: list[tuple[Tensor, Tensor]]) -> Statistics:
    statistics = Statistics()
    for images, maps in batches:
        statistics.add(mixer, images, maps)
    return statistics


def photographs(batch: int = 20, draws: int = 50) -> list[tuple[Tensor, Tensor]]:
    """Returns random batches of the photographs, with their saliency to the pretrained network."""
    files = sorted((Path(os.environ["COMIXUP_DATA"]) / "photos").glob("*.jpg"))
    network, pixels, maps = explorer.load_network(NETWORK), [], []
    for k in range(0, len(files), batch):
        part = explorer.load_images(files[k : k + batch])
        pixels.append(part.images)
        maps.append(explorer.network_maps(part, network))
    images, salient = torch.cat(pixels), torch.cat(maps)
    rows = [torch.randperm(len(files), generator=seeded(seed))[:batch] for seed in range(draws)]
    return [(images[row], salient[row]) for row in rows]


def report_photographs() -> None:
    """Prints and writes what the methods, and Co-Mixup over tau and grids, make of photographs."""
    batches = photographs()
    found = {name: measure(make(), batches) for name, make in methods().items()}
    for grid in GRIDS:
        for tau in TAUS:
            mixer = CoMixup(100, tau=tau, grid=grid, generator=seeded(0))
            found[f"Co-Mixup, grid {grid}, tau {tau}"] = measure(mixer, batches)
    table(
        f"photographs: {len(batches)} batches of {len(batches[0][0])}, mean ± standard error",
        ["", f"% with 1/2/../{MOST}+ inputs", "batch saliency", "diversity", "paper, saliency"],
        [stats.row(name, f"{PAPER.get(name, '')}") for name, stats in found.items()],
    )
    with NUMBERS.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        counts = [f"outputs_of_{n}" for n in range(1, MOST)]
        rows.writerow(["method", "saliency", "diversity", *counts, f"outputs_of_{MOST}_or_more"])
        for name, stats in found.items():
            means = [sum(values) / len(batches) for values in (stats.saliency, stats.diversity)]
            rows.writerow([name, *(f"{mean:.4f}" for mean in means), *stats.inputs.int().tolist()])
    console.print(f"numbers: {NUMBERS}")


def sweep(batches: list[tuple[Tensor, Tensor]]) -> dict[str, list[Statistics]]:
    """Returns the statistics of Co-Mixup over tau, for either clip."""
    return {
        clip: [
            measure(CoMixup(100, clip=clip, tau=tau, generator=seeded(0)), batches)
            for tau in progress(TAUS, f"tau, {clip} clip")
        ]
        for clip in ("soft", "hard")
    }


def draw(found: dict[str, Statistics], taus: dict[str, list[Statistics]]) -> None:
    """Draws the panels (b), (c) and (d) of the paper's figure."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    width = 0.8 / len(taus)
    for k, (clip, statistics) in enumerate(taus.items()):
        counts = statistics[TAUS.index(0.83)].inputs
        places = [i + 1 + (k - 0.5) * width for i in range(MOST)]
        left.bar(places, 100 * counts / counts.sum(), width, label=f"{clip} clip")
    left.set(title="Inputs per output, Co-Mixup", xlabel="inputs", ylabel="% of outputs")
    left.set_xticks(range(1, MOST + 1), [*map(str, range(1, MOST)), f"{MOST}+"])
    left.legend(frameon=False)
    names = list(PAPER)
    here = [sum(found[name].saliency) / len(found[name].saliency) for name in names]
    place = range(len(names))
    middle.bar([p - 0.2 for p in place], here, 0.4, label="here, CIFAR-100")
    middle.bar([p + 0.2 for p in place], PAPER.values(), 0.4, color="0.75", label="paper, ImageNet")
    middle.set_xticks(place, names, rotation=20)
    middle.set(title="Batch saliency", ylim=(0.9, None))
    middle.legend(frameon=False, loc="upper left")
    for clip, statistics in taus.items():
        means = [sum(s.diversity) / len(s.diversity) for s in statistics]
        right.plot(TAUS, means, marker="o", label=f"Co-Mixup, {clip} clip")
    for name, style in (("CutMix", ":"), ("Puzzle Mix", "--")):
        values = found[name].diversity
        right.axhline(sum(values) / len(values), color="0.4", ls=style, label=name)
    right.set(title="Diversity", xlabel="tau")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / "mixed_batches.png", dpi=110)


def main() -> None:
    arguments = options(__doc__, steps=2000, batches=50)
    if not has_images():
        console.print("COMIXUP_DATA must name a folder with cifar-100-python. Nothing was run.")
        return
    torch.set_num_threads(os.cpu_count() or 1)
    if arguments.batches == 0:
        report_photographs()
        return
    torch.manual_seed(0)
    network = small_network()
    train(network, arguments.steps)
    batches = []
    for seed in range(arguments.batches):
        images, labels = cifar_batch(100, seed)
        batches.append((images, saliency(network, images, labels, keep_gradients=False)))
    found = {name: measure(make(), batches) for name, make in methods().items()}
    heads = ["", f"% with 1/2/../{MOST}+ inputs", "batch saliency", "diversity"]
    table(
        f"CIFAR-100: {len(batches)} batches of {len(batches[0][0])}, mean ± standard error",
        [*heads, "paper, saliency"],
        [stats.row(name, f"{PAPER.get(name, '')}") for name, stats in found.items()],
    )
    taus = sweep(batches[: max(2, len(batches) // 5)])
    draw(found, taus)
    table(
        "Co-Mixup over tau",
        [*heads, ""],
        [
            stats.row(f"tau {tau}, {clip}")
            for clip, rows in taus.items()
            for tau, stats in zip(TAUS, rows, strict=True)
        ],
    )
    console.print(f"figure: {FIGURES / 'mixed_batches.png'}")


if __name__ == "__main__":
    main()
