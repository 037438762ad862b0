"""A comparison as a table: for the terminal, in Markdown, in LaTeX and as CSV."""

from __future__ import annotations

import io
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from comixup._atomic_write import atomic_write, make_folder
from comixup.lab._tables import NOTHING, csv_table, markdown_table
from comixup.lab.evaluation._compare import FEWEST_RUNS, Column, Comparison, Difference, Summary

SMALLEST_P = 0.001
"""Smaller p-values are printed as less than this: few seeds do not tell them apart."""
_TEXT_WIDTH = 500
"""Columns of a text file: nothing is folded."""
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
    tables: list[RenderableType] = [_Metrics(comparison)]
    if comparison.differences:
        tables.append(_tests(comparison))
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
    rows = [
        [
            method,
            str(comparison.runs[method]),
            *(_bold(cells[c.name], c, comparison.runs[method]) for c in comparison.columns),
        ]
        for method, cells in comparison.summaries.items()
    ]
    texts = [markdown_table(head, rows)]
    if comparison.differences:
        texts.append(f"Differences from {comparison.reference}:\n")
        texts.append(markdown_table(_TESTS, _test_rows(comparison)))
    return "\n".join([*texts, f"{note(comparison)}\n"])


def as_latex(comparison: Comparison) -> str:
    """Returns a comparison as a LaTeX table for the package booktabs, the best in bold."""
    arrows = {"↓": r" ($\downarrow$)", "↑": r" ($\uparrow$)", "": ""}
    head = [f"{latex(c.title)}{arrows[_arrow(c)]}" for c in comparison.columns]
    lines = [
        "".join(f"% {line}\n" for line in note(comparison).split(". ")).rstrip(),
        rf"\begin{{tabular}}{{lr{'c' * len(comparison.columns)}}}",
        r"\toprule",
        rf"{' & '.join(['Method', '$n$', *head])} \\",
        r"\midrule",
    ]
    for method, cells in comparison.summaries.items():
        count = comparison.runs[method]
        words = [_latex_cell(cells[c.name], c, count) for c in comparison.columns]
        lines.append(rf"{' & '.join([latex(method), str(count), *words])} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def as_csv(comparison: Comparison) -> str:
    """Returns a comparison as CSV: for each metric mean, std, n, whether best, and the tests."""
    tests = {(d.method, d.column): d for d in comparison.differences}
    rows: list[Mapping[str, object]] = []
    for method, cells in comparison.summaries.items():
        row: dict[str, object] = {"method": method, "n": comparison.runs[method]}
        for column in comparison.columns:
            cell, test = cells[column.name], tests.get((method, column.name))
            found = {
                "mean": cell.mean,
                "std": cell.std,
                "n": len(cell.values),
                "best": int(cell.best),
                "difference": test.difference if test else None,
                "welch_p": test.welch if test else None,
                "paired_p": test.paired if test else None,
                "holm_p": test.holm if test else None,
                "low": test.interval[0] if test and test.interval else None,
                "high": test.interval[1] if test and test.interval else None,
                "pairs": test.pairs if test else None,
            }
            row |= {f"{column.name}_{key}": value for key, value in found.items()}
        rows.append(row)
    return csv_table(rows)


def note(comparison: Comparison) -> str:
    """Returns what a reader has to know of the metrics."""
    words = "Mean ± standard deviation over n runs; the best mean is marked."
    if any(column.name.startswith("scaled_") for column in comparison.columns):
        words += " Scaled: after temperature scaling on images held out."
    if min(comparison.runs.values()) == 1:
        words += " With n = 1 there is no spread."
    if any(found.pairs < FEWEST_RUNS for found in comparison.differences):
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


class _Metrics:
    """The metrics of all methods: a row for each, or a column where rows would be folded."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        methods, unfolded = list(self.comparison.summaries), options.update_width(_TEXT_WIDTH)
        rows = self._rows()
        if console.measure(rows, options=unfolded).maximum <= options.max_width:
            yield rows
            return
        while methods:
            count = len(methods)
            while count > 1:
                needed = console.measure(self._columns(methods[:count]), options=unfolded).maximum
                if needed <= options.max_width:
                    break
                count -= 1
            yield self._columns(methods[:count])
            methods = methods[count:]

    def _rows(self) -> Table:
        columns = self.comparison.columns
        table = _rich("", ["method", "n", *(column.title for column in columns)])
        for method in self.comparison.summaries:
            texts = [self._text(method, column) for column in columns]
            table.add_row(Text(method), str(self.comparison.runs[method]), *texts)
        return table

    def _columns(self, methods: Sequence[str]) -> Table:
        table = _rich("", ["", *methods])
        table.add_row("n", *(str(self.comparison.runs[method]) for method in methods))
        for column in self.comparison.columns:
            texts = [self._text(method, column) for method in methods]
            table.add_row(Text(column.title), *texts)
        return table

    def _text(self, method: str, column: Column) -> Text:
        cell = self.comparison.summaries[method][column.name]
        return Text(_words(cell, column, self.comparison.runs[method]), _style(cell))


def _tests(comparison: Comparison) -> Table:
    """Returns the differences, method by method, within the 80 columns of most terminals."""
    head = ["", "difference, 95 %", *_TESTS[4:]]
    table = _rich(f"Differences from {comparison.reference}", head)
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
    columns = {column.name: column for column in comparison.columns}
    return [_test_row(found, columns[found.column]) for found in comparison.differences]


def _test_row(found: Difference, column: Column) -> list[str]:
    difference = f"{found.difference:+.{column.decimals}f}"
    interval = NOTHING
    if found.interval is not None:
        interval = " to ".join(f"{end:+.{column.decimals}f}" for end in found.interval)
    tests = [_p(found.welch), _p(found.paired), _p(found.holm), str(found.pairs)]
    return [found.method, column.title, difference, interval, *tests]


def _p(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"< {SMALLEST_P:g}" if value < SMALLEST_P else f"{value:.3f}"


def _mean(cell: Summary, column: Column) -> str:
    return f"{cell.mean:.{column.decimals}f}"


def _rest(cell: Summary, column: Column, runs: int, sign: str) -> str:
    """Returns what follows a mean: the spread, and the count where it is not the row's."""
    spread = "" if math.isnan(cell.std) else f" {sign} {cell.std:.{column.decimals}f}"
    return spread + (f" (n={len(cell.values)})" if len(cell.values) != runs else "")


def _words(cell: Summary, column: Column, runs: int) -> str:
    if not cell.values:
        return NOTHING
    return f"{_mean(cell, column)}{_rest(cell, column, runs, '±')}{' *' if cell.best else ''}"


def _bold(cell: Summary, column: Column, runs: int) -> str:
    if not cell.values:
        return NOTHING
    mean = f"**{_mean(cell, column)}**" if cell.best else _mean(cell, column)
    return mean + _rest(cell, column, runs, "±")


def _latex_cell(cell: Summary, column: Column, runs: int) -> str:
    if not cell.values:
        return "--"
    mean = rf"\textbf{{{_mean(cell, column)}}}" if cell.best else _mean(cell, column)
    return mean + _rest(cell, column, runs, r"$\pm$")


def _arrow(column: Column) -> str:
    return {True: "↓", False: "↑", None: ""}[column.lower_is_better]


def _style(cell: Summary) -> str:
    return "bold" if cell.best else ""


def _rich(title: str, head: Sequence[str]) -> Table:
    table = Table(
        title=title or None,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title_justify="left",
    )
    for number, name in enumerate(head):
        table.add_column(Text(name), justify="right" if number else "left")
    return table
