"""The comparison's tables as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from comixup.lab.paper.cells import Cell
from comixup.lab.paper.small_data._answers import answers_table
from comixup.lab.paper.small_data._arms import (
    ALPHA,
    EXPLORED,
    FEW_SEEDS,
    HEADLINE,
    LENGTHS,
    OTHER_SEEDS,
    OTHERS,
    REPLICATED,
    SEEDS,
    SETTINGS,
    by_arm,
    titles,
)
from comixup.lab.paper.small_data._contrasts import Contrast, contrasts, exploratory
from comixup.lab.paper.small_data._markdown import difference, markdown_table, p_value


def report(cells: Sequence[Cell]) -> str:
    """Returns the tables as Markdown."""
    arms = by_arm(cells)
    family = contrasts(cells)
    parts = [
        "### Answers",
        answers_table(cells, family),
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
    parts += _explored(cells)
    parts += _replications(cells)
    lengths = {
        arm: f"{title}, {length}"
        for title, versions in LENGTHS.items()
        for arm, length in zip(versions, ("0.5x epochs", "1x epochs", "2x epochs"), strict=True)
    }
    parts += ["### Lengths of training", _means_table(arms, lengths)]
    return "\n\n".join(parts) + "\n"


def _explored(cells: Sequence[Cell]) -> list[str]:
    """Returns how arms outside of the primary family differ from what they are a variant of."""
    pairs = [(arm, against) for against, others in EXPLORED.items() for arm in others]
    found = exploratory(cells, pairs)
    if not found:
        return []
    names = titles()
    rows = [["arm", "against", "seeds", "error", "ECE"], ["---", "---", *["---:"] * 3]]
    for error, ece in zip(found[::2], found[1::2], strict=True):
        shown = [f"**{difference(c)}**" if c.beyond_chance else difference(c) for c in (error, ece)]
        rows.append([names[error.reference], names[error.arm], str(error.pairs), *shown])
    return [
        "### Other differences (exploratory)",
        markdown_table(rows),
        "The arm's mean minus the other's, over the seeds that both have, in points, with 95 % "
        "confidence intervals that are not adjusted for their number; **bold** where they exclude "
        "zero, which claims nothing.",
    ]


def _replications(cells: Sequence[Cell]) -> list[str]:
    """Returns what controls tell on the planned seeds, on new ones, and on all."""
    parts = []
    for pair, question in REPLICATED.items():
        rows = []
        for seeds in (OTHER_SEEDS, range(len(OTHER_SEEDS), len(SEEDS)), SEEDS):
            found = exploratory([cell for cell in cells if cell.seed in seeds], [pair])
            for contrast in found[:1]:  # the error
                p = "" if contrast.p is None else f"{contrast.p:.3f}"
                rows.append(
                    [f"{seeds[0]} to {seeds[-1]}", str(contrast.pairs), difference(contrast), p]
                )
        if rows:
            head = [["seeds", "pairs", "error", "p, not adjusted"], ["---", *["---:"] * 3]]
            names = titles()
            parts += [
                f"### {question}",
                markdown_table([*head, *rows]),
                f"{names[pair[0]]}, minus: {names[pair[1]]}. The first five seeds were planned; "
                "the others are their replication, tested by itself.",
            ]
    return parts


def _means_table(arms: Mapping[str, Sequence[Cell]], names: Mapping[str, str]) -> str:
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
    for arm, title in names.items():
        own = arms.get(arm)
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
    return markdown_table(rows)


def _contrast_table(family: Sequence[Contrast]) -> str:
    names = titles()
    rows = [
        ["reference", "against", "seeds", "error", "p", "ECE", "p"],
        ["---", "---", *["---:"] * 5],
    ]
    for error, ece in zip(family[::2], family[1::2], strict=True):
        shown = [text for c in (error, ece) for text in _emphasized(c)]
        rows.append([names[error.reference], names[error.arm], str(error.pairs), *shown])
    return markdown_table(rows)


def _emphasized(contrast: Contrast) -> list[str]:
    texts = [difference(contrast), p_value(contrast)]
    return [f"**{text}**" for text in texts] if contrast.claimed else texts


def _spread(values: Sequence[float], decimals: int) -> str:
    if len(values) < 2:
        return f"{values[0]:.{decimals}f}"
    return f"{statistics.fmean(values):.{decimals}f} ± {statistics.stdev(values):.{decimals}f}"
