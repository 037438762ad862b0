"""The comparison of methods on small data: tables and figures from its cells, in seconds.

    python -m comixup.reproduce.small_data collect runs/cifar100-small-data/*/seed-*
    python -m comixup.reproduce.small_data report

`collect` adds finished runs to the table of cells, `report` makes everything else from that. The
rules of the comparison are in docs/results.md.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro
from matplotlib import style
from matplotlib.figure import Figure
from rich.console import Console

from comixup._atomic_write import atomic_write
from comixup._plots import write_figure
from comixup.evaluation import draw_reliability, holm, paired_interval, paired_test
from comixup.reproduce.cells import Cell, merged, read_cells, read_run, write_cells

CELLS = Path("docs/results/small-data.csv")
SEEDS = range(10)
"""Of the reported runs."""
TEST_IMAGES = 2000
ALPHA = 0.05
METRICS = ("error", "ece")
"""That the primary family compares."""

HEADLINE = {
    "vanilla": "Vanilla",
    "vanilla-double": "Vanilla, 2x epochs",
    "cutmix-p0.5": "CutMix, p = 0.5",
    "cutmix-p0.5-double": "CutMix, p = 0.5, 2x epochs",
    "cutmix-clean": "CutMix + clean loss",
    "puzzlemix": "Puzzle Mix",
    "comixup": "Co-Mixup",
    "comixup-shuffled": "Co-Mixup, shuffled saliency",
    "comixup-one-pass": "One-pass Co-Mixup",
    "comixup-one-pass-double": "One-pass Co-Mixup, 2x epochs",
}
REFERENCES = ("comixup", "comixup-one-pass-double")
"""What the others are compared with in the primary family."""
OTHERS = {
    "cutmix": "CutMix, p = 1",
    "cutmix-clean-mean": "CutMix + clean loss, mean",
    "input": "Input mixup",
    "input-p0.5": "Input mixup, p = 0.5",
    "manifold": "Manifold mixup",
    "comixup-no-clean": "Co-Mixup, no clean loss",
    "comixup-clean-mean": "Co-Mixup, mean of losses",
    "comixup-one-pass-shuffled": "One-pass, shuffled maps",
    "comixup-one-pass-spectral": "One-pass, spectral residual",
}
LENGTHS = {
    "Vanilla": ("vanilla-half", "vanilla", "vanilla-double"),
    "CutMix, p = 0.5": ("cutmix-p0.5-half", "cutmix-p0.5", "cutmix-p0.5-double"),
    "Co-Mixup": ("comixup-half", "comixup", "comixup-double"),
    "One-pass Co-Mixup": (
        "comixup-one-pass-half",
        "comixup-one-pass",
        "comixup-one-pass-double",
    ),
}
"""Arms that are trained for half, one and two times the epochs."""
_STYLES = {
    "Vanilla": ("#777777", "o", ":"),
    "CutMix, p = 0.5": ("#E69F00", "s", "--"),
    "Co-Mixup": ("#0072B2", "^", "-."),
    "One-pass Co-Mixup": ("#D55E00", "D", "-"),
}
"""Colour (of Okabe and Ito), marker and line: legible in grey and for the colour-blind."""
_BESIDE = 0.04
"""By which powers of two methods of the same compute stand beside each other."""
_FEWEST = 3
"""Seeds from which on an interval is drawn: that of two is wider than the figure."""


@dataclass(frozen=True)
class Contrast:
    """How an arm differs from a reference, over the seeds that both have.

    Attributes:
        reference: the arm it is compared with.
        arm: the other.
        metric: "error" or "ece".
        difference: the reference's mean minus the arm's: negative is in favour of the reference.
        interval: its 95 % confidence interval; None with fewer than two pairs.
        p: of the paired t-test; None with fewer than two pairs.
        pairs: seeds in common.
        holm: p adjusted over the whole primary family.
    """

    reference: str
    arm: str
    metric: str
    difference: float
    interval: tuple[float, float] | None
    p: float | None
    pairs: int
    holm: float | None = None


def contrasts(cells: Sequence[Cell]) -> list[Contrast]:
    """Returns the primary family: each reference against each other headline arm.

    Tests of the family whose runs are not there yet count as passed by chance (p = 1), so that the
    adjusted p-values of the others can only become smaller.
    """
    by_arm = _by_arm(cells)
    pairs = [
        (reference, arm)
        for reference in REFERENCES
        for arm in HEADLINE
        # Of the two references each pair is tested once.
        if arm != reference and not (reference == REFERENCES[1] and arm == REFERENCES[0])
    ]
    found = [
        _contrast(by_arm[reference], by_arm[arm], metric)
        for reference, arm in pairs
        if reference in by_arm and arm in by_arm
        for metric in METRICS
    ]
    values = [c.p for c in found if c.p is not None]
    adjusted = iter(holm(values + [1.0] * (len(METRICS) * len(pairs) - len(values))))
    return [c if c.p is None else dataclasses.replace(c, holm=next(adjusted)) for c in found]


def report(cells: Sequence[Cell]) -> str:
    """Returns the tables as Markdown."""
    by_arm = _by_arm(cells)
    family = contrasts(cells)
    parts = [
        "### Headline",
        _means_table(by_arm, HEADLINE),
        "Mean ± standard deviation over the seeds. *Passes*: forward and backward passes over a "
        "training image. *scaled*: after temperature scaling, fitted on the images held out.",
        "### Primary family",
        _contrast_table(family),
        "Differences are the reference's mean minus the other arm's, over paired seeds, in "
        "points: negative favours the reference. In brackets the 95 % confidence interval; "
        f"*p*: paired t-test, adjusted by Holm's method over all tests of the family. "
        f"**Bold**, a claim: p < {ALPHA} with all {len(SEEDS)} seeds.",
    ]
    if any(arm in by_arm for arm in OTHERS):
        parts += ["### Other arms (exploratory)", _means_table(by_arm, OTHERS)]
    lengths = {
        arm: f"{title}, {length}"
        for title, arms in LENGTHS.items()
        for arm, length in zip(arms, ("half", "one", "two times"), strict=True)
    }
    parts += ["### Lengths of training", _means_table(by_arm, lengths)]
    return "\n\n".join(parts) + "\n"


def compute_figure(cells: Sequence[Cell]) -> Figure:
    """Returns error and ECE against compute, a line per method, with 95 % intervals of the mean."""
    by_arm = _by_arm(cells)
    with style.context("default"):
        figure = Figure((10.0, 4.0), facecolor="white", layout="constrained")
        panels = figure.subplots(1, 2)
        for ax, metric, title in zip(
            panels, ("error", "ece"), ("Top-1 error, %", "ECE, %"), strict=True
        ):
            for k, (name, arms) in enumerate(LENGTHS.items()):
                there = [by_arm[arm] for arm in arms if arm in by_arm]
                if not there:
                    continue
                colour, marker, line = _STYLES[name]
                beside = 2 ** (_BESIDE * (k - (len(LENGTHS) - 1) / 2))
                xs = [own[0].passes * beside for own in there]
                means = [statistics.fmean(getattr(c, metric) for c in own) for own in there]
                reach = [_reach([getattr(c, metric) for c in own]) for own in there]
                ax.errorbar(
                    xs, means, reach, label=name, color=colour, marker=marker, ls=line, capsize=3
                )
            ax.set_xscale("log", base=2)
            ticks = sorted(
                {c.passes for arms in LENGTHS.values() for a in arms for c in by_arm.get(a, [])}
            )
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.minorticks_off()
            ax.set_xlabel("Forward and backward passes per training image")
            ax.set_ylabel(title)
            ax.grid(color="#dddddd", lw=0.6)
            ax.set_axisbelow(True)
        panels[0].legend(frameon=False, fontsize=8)
    return figure


def collect(*folders: tyro.conf.Positional[Path], cells: Path = CELLS) -> None:
    """Add finished runs to the table of cells."""
    old = read_cells(cells) if cells.exists() else []
    new = [read_run(folder) for folder in folders if (folder / "result.json").exists()]
    write_cells(merged(old, new), cells)
    Console().print(f"{cells}: {len(merged(old, new))} cells, {len(new)} of them from these runs")


def write_report(cells: Path = CELLS, out: Path = CELLS.parent) -> None:
    """Make the tables and figures from the cells."""
    found = read_cells(cells)
    out.mkdir(parents=True, exist_ok=True)
    atomic_write(out / "small-data.md", report(found))
    for suffix in ("png", "svg"):
        write_figure(compute_figure(found), out / f"small-data-compute.{suffix}", 150)
    by_arm = _by_arm(found)
    panels = {
        title: [cell.as_metrics(TEST_IMAGES) for cell in by_arm[arm]]
        for arm, title in HEADLINE.items()
        if arm in by_arm
    }
    draw_reliability(panels, out / "small-data-reliability.png")
    Console().print(f"Tables and figures are in {out}.")


def _by_arm(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Returns the reported runs of each arm, by seed."""
    arms: dict[str, list[Cell]] = {}
    for cell in sorted(cells, key=lambda c: c.seed):
        if cell.seed in SEEDS:
            arms.setdefault(cell.method, []).append(cell)
    return arms


def _contrast(reference: Sequence[Cell], arm: Sequence[Cell], metric: str) -> Contrast:
    theirs = {cell.seed: getattr(cell, metric) for cell in arm}
    differences = [
        getattr(cell, metric) - theirs[cell.seed] for cell in reference if cell.seed in theirs
    ]
    mean = statistics.fmean(differences) if differences else float("nan")
    return Contrast(
        reference[0].method,
        arm[0].method,
        metric,
        mean,
        paired_interval(differences),
        paired_test(differences),
        len(differences),
    )


def _means_table(by_arm: Mapping[str, Sequence[Cell]], titles: Mapping[str, str]) -> str:
    columns = {
        "error, %": "error",
        "NLL": "nll",
        "ECE, %": "ece",
        "NLL, scaled": "scaled_nll",
        "ECE, scaled, %": "scaled_ece",
    }
    rows = [
        ["arm", "seeds", "passes", *columns, "CPU-minutes"],
        ["---", *["---:"] * (len(columns) + 3)],
    ]
    for arm, title in titles.items():
        own = by_arm.get(arm)
        if not own:
            continue
        values = [[getattr(cell, name) for cell in own] for name in columns.values()]
        minutes = statistics.fmean(cell.cpu_seconds for cell in own) / 60
        rows.append(
            [
                title,
                str(len(own)),
                f"{own[0].passes:g}",
                *(
                    _spread(column, 3 if "NLL" in n else 2)
                    for n, column in zip(columns, values, strict=True)
                ),
                f"{minutes:.1f}",
            ]
        )
    return _markdown(rows)


def _contrast_table(family: Sequence[Contrast]) -> str:
    names = {**HEADLINE, **OTHERS}
    rows = [
        ["reference", "against", "seeds", "error", "p", "ECE", "p"],
        ["---", "---", *["---:"] * 5],
    ]
    for error, ece in zip(family[::2], family[1::2], strict=True):
        rows.append(
            [
                names[error.reference],
                names[error.arm],
                str(error.pairs),
                *(text for contrast in (error, ece) for text in _shown(contrast)),
            ]
        )
    return _markdown(rows)


def _shown(contrast: Contrast) -> tuple[str, str]:
    text = f"{contrast.difference:+.2f}"
    if contrast.interval is not None:
        text += f" [{contrast.interval[0]:+.2f}, {contrast.interval[1]:+.2f}]"
    if contrast.holm is None:
        return text, ""
    p = "< 0.001" if contrast.holm < 0.001 else f"{contrast.holm:.3f}"
    claimed = contrast.holm < ALPHA and contrast.pairs == len(SEEDS)
    return (f"**{text}**", f"**{p}**") if claimed else (text, p)


def _reach(values: Sequence[float]) -> float:
    """Returns half the width of the mean's confidence interval; 0 for too few values."""
    interval = paired_interval(values) if len(values) >= _FEWEST else None
    return 0.0 if interval is None else (interval[1] - interval[0]) / 2


def _spread(values: Sequence[float], decimals: int) -> str:
    if len(values) < 2:
        return f"{values[0]:.{decimals}f}"
    return f"{statistics.fmean(values):.{decimals}f} ± {statistics.stdev(values):.{decimals}f}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    tyro.extras.subcommand_cli_from_dict({"collect": collect, "report": write_report})
