"""Puzzle Mix's masks against gco's alpha-beta swap, on the same energies and one thread.

The rival solves each sample by a call of its own, with costs scaled by 1000 g^2 and cut to
integers, as the official implementation does; the time for that is not counted. Both sides are
judged by the energy before it was rounded; lower is better. "rounding" is the share of samples
where a minimum of the rounded energy, found by our solver, is no minimum of the energy itself.
Times are the thread's own (CPU time) per sample, means over a batch of 100; tables show medians
over batches, and the median of the batches' ratios. Real images need COMIXUP_DATA to name a folder
with `cifar-100-python`.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

import gco
import numpy as np
import torch
from torch import Tensor

from comixup import PuzzleMix
from comixup._random import dirichlet, numpy_generator
from comixup.core.grid import edges
from comixup.core.maps import pool
from comixup.core.puzzle import best_masks, border_differences, mask_energy
from common import (
    console,
    has_images,
    image_saliency,
    mean_and_error,
    options,
    progress,
    random_images,
    seconds,
    seeded,
    table,
    target,
    unit_maps,
)

WANTED = {2: 20, 4: 20, 8: 20, 16: 5}
"""How many times faster than gco, by grid."""

BATCH = 100
LEVELS = 2
SAME = 1e-9
"""Energies this close are the same: both are sums of some hundred terms of about 1e-2."""


@dataclass
class Case:
    """What was measured for one grid and kind of maps."""

    grid: int
    maps: str
    ours_us: list[float] = field(default_factory=list)
    gco_us: list[float] = field(default_factory=list)
    difference: list[float] = field(default_factory=list)
    rounding: list[bool] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """How many times faster ours is."""
        return statistics.median(t / o for t, o in zip(self.gco_us, self.ours_us, strict=True))


def energies(case: Case, seed: int) -> tuple[Tensor, Tensor]:
    """Returns a batch's energies with the published settings: (m, 3, n) and (m, edges)."""
    sides = (case.grid, case.grid)
    if case.maps == "noise":
        cells = unit_maps(BATCH, sides, seed)
        images = torch.rand(BATCH, 3, 32, 32, generator=seeded(seed))
    else:
        cells = pool(image_saliency(BATCH, seed), sides)
        cells = cells / cells.sum((1, 2), keepdim=True)
        images = random_images(BATCH, seed)
    partners = torch.randperm(BATCH, generator=seeded(seed))
    mixer = PuzzleMix()
    differences = border_differences(images, partners, sides, mixer.neighbour, torch.ones(1))
    return mask_energy(
        cells,
        partners,
        differences,
        float(dirichlet(mixer.alpha, 2, numpy_generator(seeded(seed)))[0, 0]),
        levels=LEVELS,
        beta=mixer.beta,
        gamma=mixer.gamma,
        eta=mixer.eta,
    )


def energy(unary: Tensor, weights: Tensor, labels: Tensor) -> Tensor:
    """Returns the energy of each sample's labels, (m,)."""
    first, second = torch.from_numpy(edges(labels.shape[1:])).unbind(1)
    flat = labels.flatten(1)
    apart = (flat[:, first] - flat[:, second]) / LEVELS
    return unary.gather(1, flat.unsqueeze(1)).sum((1, 2)) + (weights * apart**2).sum(1)


def rounded(case: Case, costs: Tensor) -> Tensor:
    return (1000 * case.grid**2 * costs).trunc()


def by_gco(case: Case, unary: Tensor, weights: Tensor) -> Tensor:
    """Returns the labels that gco finds, sample by sample, and notes its times."""
    g = case.grid
    table_ = (np.arange(LEVELS + 1)[:, None] - np.arange(LEVELS + 1)) ** 2 / LEVELS**2
    unary, weights = rounded(case, unary).int(), rounded(case, weights).int()
    found, took = [], 0.0
    for u, w in zip(unary, weights, strict=True):
        costs = np.ascontiguousarray(u.numpy().reshape(LEVELS + 1, g, g).transpose(1, 2, 0))
        down, right = w[: g * (g - 1)].numpy(), w[g * (g - 1) :].numpy()
        down, right = down.reshape(g - 1, g), right.reshape(g, g - 1)
        begin = time.thread_time()
        labels = gco.cut_grid_graph(costs, table_, down, right, algorithm="swap")
        took += time.thread_time() - begin
        found.append(torch.from_numpy(labels.reshape(g, g)).long())
    case.gco_us.append(took / len(found) * 1e6)
    return torch.stack(found)


def measure(case: Case, seed: int) -> None:
    unary, weights = energies(case, seed)
    sides = (case.grid, case.grid)

    def run() -> Tensor:
        return best_masks(unary, weights, sides, num_threads=1)

    before = seconds(run, repeats=5, clock=time.thread_time)
    theirs = by_gco(case, unary, weights)
    after = seconds(run, repeats=5, clock=time.thread_time)
    case.ours_us.append((before + after) / 2 / BATCH * 1e6)
    ours = energy(unary, weights, run())
    case.difference += (ours - energy(unary, weights, theirs)).tolist()
    coarse = best_masks(rounded(case, unary), rounded(case, weights), sides, num_threads=1)
    case.rounding += (energy(unary, weights, coarse) > ours + SAME).tolist()


def row(case: Case) -> list[str]:
    mean, error = mean_and_error(case.difference)
    count = len(case.difference)
    lower = sum(d < -SAME for d in case.difference) / count
    higher = sum(d > SAME for d in case.difference) / count
    return [
        f"{case.grid} x {case.grid}, {case.maps}",
        str(count),
        f"{statistics.median(case.ours_us):.2f}",
        f"{statistics.median(case.gco_us):.0f}",
        f"{case.ratio:.0f}x",
        f"{mean:+.6f} ± {error:.6f}",
        f"{lower:.1%}",
        f"{1 - lower - higher:.1%}",
        f"{higher:.1%}",
        f"{sum(case.rounding) / count:.1%}",
    ]


def main() -> None:
    arguments = options(__doc__, batches=20)
    kinds = ["noise", "images"] if has_images() else ["noise"]
    if not has_images():
        console.print("No real images: COMIXUP_DATA does not name a folder with cifar-100-python.")
    cases = [Case(grid, maps) for maps in kinds for grid in WANTED]
    for case in cases:
        what = f"{case.grid} x {case.grid}, {case.maps}"
        for seed in progress(range(arguments.batches), what):
            measure(case, seed)
    table(
        "Time of one sample, medians in µs; energy: ours minus gco's, mean ± standard error",
        ["", "samples", "ours", "gco", "ratio", "energy", "lower", "same", "higher", "rounding"],
        map(row, cases),
    )
    for grid, wanted in WANTED.items():
        slowest = min(case.ratio for case in cases if case.grid == grid)
        target(f"at least {wanted}x on {grid} x {grid} (got {slowest:.0f}x)", slowest >= wanted)
    worst = max(max(case.difference) for case in cases)
    target(f"no sample's energy is higher than gco's (worst {worst:+.1e})", worst <= SAME)


if __name__ == "__main__":
    main()
