"""Plain answers to the questions that the comparison was made for, from its cells."""

from __future__ import annotations

from collections.abc import Sequence

from comixup.lab.paper.cells import Cell
from comixup.lab.paper.small_data._arms import METRICS, seeds_of_arms
from comixup.lab.paper.small_data._contrasts import Contrast, exploratory
from comixup.lab.paper.small_data._markdown import difference, markdown_table

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


def answers_table(cells: Sequence[Cell], family: Sequence[Contrast]) -> str:
    """Returns each question with what error and ECE say, as Markdown.

    Args:
        cells: of all arms.
        family: the primary family's contrasts, with adjusted p-values.
    """
    known = {(c.reference, c.arm, c.metric): c for c in family}
    known |= {(c.arm, c.reference, c.metric): c.reversed() for c in family}
    others = [pair for pair in QUESTIONS if (*pair, METRICS[0]) not in known]
    known |= {(c.reference, c.arm, c.metric): c for c in exploratory(cells, others)}
    rows = [["question", "error", "ECE"], ["---"] * 3]
    for pair, question in QUESTIONS.items():
        rows.append([question, *(_answer(known.get((*pair, metric))) for metric in METRICS)])
    return markdown_table(rows)


def _answer(contrast: Contrast | None) -> str:
    if contrast is None or contrast.pairs < 2:
        return "open"
    shown = difference(contrast)
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
