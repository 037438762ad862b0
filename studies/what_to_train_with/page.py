"""The study's page: docs/results/what-to-train-with.md and its figure, from the collected runs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from comixup._atomic_write import atomic_write
from comixup._figures import BLUE, GREY, write_figure
from comixup.lab._tables import markdown_table
from comixup.lab.evaluation import RunRecord, holm, paired_interval, paired_test, read_runs
from what_to_train_with import stages

FOLDER = Path(__file__).parents[2] / "docs" / "results"
_PAGE = """# What to train with: all tables

{answer}

Made from [its runs](../../studies/what_to_train_with/runs.csv), a row each, by `python
studies/what_to_train_with/study.py report`. [The rules](rules.md#what-to-train-with) were written
before the runs. {status}

![Error minus the first row's, with 95 % intervals](figures/what-to-train-with.png)

{tables}

Mean ± standard deviation over the seeds. *Minus the first*: error minus that of the first row, in
points, mean over paired seeds and 95 % confidence interval; positive is in favour of the first row.
*p*: paired t-test, adjusted by Holm's method within its table. *Scaled*: after temperature scaling,
fitted on the images held out.

{curves}{records}

{search}"""
_RECORDS = """## Records

The lowest error of a fixed budget: 20 classes of CIFAR-100 with 100 images each, the network of
`cifar100-small-data`, 120 forward and backward passes over each image, seeds 10 to 19. **Bold**: a
record, below the one before it with p < {level} (paired t-test).

{table}
A row is trained again by `comixup train cifar100-small-data --epochs 120 --seeds 10 11 12 13 14 15
16 17 18 19 --method` and its words. To add one:

1. Choose everything on other classes and seeds (`--classes 70-89 --seeds 100 101 102`).
2. Add a line to `RECORDS` in [stages.py](../../studies/what_to_train_with/stages.py): a title, and
   the words behind `--method`. Code that the package lacks comes with it.
3. `python studies/what_to_train_with/study.py run`, then `report`; send `runs.csv` and the page. A
   method that makes two passes per step has half the epochs.
"""
RECORD_LEVEL = 0.01
_ONE_PASS, _COIN = "One-pass Co-Mixup", "Input mixup or CutMix"
_TITLES = {
    "one-pass": _ONE_PASS,
    "one-pass-recycle": f"{_ONE_PASS}, mixed batches refresh maps too",
    "one-pass-third": f"{_ONE_PASS}, one batch of three",
    "one-pass-annealed": f"{_ONE_PASS}, annealed",
    "one-pass-off": f"{_ONE_PASS}, off in the last tenth",
    "one-pass-input": f"{_ONE_PASS} or input mixup",
    "one-pass-cutmix": f"{_ONE_PASS} or CutMix",
    "one-pass-both": f"{_ONE_PASS}, input mixup or CutMix",
    "one-pass-saliency-targets": f"{_ONE_PASS}, targets by saliency",
    "one-pass-tau-1": f"{_ONE_PASS}, tau = 1",
    "one-pass-grid-8": f"{_ONE_PASS}, 8 x 8 grid",
    "no-mixing": "Vanilla",
    "input-0.2": "Input mixup, p = 0.5, alpha = 0.2",
    "input-1": "Input mixup, p = 0.5, alpha = 1",
    "input-2": "Input mixup, p = 0.5, alpha = 2",
    "input-smoothed": "Input mixup, p = 0.5, label smoothing",
    "cutmix-0.2": "CutMix, p = 0.5, alpha = 0.2",
    "cutmix-1": "CutMix, p = 0.5, alpha = 1",
    "coin-half": f"{_COIN}, p = 0.5",
    "coin": _COIN,
    "coin-annealed": f"{_COIN}, annealed",
    "coin-off": f"{_COIN}, off in the last tenth",
    "crop-flip": "Crops and flips",
    "trivial": "TrivialAugment",
    "trivial-input": "TrivialAugment, input mixup, p = 0.5",
    "trivial-cutmix": "TrivialAugment, CutMix, p = 0.5",
    "trivial-coin": "TrivialAugment, input mixup or CutMix, p = 0.5",
    "trivial-one-pass": "TrivialAugment, one-pass Co-Mixup",
}
_ENDINGS = {
    stages.AVERAGED: "averaged weights",
    stages.SHUFFLED: "other images' maps",
    stages.UNAUGMENTED: "crops and flips",
}
_REUSED = {
    "vanilla-double": "no-mixing",
    "input-p0.5-double": "input-1",
    "cutmix-p0.5-double": "cutmix-0.2",
    "comixup-one-pass-double": "one-pass",
}
"""Arms of docs/results/small-data.csv of 120 epochs, and what they are called here."""
_AUGMENTATIONS = {
    "crop-flip": "crops and flips",
    "rand": "RandAugment",
    "trivial": "TrivialAugment",
}


def title_of(arm: str) -> str:
    """Returns how tables call an arm.

    >>> title_of("coin-half-ema")
    'Input mixup or CutMix, p = 0.5, averaged weights'
    """
    for ending, words in _ENDINGS.items():
        if arm.endswith(ending):
            return f"{title_of(arm.removesuffix(ending))}, {words}"
    return _TITLES[arm]


@dataclass(frozen=True)
class Comparison:
    """Runs of one condition by arm; the others are compared with the first one.

    Attributes:
        title: of their table.
        runs: by arm, those of the lowest error after the first.
    """

    title: str
    runs: dict[str, list[RunRecord]]

    @property
    def differences(self) -> dict[str, list[float]]:
        """The other arms' errors minus the first one's, of the seeds that both have."""
        (_, first), *others = self.runs.items()
        errors = {run.seed: run.metrics["error"] for run in first}
        return {
            arm: [run.metrics["error"] - errors[run.seed] for run in own if run.seed in errors]
            for arm, own in others
        }


def comparisons() -> list[Comparison]:
    """Returns what the rules compare, as far as it was trained."""
    augment, epochs = stages.condition()
    mode, plain = stages.chosen_mode(), "stage2/cifar100-crop-flip-120"
    advised = stages.recommendation()
    small = [
        run
        for run in read_runs(FOLDER / "small-data.csv")
        if run.method in _REUSED and run.seed in stages.SEEDS
    ]
    wanted = (
        (
            stages.confirmed_on("cifar100"),
            f"CIFAR-100, 20 classes of 100 images, {_AUGMENTATIONS[augment]}, {epochs} epochs",
            advised or mode,
        ),
        (
            stages.confirmed_on("tiny-imagenet"),
            f"Tiny-ImageNet, 20 classes of 100 images, {_AUGMENTATIONS[augment]}, 180 epochs",
            advised or stages.confirmed_mode("tiny-imagenet"),
        ),
        (plain, "CIFAR-100, crops and flips alone, the network of small data, 120 epochs", mode),
        ("fine-tuning/photos44", "Fine-tuning on 44 classes of 5 photographs", "trivial"),
        ("fine-tuning/tiny-imagenet", "Fine-tuning on 50 classes of 10 small images", "trivial"),
    )
    found = []
    for where, title, first in wanted:
        arms = _by_arm(run for run in stages.collected() if run.recipe == where)
        if where == plain and arms:
            arms |= {_REUSED[arm]: own for arm, own in _by_arm(small).items()}
        if len(arms) > 1 and first in arms:
            order = sorted(arms, key=lambda arm: (arm != first, _mean(arms[arm], "error")))
            found.append(Comparison(title, {arm: arms[arm] for arm in order}))
    return found


def write_page(folder: Path = FOLDER) -> None:
    """Writes the page and its figure.

    Args:
        folder: where to.
    """
    found = comparisons()
    write_figure(differences_figure(found), folder / "figures" / "what-to-train-with.png")
    left = len(stages.missing())
    status = f"{left} runs of the next stage are still to be trained." if left else ""
    page = _PAGE.format(
        answer=answer(),
        status=status,
        tables="\n\n".join(f"## {each.title}\n\n{comparison_table(each)}" for each in found),
        curves=curves_tables(),
        records=records_table(),
        search=_search(),
    )
    atomic_write(folder / "what-to-train-with.md", page.rstrip() + "\n")


def answer() -> str:
    """Returns what the primary comparisons say, in a paragraph."""
    verdict = {
        None: "**Not decided yet.**",
        True: "**The chosen mode is recommended.**",
        False: "**No mode of ours beats every simple rival.**",
    }[stages.recommended()]
    lines = [verdict, f"The mode to be confirmed is {title_of(stages.chosen_mode())}."]
    for data, name in (("cifar100", "CIFAR-100"), ("tiny-imagenet", "Tiny-ImageNet")):
        primary = stages.primary(data)
        if primary is not None:
            rival, differences = primary
            p = paired_test(differences)
            lines.append(
                f"On {name} its error minus that of the strongest simple rival "
                f"({title_of(rival)}) is {_difference(differences)} points"
                + ("." if p is None else f", p = {p:.3f}.")
            )
    if stages.recommended() is False:
        arm = stages.recommendation()
        if arm is not None:
            lines.append(
                f"**To train with: {title_of(arm)}**, the simplest of the arms of both sets that "
                "no other of them beats in error or NLL on either set."
            )
    return " ".join(lines)


def comparison_table(found: Comparison) -> str:
    """Returns a comparison as Markdown."""
    tests = {arm: paired_test(each) for arm, each in found.differences.items()}
    known = {arm: p for arm, p in tests.items() if p is not None}
    adjusted = dict(zip(known, holm(list(known.values())), strict=True))
    rows = []
    for arm, runs in found.runs.items():
        difference = found.differences.get(arm)
        rows.append(
            [
                title_of(arm),
                str(len(runs)),
                *(_spread(runs, name) for name in ("error", "ece", "nll")),
                *(_spread(runs, name) for name in ("scaled_ece", "scaled_nll")),
                f"{_mean(runs, 'cpu_seconds') / 60:.1f}",
                "" if difference is None else _difference(difference),
                f"{adjusted[arm]:.3f}" if arm in adjusted else "",
            ]
        )
    metrics = ("error, %", "ECE, %", "NLL", "ECE, scaled, %", "NLL, scaled", "CPU-minutes")
    return markdown_table(["", "seeds", *metrics, "minus the first", "p"], rows).rstrip()


def curves_tables() -> str:
    """Returns errors by images per class and by epochs as Markdown; nothing before any of them."""
    if not any(run.recipe.startswith("curves/") for run in stages.collected()):
        return ""
    epochs = stages.condition()[1]
    by_images = {f"{n} images": (n, epochs) for n in stages.IMAGES}
    by_epochs = {f"{n} epochs": (stages.CONFIRMED_IMAGES, n) for n in stages.EPOCHS}
    tables = []
    for points in (by_images, by_epochs):
        rows = [
            [
                title_of(arm),
                *(_few(stages.curve_condition(arm, *at), arm) for at in points.values()),
            ]
            for arm in stages.curve_words()
        ]
        tables.append(markdown_table(["error, %", *points], rows))
    return f"""## Where would it win?

Exploratory, three seeds: images per class with {epochs} epochs, and epochs with
{stages.CONFIRMED_IMAGES} images per class, otherwise as confirmed on CIFAR-100.

{tables[0]}
{tables[1]}
"""


def _few(where: str, arm: str) -> str:
    errors = stages.errors(where, arm, stages.FEW_SEEDS).values()
    return f"{statistics.fmean(errors):.1f}" if len(errors) == len(stages.FEW_SEEDS) else ""


def records_table() -> str:
    """Returns the attempts at a record of a fixed budget as Markdown, and how to add one."""
    arms = _by_arm(run for run in stages.collected() if run.recipe == "records")
    holder: list[RunRecord] = []
    rows = []
    for title, words in stages.RECORDS.items():
        runs = arms.get(title, [])
        if len(runs) < len(stages.RECORD_SEEDS):
            continue
        pairs = zip(runs, holder, strict=bool(holder))
        differences = [run.metrics["error"] - old.metrics["error"] for run, old in pairs]
        p = paired_test(differences)
        lower = p is not None and p < RECORD_LEVEL and statistics.fmean(differences) < 0
        if lower or not holder:
            holder = runs
        rows.append(
            [
                f"**{title}**" if holder is runs else title,
                _spread(runs, "error"),
                _difference(differences) if differences else "",
                "" if p is None else f"{p:.4f}",
                f"`{' '.join(words)}`",
            ]
        )
    head = ["", "error, %", "minus the record", "p", "`comixup train ... --method`"]
    table = markdown_table(head, rows) if rows else "No attempt has been trained yet.\n"
    return _RECORDS.format(table=table, level=RECORD_LEVEL)


def _search() -> str:
    """Returns the tables of the stages that chose, on classes and seeds that are not reported."""
    groups: dict[str, list[RunRecord]] = {}
    for run in stages.collected():
        if run.recipe.startswith("stage0/"):
            groups.setdefault(run.recipe.removeprefix("stage0/"), []).append(run)
    rows = []
    for name, runs in groups.items():
        (augment, _, epochs), by = name.rpartition("-"), _by_arm(runs)
        errors = [_judged(by[method]) for method in ("vanilla", "input-p0.5")]
        rows.append([f"{_AUGMENTATIONS[augment]}, {epochs} epochs", *errors])
    length = markdown_table(["", "vanilla, %", "input mixup, p = 0.5, %"], rows)
    augment, epochs = stages.condition()
    where = f"stage1/{augment}-{epochs}"
    named: dict[str, list[RunRecord]] = {}
    for (name, arm, _), run in sorted(stages.results().items()):
        if name == where:
            named.setdefault(arm, []).append(run)
    order = sorted(named, key=lambda arm: (-len(named[arm]), _error(named[arm])))
    rows = [[title_of(arm), str(len(named[arm])), _judged(named[arm])] for arm in order]
    candidates = markdown_table(["", "seeds", "error, %"], rows)
    return f"""## The search

Mean of the errors on held-out and test images of classes that are not reported.

{length}
{candidates}"""


def differences_figure(found: Sequence[Comparison]) -> Figure:
    """Returns a panel per comparison: errors minus the first arm's, with 95 % intervals."""
    lines = [len(each.differences) for each in found]
    with style.context("default"):
        figure = Figure((8.0, 0.7 * len(found) + 0.32 * sum(lines)), layout="constrained")
        panels = figure.subplots(len(found), 1, sharex=True, height_ratios=lines, squeeze=False)
        for ax, each in zip(panels[:, 0], found, strict=True):
            for row, differences in enumerate(each.differences.values()):
                mean, interval = statistics.fmean(differences), paired_interval(differences)
                if interval is None or len(differences) < len(stages.FEW_SEEDS):
                    interval = (mean, mean)  # that of two would be wider than the figure
                low, high = interval
                colour = BLUE if 0 < low < high or low < high < 0 else GREY
                ax.errorbar(mean, row, xerr=[[mean - low], [high - mean]], fmt="o", color=colour)
            ax.set_yticks(range(len(each.differences)), [title_of(arm) for arm in each.differences])
            ax.invert_yaxis()
            ax.margins(y=0.5 / len(each.differences))
            ax.axvline(0, color="black", lw=0.8)
            ax.grid(axis="x", color="#dddddd", lw=0.6)
            ax.set_axisbelow(True)
            first = title_of(next(iter(each.runs)))
            ax.set_title(f"{each.title}\nagainst: {first}", fontsize=9, loc="left")
            ax.tick_params(labelsize=8)
        figure.supxlabel("Error minus that of the method above the panel, points", fontsize=9)
    return figure


def _by_arm(runs: Iterable[RunRecord]) -> dict[str, list[RunRecord]]:
    arms: dict[str, list[RunRecord]] = {}
    for run in sorted(runs, key=lambda run: run.key):
        arms.setdefault(run.method, []).append(run)
    return arms


def _mean(runs: Sequence[RunRecord], name: str) -> float:
    return statistics.fmean(run.metrics[name] for run in runs)


def _error(runs: Sequence[RunRecord]) -> float:
    return statistics.fmean(map(stages.error_of, runs))


def _judged(runs: Sequence[RunRecord]) -> str:
    return f"{_error(runs):.2f}"


def _spread(runs: Sequence[RunRecord], name: str) -> str:
    decimals = 3 if "nll" in name else 1
    values = [run.metrics[name] for run in runs]
    spread = f" ± {statistics.stdev(values):.{decimals}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{decimals}f}{spread}"


def _difference(differences: Sequence[float]) -> str:
    interval, mean = paired_interval(differences), statistics.fmean(differences)
    return f"{mean:+.2f}" + (
        "" if interval is None else f" [{interval[0]:+.2f}, {interval[1]:+.2f}]"
    )
