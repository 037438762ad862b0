"""Forms of one-pass mixing, compared on the seeds and images that settings are chosen by.

    python studies/one_pass_modes/study.py list          # every run, and whether it is there
    python studies/one_pass_modes/study.py collect runs/cifar100-small-data/*/seed-10[01]
    python studies/one_pass_modes/study.py report        # table and figure of error against cost

`comixup train cifar100-small-data --method METHOD --seeds 100,101` trains the runs.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import tyro
from matplotlib import style
from matplotlib.figure import Figure

sys.path.append(str(Path(__file__).parents[1]))

from comixup._atomic_write import atomic_write
from comixup._figures import write_figure
from comixup.lab._tables import markdown_table
from comixup.lab.evaluation import RunRecord, read_runs
from run_tables import add_finished, collected, print_planned

RUNS = Path("docs/results/one-pass-modes.csv")
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
REMOVED = (
    "comixup-one-pass-every-batch",
    "comixup-one-pass-recycle",
    "comixup-one-pass-within-batch",
)
"""Modes that are not part of the library any more: their runs cannot be trained again."""
_REFERENCES = ("vanilla", "cutmix-p0.5", "comixup")
_KEPT = "comixup-one-pass"
_DPI = 150


def by_mode(runs: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Returns the runs of each mode, of the seeds for choosing, in the order of `MODES`."""
    own = [run for run in runs if run.seed in SEEDS]
    found = {mode: [run for run in own if run.method == mode] for mode in MODES}
    return {
        mode: sorted(same, key=lambda run: run.seed or 0) for mode, same in found.items() if same
    }


def cost_of(runs: Sequence[RunRecord], modes: Mapping[str, Sequence[RunRecord]]) -> float:
    """Returns the CPU time of a mode's runs, in that of vanilla training with the same seeds."""
    plain = {run.seed: run.metrics["cpu_seconds"] for run in modes.get(PLAIN, ())}
    ratios = [run.metrics["cpu_seconds"] / plain[run.seed] for run in runs if run.seed in plain]
    if not ratios:
        raise ValueError(
            f"`runs` must have {PLAIN} runs to measure costs in, got none with a seed of "
            f"{runs[0].method}. Train them: comixup train cifar100-small-data --method {PLAIN} "
            f"--seeds {runs[0].seed}."
        )
    return statistics.fmean(ratios)


def modes_table(runs: Sequence[RunRecord]) -> str:
    """Returns errors on the images held out, seed by seed, and costs, as Markdown."""
    modes = by_mode(runs)
    rows = []
    for mode, own in modes.items():
        errors = {run.seed: run.metrics["validation_error"] for run in own}
        texts = [f"{errors[seed]:.1f}" if seed in errors else "" for seed in SEEDS]
        mean = statistics.fmean(errors.values())
        rows.append([MODES[mode], *texts, f"{mean:.1f}", f"{cost_of(own, modes):.2f}x"])
    head = ["", *(f"seed {seed}" for seed in SEEDS), "mean", "CPU time"]
    return markdown_table(head, rows)


def modes_figure(runs: Sequence[RunRecord]) -> Figure:
    """Returns the held-out error of each mode, beside its cost."""
    modes = by_mode(runs)
    names = list(reversed(modes))
    with style.context("default"):
        figure = Figure((9.5, 0.6 + 0.33 * len(names)), facecolor="white", layout="constrained")
        errors, costs = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
        for y, mode in enumerate(names):
            values = [run.metrics["validation_error"] for run in modes[mode]]
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


def show(runs: Path = RUNS) -> None:
    """List all runs, with those that are collected marked."""
    there = {(run.method, run.seed) for run in collected(runs)}
    print_planned(itertools.product([m for m in MODES if m not in REMOVED], SEEDS), there)


def collect(*folders: tyro.conf.Positional[Path], runs: Path = RUNS) -> None:
    """Add finished runs to the table.

    Args:
        folders: of runs; those that are not finished are left out.
        runs: the table.
    """
    add_finished(folders, runs)


def write_report(runs: Path = RUNS, out: Path = RUNS.parent) -> None:
    """Write the table and draw the figure from the table of runs.

    Args:
        runs: the table.
        out: where to.
    """
    found = read_runs(runs)
    write_figure(modes_figure(found), out / "figures" / "one-pass-modes.png", _DPI)
    atomic_write(out / "one-pass-modes.md", _PAGE.format(table=modes_table(found)))
    print(f"Table and figure are in {out}.")


_PAGE = """# Forms of one-pass mixing

Made from [its runs](one-pass-modes.csv) by `python studies/one_pass_modes/study.py report`. Recipe
`cifar100-small-data`, 60 epochs; error in % on the 2,000 images held out, seeds for choosing.

![Error and cost of each form](figures/one-pass-modes.png)

{table}
The standard error of an error of 34 % on 2,000 images is 1 point, and seeds differ by as much: two
seeds tell what does harm (every batch mixed: nothing is trained on clean images), not which of the
others is best. CPU times were taken beside other runs and are good to a tenth. The simplest form
was chosen [before the reported runs](rules.md#the-regime-as-it-was-chosen), with another network.
Recycled maps and halves of a batch are not part of the library any more: the first was no better in
[a later search](what-to-train-with.md#the-search).

With batch-norm statistics estimated anew on clean images (`python studies/batch_norm/study.py
collect RUN ... --table docs/results/one-pass-modes-batch-norm.csv`, [25
runs](one-pass-modes-batch-norm.csv)) no form's error changes by more than half a point. The ECE
changes by -0.7 to +4.5: +4.5 with every batch, +3.7 within each batch, +2.5 with two batches of
three, +2.1 with other examples' maps, +1.3 with recycled maps, +0.3 in the form that was kept.
"""


if __name__ == "__main__":
    commands = {"list": show, "collect": collect, "report": write_report}
    tyro.extras.subcommand_cli_from_dict(commands)
