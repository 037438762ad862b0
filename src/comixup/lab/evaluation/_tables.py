"""A comparison as a table: for the terminal, in Markdown, in LaTeX and as CSV."""

from __future__ import annotations

import io
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from comixup._atomic_write import atomic_write, make_folder
from comixup.lab._tables import NOTHING, csv_table, markdown_table
from comixup.lab.evaluation._compare import FEWEST_RUNS, Column, Comparison

SMALLEST_P = 0.001
"""Smaller p-values are printed as less than this: few seeds do not tell them apart."""
_BEST = " *"
"""What marks the best in a terminal, where it is bold too."""
_BESIDE, _TEXT_WIDTH = 3, 80
"""Methods side by side, so that nothing is folded within the columns of most terminals."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def write_comparison(comparison: Comparison, folder: Path, stem: str = "comparison") -> list[Path]:
    """Writes a comparison as .txt, .md, .tex and .csv, each atomically; returns the files."""
    contents = {
        ".txt": as_text(comparison),
        ".md": as_markdown(comparison),
        ".tex": as_latex(comparison),
        ".csv": as_csv(comparison),
    }
    folder = Path(folder)
    make_folder(folder)
    for suffix, content in contents.items():
        atomic_write(folder / f"{stem}{suffix}", content)
    return [folder / f"{stem}{suffix}" for suffix in contents]


def as_rich(comparison: Comparison) -> Group:
    """Returns a comparison for the terminal: the metrics, the tests, and a note."""
    head = ["", "n", *(column.title for column in comparison.columns)]
    rows = _rows(comparison, f"{{}}{{}}{_BEST}", "±", NOTHING)
    groups = (rows[first : first + _BESIDE] for first in range(0, len(rows), _BESIDE))
    tables = [_rich("", [*zip(head, *group, strict=True)]) for group in groups]
    tables += [_tests(comparison)] if comparison.differences else []
    return Group(*tables, Text(note(comparison)))


def as_text(comparison: Comparison) -> str:
    """Returns what the terminal would show, without colours; a star marks the best."""
    console = Console(file=io.StringIO(), width=_TEXT_WIDTH, color_system=None)
    with console.capture() as shown:
        console.print(as_rich(comparison))
    return "".join(f"{line.rstrip()}\n" for line in shown.get().splitlines())


def as_markdown(comparison: Comparison) -> str:
    """Returns a comparison as Markdown tables, the best in bold."""
    head = ["method", "n", *(f"{c.title} {_arrow(c)}".strip() for c in comparison.columns)]
    texts = [markdown_table(head, _rows(comparison, "**{}**{}", "±", NOTHING))]
    if comparison.differences:
        texts.append(f"Differences from {comparison.reference}:\n")
        texts.append(markdown_table(_TESTS, _test_rows(comparison)))
    return "\n".join([*texts, f"{note(comparison)}\n"])


def as_latex(comparison: Comparison) -> str:
    """Returns a comparison as a LaTeX table for the package booktabs, the best in bold."""
    arrows = {"↓": r" ($\downarrow$)", "↑": r" ($\uparrow$)", "": ""}
    head = [f"{latex(c.title)}{arrows[_arrow(c)]}" for c in comparison.columns]
    rows = _rows(comparison, r"\textbf{{{}}}{}", r"$\pm$", "--")
    lines = [
        "".join(f"% {line}\n" for line in note(comparison).split(". ")).rstrip(),
        rf"\begin{{tabular}}{{lr{'c' * len(comparison.columns)}}}",
        r"\toprule",
        rf"{' & '.join(['Method', '$n$', *head])} \\",
        r"\midrule",
        *(rf"{' & '.join([latex(method), *cells])} \\" for method, *cells in rows),
    ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def as_csv(comparison: Comparison) -> str:
    """Returns a comparison as CSV: for each metric mean, std, n, whether best, and the tests."""
    rows: list[Mapping[str, object]] = []
    for method, cells in comparison.summaries.items():
        row: dict[str, object] = {"method": method, "n": comparison.runs[method]}
        for name, cell in cells.items():
            low, high = cell.interval or (None, None)
            found = {
                "mean": cell.mean,
                "std": cell.std,
                "n": len(cell.values),
                "best": int(cell.best),
                "difference": cell.difference,
                "welch_p": cell.welch,
                "paired_p": cell.paired,
                "holm_p": cell.holm,
                "low": low,
                "high": high,
                "pairs": cell.pairs,
            }
            row |= {f"{name}_{key}": value for key, value in found.items()}
        rows.append(row)
    return csv_table(rows)


def note(comparison: Comparison) -> str:
    """Returns what a reader has to know of the metrics."""
    words = "Mean ± standard deviation over n runs; the best mean is marked."
    if any(column.name.startswith("scaled_") for column in comparison.columns):
        words += " Scaled: after temperature scaling on images held out."
    if min(comparison.runs.values()) == 1:
        words += " With n = 1 there is no spread."
    if any((found.pairs or 0) < FEWEST_RUNS for found in comparison.differences):
        words += f" Differences over fewer than {FEWEST_RUNS} seeds in common are not tested."
    if any(found.welch is not None or found.paired is not None for found in comparison.differences):
        words += (
            f" p-values are two-sided, against {comparison.reference}, by Welch's t-test and by "
            "the paired t-test over seeds in common, to which the intervals belong; each stands "
            f"for itself, of {len(comparison.differences)} in the table, but Holm's, which are "
            "adjusted for the number of differences that have one."
        )
    return words


def latex(text: str) -> str:
    r"""Returns a text with the signs that mean something in LaTeX made plain.

    >>> print(latex("input_2, 5 %"))
    input\_2, 5 \%
    """
    return "".join(_LATEX.get(sign, sign) for sign in text)


# ---- For the terminal --------------------------------------------------------------------------


def _tests(comparison: Comparison) -> Table:
    """Returns the differences, method by method."""
    head = ["", "difference, 95 %", *_TESTS[4:]]
    table = _rich(f"Differences from {comparison.reference}", [head])
    for method, rows in itertools.groupby(_test_rows(comparison), operator.itemgetter(0)):
        table.add_section()
        table.add_row(Text(method, "bold"))
        for _, metric, difference, interval, *tests in rows:
            ends = "" if interval == NOTHING else f" [{interval.replace(' to ', ', ')}]"
            table.add_row(Text(f"  {metric}"), Text(difference + ends), *map(Text, tests))
    return table


# ---- Cells --------------------------------------------------------------------------------------

_TESTS = (
    "method",
    "metric",
    "difference",
    "95 % interval",
    "Welch p",
    "paired p",
    "Holm p",
    "pairs",
)


def _test_rows(comparison: Comparison) -> list[list[str]]:
    columns, rows = {column.name: column for column in comparison.columns}, []
    for found in comparison.differences:
        column, interval = columns[found.column], NOTHING
        if found.interval is not None:
            interval = " to ".join(f"{end:+.{column.decimals}f}" for end in found.interval)
        tests = [_p(found.welch), _p(found.paired), _p(found.holm), str(found.pairs)]
        difference = f"{found.difference:+.{column.decimals}f}"
        rows.append([found.method, column.title, difference, interval, *tests])
    return rows


def _p(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"< {SMALLEST_P:g}" if value < SMALLEST_P else f"{value:.3f}"


def _rows(comparison: Comparison, best: str, sign: str, nothing: str) -> list[list[str]]:
    """Returns method, number of runs, and each metric's mean with its spread, row by row.

    Args:
        comparison: what to show.
        best: how the best is marked, given its mean and what follows it.
        sign: between mean and spread.
        nothing: what an empty cell shows.
    """
    rows = []
    for method, cells in comparison.summaries.items():
        runs = comparison.runs[method]
        row = [method, str(runs)]
        for column in comparison.columns:
            cell = cells[column.name]
            rest = "" if math.isnan(cell.std) else f" {sign} {cell.std:.{column.decimals}f}"
            if len(cell.values) != runs:
                rest += f" (n={len(cell.values)})"
            form = best if cell.best else "{}{}"
            mean = f"{cell.mean:.{column.decimals}f}"
            row.append(form.format(mean, rest) if cell.values else nothing)
        rows.append(row)
    return rows


def _arrow(column: Column) -> str:
    return {True: "↓", False: "↑", None: ""}[column.lower_is_better]


def _rich(title: str, rows: Sequence[Sequence[str]]) -> Table:
    table = Table(
        title=title or None,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title_justify="left",
    )
    for number, name in enumerate(rows[0]):
        table.add_column(Text(name), justify="right" if number else "left")
    for row in rows[1:]:
        table.add_row(*(Text(cell, "bold" if cell.endswith(_BEST) else "") for cell in row))
    return table
