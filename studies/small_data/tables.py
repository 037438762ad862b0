"""The comparison's tables as Markdown, and plain answers to the questions that it was made for."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from comixup.lab._tables import markdown_table
from comixup.lab.evaluation import RunRecord
from small_data.arms import (
    ALPHA,
    EXPLORED,
    FEW_SEEDS,
    HEADLINE,
    LENGTHS,
    METRICS,
    OTHER_SEEDS,
    OTHERS,
    REPLICATED,
    SEEDS,
    SETTINGS,
    by_arm,
    seeds_of_arms,
    titles,
)
from small_data.contrasts import Contrast, contrasts, exploratory

QUESTIONS = {
    ("comixup", "vanilla"): "Does Co-Mixup beat vanilla training of as many epochs?",
    ("comixup", "vanilla-double"): "... vanilla training of twice the epochs (equal compute)?",
    ("comixup", "cutmix-p0.5"): "... CutMix with p = 0.5 of as many epochs (half the compute)?",
    ("comixup", "cutmix-p0.5-double"): "... CutMix with p = 0.5 of twice the epochs (equal "
    "compute)?",
    ("comixup", "cutmix-clean"): "... CutMix with a clean loss (equal compute)?",
    ("comixup", "puzzlemix"): "... Puzzle Mix (equal compute)?",
    ("comixup", "comixup-shuffled"): "Does its saliency matter: does it beat Co-Mixup with "
    "shuffled saliency?",
    ("comixup-one-pass-double", "comixup"): "Does one-pass Co-Mixup of twice the epochs beat the "
    "paper's Co-Mixup (equal compute)?",
    ("comixup-one-pass-double", "vanilla-double"): "... vanilla training of twice the epochs "
    "(equal compute)?",
    ("comixup-one-pass-double", "cutmix-p0.5-double"): "... CutMix with p = 0.5 of twice the "
    "epochs (equal compute)?",
    ("comixup-one-pass-double", "cutmix-clean"): "... CutMix with a clean loss (equal compute)?",
    ("comixup-one-pass-double", "puzzlemix"): "... Puzzle Mix (equal compute)?",
    ("comixup-one-pass-double", "comixup-shuffled"): "... Co-Mixup with shuffled saliency (equal "
    "compute)?",
    ("comixup-one-pass", "vanilla"): "Does one-pass Co-Mixup beat vanilla training of as many "
    "epochs (equal compute)?",
    ("comixup-one-pass", "cutmix-p0.5"): "... CutMix with p = 0.5 of as many epochs (equal "
    "compute)?",
    ("comixup-one-pass", "comixup"): "... the paper's Co-Mixup of as many epochs (twice the "
    "compute)?",
}
"""(first arm, second arm): what is asked of them."""


def report(runs: Sequence[RunRecord]) -> str:
    """Returns the tables as Markdown."""
    arms = by_arm(runs)
    family = contrasts(runs)
    parts = [
        "### Answers",
        answers_table(runs, family),
        "Error and ECE: the first arm's mean minus the second's over paired seeds, in points, with "
        "the 95 % confidence interval; negative is in favour of the first. *Yes* and *no, worse*: "
        f"a claim of the primary family (adjusted p < {ALPHA}, all {len(SEEDS)} seeds). *Not "
        "shown*: the difference may be chance. *Exploratory*: outside of the family, where an "
        "interval that excludes zero is called *likely*. *Open*: runs are missing.",
        "### Headline",
        _means_table(arms, HEADLINE),
        "Mean ± standard deviation over the seeds. *Passes*: forward and backward passes over a "
        "training image. *scaled*: after temperature scaling, fitted on the images held out.",
        "### Primary family",
        _contrast_table(family),
        "Differences are the reference's mean minus the other arm's, over paired seeds, in "
        "points: negative favours the reference. In brackets the 95 % confidence interval; "
        f"*p*: paired t-test, adjusted by Holm's method over all tests of the family. "
        f"**Bold**, a claim: p < {ALPHA} with all {len(SEEDS)} seeds.",
    ]
    if any(arm in arms for arm in OTHERS):
        parts += ["### Other arms (exploratory)", _means_table(arms, OTHERS)]
    if any(arm in arms for arm in SETTINGS):
        names = {"comixup": HEADLINE["comixup"], **SETTINGS}
        few = {arm: [c for c in arms.get(arm, ()) if c.seed in FEW_SEEDS] for arm in names}
        parts += ["### Settings (exploratory, the first seeds)", _means_table(few, names)]
    parts += _explored(runs)
    parts += _replications(runs)
    lengths = {
        arm: f"{title}, {length}"
        for title, versions in LENGTHS.items()
        for arm, length in zip(versions, ("0.5x epochs", "1x epochs", "2x epochs"), strict=True)
    }
    parts += ["### Lengths of training", _means_table(arms, lengths)]
    return "\n\n".join(parts) + "\n"


def _explored(runs: Sequence[RunRecord]) -> list[str]:
    """Returns how arms outside of the primary family differ from what they are a variant of."""
    pairs = [(arm, against) for against, others in EXPLORED.items() for arm in others]
    found = exploratory(runs, pairs)
    if not found:
        return []
    names = titles()
    rows = []
    for error, ece in zip(found[::2], found[1::2], strict=True):
        shown = [f"**{c}**" if c.beyond_chance else str(c) for c in (error, ece)]
        rows.append([names[error.reference], names[error.arm], str(error.pairs), *shown])
    return [
        "### Other differences (exploratory)",
        _table(["arm", "against", "seeds", "error", "ECE"], rows, left=2),
        "The arm's mean minus the other's, over the seeds that both have, in points, with 95 % "
        "confidence intervals that are not adjusted for their number; **bold** where they exclude "
        "zero, which claims nothing.",
    ]


def _replications(runs: Sequence[RunRecord]) -> list[str]:
    """Returns what controls tell on the planned seeds, on new ones, and on all."""
    parts = []
    for pair, question in REPLICATED.items():
        rows = []
        for seeds in (OTHER_SEEDS, range(len(OTHER_SEEDS), len(SEEDS)), SEEDS):
            found = exploratory([run for run in runs if run.seed in seeds], [pair])
            for contrast in found[:1]:  # the error
                p = "" if contrast.p is None else f"{contrast.p:.3f}"
                rows.append([f"{seeds[0]} to {seeds[-1]}", str(contrast.pairs), str(contrast), p])
        if rows:
            names = titles()
            parts += [
                f"### {question}",
                _table(["seeds", "pairs", "error", "p, not adjusted"], rows),
                f"{names[pair[0]]}, minus: {names[pair[1]]}. The first five seeds were planned; "
                "the others are their replication, tested by itself.",
            ]
    return parts


def _means_table(arms: Mapping[str, Sequence[RunRecord]], names: Mapping[str, str]) -> str:
    columns = {
        "error, %": "error",
        "NLL": "nll",
        "ECE, %": "ece",
        "NLL, scaled": "scaled_nll",
        "ECE, scaled, %": "scaled_ece",
    }
    rows = []
    for arm, title in names.items():
        own = arms.get(arm)
        if not own:
            continue
        values = [[run.metrics[name] for run in own] for name in columns.values()]
        minutes = statistics.fmean(run.metrics["cpu_seconds"] for run in own) / 60
        rows.append(
            [
                title,
                str(len(own)),
                f"{own[0].metrics['passes']:g}",
                *(
                    _spread(column, 3 if "NLL" in n else 2)
                    for n, column in zip(columns, values, strict=True)
                ),
                f"{minutes:.1f}",
            ]
        )
    return _table(["arm", "seeds", "passes", *columns, "CPU-minutes"], rows)


def _contrast_table(family: Sequence[Contrast]) -> str:
    names = titles()
    rows = []
    for error, ece in zip(family[::2], family[1::2], strict=True):
        shown = [text for c in (error, ece) for text in _emphasized(c)]
        rows.append([names[error.reference], names[error.arm], str(error.pairs), *shown])
    return _table(["reference", "against", "seeds", "error", "p", "ECE", "p"], rows, left=2)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Returns a Markdown table whose first columns are aligned left."""
    align = [*["---"] * left, *["---:"] * (len(head) - left)]
    return markdown_table(head, rows, align=align).rstrip()


def _emphasized(contrast: Contrast) -> list[str]:
    texts = [str(contrast), contrast.adjusted_p]
    return [f"**{text}**" for text in texts] if contrast.claimed else texts


def _spread(values: Sequence[float], decimals: int) -> str:
    if len(values) < 2:
        return f"{values[0]:.{decimals}f}"
    return f"{statistics.fmean(values):.{decimals}f} ± {statistics.stdev(values):.{decimals}f}"


# ---- Answers ------------------------------------------------------------------------------------


def answers_table(runs: Sequence[RunRecord], family: Sequence[Contrast]) -> str:
    """Returns each question with what error and ECE say, as Markdown.

    Args:
        runs: of all arms.
        family: the primary family's contrasts, with adjusted p-values.
    """
    known = {(c.reference, c.arm, c.metric): c for c in family}
    known |= {(c.arm, c.reference, c.metric): c.reversed() for c in family}
    others = [pair for pair in QUESTIONS if (*pair, METRICS[0]) not in known]
    known |= {(c.reference, c.arm, c.metric): c for c in exploratory(runs, others)}
    rows = []
    for pair, question in QUESTIONS.items():
        rows.append([question, *(_answer(known.get((*pair, metric))) for metric in METRICS)])
    return _table(["question", "error", "ECE"], rows, left=3)


def _answer(contrast: Contrast | None) -> str:
    if contrast is None or contrast.pairs < 2:
        return "open"
    shown = str(contrast)
    seeds = seeds_of_arms()
    planned = min(len(seeds[contrast.reference]), len(seeds[contrast.arm]))
    if contrast.pairs < planned:
        return f"open: {shown}, {contrast.pairs} of {planned} seeds"
    lower = contrast.difference < 0
    if contrast.claimed:
        return f"**{'yes' if lower else 'no, worse'}**: {shown}"
    if contrast.holm is not None:
        return f"not shown: {shown}"
    verdict = ("likely" if lower else "likely worse") if contrast.beyond_chance else "not shown"
    return f"exploratory, {verdict}: {shown}"
