"""Forms of one-pass mixing, compared on the seeds and images that settings are chosen by.

    python -m comixup.lab.paper.small_data collect runs/cifar100-small-data/*/seed-10[01] \
        --cells docs/results/one-pass-modes.csv
    python -m comixup.lab.paper.one_pass_modes

The second command makes the table and the figure of error against cost from the cells.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import tyro
from matplotlib import style
from matplotlib.figure import Figure
from rich.console import Console

from comixup._atomic_write import atomic_write
from comixup._figures import write_figure
from comixup.lab._tables import markdown_table
from comixup.lab.paper.cells import Cell, read_cells

CELLS = Path("docs/results/one-pass-modes.csv")
SEEDS = (100, 101)
"""For choosing; none of them is reported elsewhere."""
PLAIN = "vanilla"
"""What costs are measured in."""
MODES = {
    "vanilla": "Vanilla training",
    "cutmix-p0.5": "CutMix, p = 0.5",
    "comixup": "Co-Mixup, two passes",
    "comixup-one-pass": "One-pass, every other batch",
    "comixup-one-pass-rate0.33": "One batch of three",
    "comixup-one-pass-rate0.67": "Two batches of three",
    "comixup-one-pass-every-batch": "Every batch, recycled maps",
    "comixup-one-pass-recycle": "Mixed batches refresh maps too",
    "comixup-one-pass-within-batch": "Half of each batch",
    "comixup-one-pass-momentum": "Maps averaged over epochs",
    "comixup-small": "No memory: small images",
    "comixup-one-pass-spectral": "No memory: spectral residual",
    "comixup-one-pass-shuffled": "Other examples' maps",
}
"""Methods of the recipe `cifar100-small-data`, and how figure and table call them."""
_REFERENCES = ("vanilla", "cutmix-p0.5", "comixup")
_KEPT = "comixup-one-pass"
_DPI = 150


def by_mode(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Returns the cells of each mode, of the seeds for choosing, in the order of `MODES`."""
    own = [cell for cell in cells if cell.seed in SEEDS]
    found = {mode: [cell for cell in own if cell.method == mode] for mode in MODES}
    return {mode: sorted(runs, key=lambda c: c.seed) for mode, runs in found.items() if runs}


def cost_of(runs: Sequence[Cell], modes: Mapping[str, Sequence[Cell]]) -> float:
    """Returns the CPU time of a mode's runs, in that of vanilla training with the same seeds."""
    plain = {cell.seed: cell.cpu_seconds for cell in modes.get(PLAIN, ())}
    ratios = [cell.cpu_seconds / plain[cell.seed] for cell in runs if cell.seed in plain]
    if not ratios:
        raise ValueError(
            f"`cells` must have {PLAIN} runs to measure costs in, got none with a seed of "
            f"{runs[0].method}. Train them: comixup train cifar100-small-data --method {PLAIN} "
            f"--seeds {runs[0].seed}."
        )
    return statistics.fmean(ratios)


def modes_table(cells: Sequence[Cell]) -> str:
    """Returns errors on the images held out, seed by seed, and costs, as Markdown."""
    modes = by_mode(cells)
    rows = []
    for mode, runs in modes.items():
        errors = {cell.seed: cell.validation_error for cell in runs}
        texts = [f"{errors[seed]:.1f}" if seed in errors else "" for seed in SEEDS]
        mean = statistics.fmean(errors.values())
        rows.append([MODES[mode], *texts, f"{mean:.1f}", f"{cost_of(runs, modes):.2f}x"])
    head = ["", *(f"seed {seed}" for seed in SEEDS), "mean", "CPU time"]
    return markdown_table(head, rows)


def modes_figure(cells: Sequence[Cell]) -> Figure:
    """Returns the held-out error of each mode, beside its cost."""
    modes = by_mode(cells)
    names = list(reversed(modes))
    with style.context("default"):
        figure = Figure((9.5, 0.6 + 0.33 * len(names)), facecolor="white", layout="constrained")
        errors, costs = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        for y, mode in enumerate(names):
            values = [cell.validation_error for cell in modes[mode]]
            colour = "#D55E00" if mode == _KEPT else "#777777" if mode in _REFERENCES else "#0072B2"
            errors.plot(values, [y] * len(values), "o", mfc="none", color=colour, ms=5)
            errors.plot(statistics.fmean(values), y, "D", color=colour, ms=7)
            costs.barh(y, cost_of(modes[mode], modes), height=0.6, color=colour)
        errors.set_yticks(range(len(names)), [MODES[mode] for mode in names])
        errors.set_xlabel("Held-out error, % (rings: seeds, diamonds: means)")
        costs.set_xlabel("CPU time (vanilla: 1)")
        costs.axvline(1, color="black", lw=0.8, ls=":")
        for ax in (errors, costs):
            ax.grid(axis="x", color="#dddddd", lw=0.6)
            ax.set_axisbelow(True)
    return figure


def write_report(cells: Path = CELLS, out: Path = CELLS.parent) -> None:
    """Print the table and draw the figure from the cells."""
    found = read_cells(cells)
    write_figure(modes_figure(found), out / "figures" / "one-pass-modes.png", _DPI)
    atomic_write(out / "one-pass-modes.md", _PAGE.format(table=modes_table(found)))
    Console().print(f"Table and figure are in {out}.")


_PAGE = """# Forms of one-pass mixing

Made from [its cells](one-pass-modes.csv) by `python -m comixup.lab.paper.one_pass_modes`. Recipe
`cifar100-small-data`, 60 epochs; error in % on the 2,000 images held out, seeds for choosing.

![Error and cost of each form](figures/one-pass-modes.png)

{table}
"""


if __name__ == "__main__":
    tyro.cli(write_report)
