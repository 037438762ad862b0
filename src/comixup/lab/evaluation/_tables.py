"""A comparison as a table: for the terminal, in Markdown and as CSV."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from comixup._atomic_write import atomic_write, make_folder
from comixup.lab._tables import NOTHING, csv_table, markdown_table
from comixup.lab.evaluation._compare import FEWEST_RUNS, Comparison

SMALLEST_P = 0.001
"""Smaller p-values are printed as less than this: few seeds do not tell them apart."""
_BEST = " *"
"""What marks the best in a terminal, where it is bold too."""
_BESIDE = 3
"""Methods side by side, so that nothing is folded within the columns of most terminals."""
_ARROWS = {True: "↓", False: "↑", None: ""}
_TESTS = ("method", "metric", "difference, 95 %", "Welch p", "paired p", "Holm p", "pairs")


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Writes a comparison as comparison.md and comparison.csv, each atomically."""
    make_folder(folder)
    atomic_write(folder / "comparison.md", as_markdown(comparison))
    atomic_write(folder / "comparison.csv", as_csv(comparison))


def as_rich(comparison: Comparison) -> Group:
    """Returns a comparison for the terminal: the metrics, the tests, and a note."""
    head = ["", "n", *(column.title for column in comparison.columns)]
    rows = _rows(comparison, f"{{}}{{}}{_BEST}")
    groups = (rows[first : first + _BESIDE] for first in range(0, len(rows), _BESIDE))
    tables = [_rich("", [*zip(head, *group, strict=True)]) for group in groups]
    for method, tests in itertools.groupby(_test_rows(comparison), operator.itemgetter(0)):
        title = f"{method}: differences from {comparison.reference}"
        tables.append(_rich(title, [_TESTS[1:], *(row[1:] for row in tests)]))
    return Group(*tables, Text(note(comparison)))


def as_markdown(comparison: Comparison) -> str:
    """Returns a comparison as Markdown tables, the best in bold."""
    arrows = (f"{c.title} {_ARROWS[c.lower_is_better]}".strip() for c in comparison.columns)
    texts = [markdown_table(["method", "n", *arrows], _rows(comparison, "**{}**{}"))]
    if comparison.differences:
        texts.append(f"Differences from {comparison.reference}:\n")
        texts.append(markdown_table(_TESTS, _test_rows(comparison)))
    return "\n".join([*texts, f"{note(comparison)}\n"])


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


def _test_rows(comparison: Comparison) -> list[list[str]]:
    columns, rows = {column.name: column for column in comparison.columns}, []
    for found in comparison.differences:
        column = columns[found.column]
        difference = f"{found.difference:+.{column.decimals}f}"
        if found.interval is not None:
            ends = (f"{end:+.{column.decimals}f}" for end in found.interval)
            difference += f" [{', '.join(ends)}]"
        tests = [_p(found.welch), _p(found.paired), _p(found.holm), str(found.pairs)]
        rows.append([found.method, column.title, difference, *tests])
    return rows


def _p(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"< {SMALLEST_P:g}" if value < SMALLEST_P else f"{value:.3f}"


def _rows(comparison: Comparison, best: str) -> list[list[str]]:
    """Returns method, number of runs, and each metric's mean with its spread, row by row.

    Args:
        comparison: what to show.
        best: how the best is marked, given its mean and what follows it.
    """
    rows = []
    for method, cells in comparison.summaries.items():
        runs = comparison.runs[method]
        row = [method, str(runs)]
        for column in comparison.columns:
            cell = cells[column.name]
            rest = "" if math.isnan(cell.std) else f" ± {cell.std:.{column.decimals}f}"
            if len(cell.values) != runs:
                rest += f" (n={len(cell.values)})"
            form = best if cell.best else "{}{}"
            mean = f"{cell.mean:.{column.decimals}f}"
            row.append(form.format(mean, rest) if cell.values else NOTHING)
        rows.append(row)
    return rows


def _rich(title: str, rows: Sequence[Sequence[str]]) -> Table:
    table = Table(
        title=Text(title) if title else None,
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
