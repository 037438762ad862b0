"""Tables as text: Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

NOTHING = "-"
"""The text of an empty cell."""


def markdown_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, align: Sequence[str] | None = None
) -> str:
    """Returns a Markdown table.

    Args:
        head: the header row.
        rows: the other rows.
        align: alignment of each column, such as "--:"; None: first left, others right.
    """
    align = [":--", *["--:"] * (len(head) - 1)] if align is None else align
    lines = [head, align, *rows]
    cells = ([re.sub(r"\s+", " ", text).replace("|", r"\|") for text in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def csv_table(rows: Sequence[Mapping[str, object]], digits: int | None = None) -> str:
    """Returns rows as CSV, with the union of their columns.

    Missing values, None and NaN become empty cells.

    Args:
        rows: values by column.
        digits: significant digits of numbers; None keeps all.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _csv_cell(value, digits) for name, value in row.items()})
    return text.getvalue()


def _csv_cell(value: object, digits: int | None) -> object:
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return ""
    return f"{value:.{digits}g}" if digits is not None and isinstance(value, float) else value


def read_csv(path: Path, text: Collection[str]) -> list[dict[str, float | str]]:
    """Returns the rows of a CSV file by column, without empty cells; none if there is no file.

    Args:
        path: the file.
        text: columns to keep as text, even if a value looks like a number (a commit such as
            12e4567). In others, only values that are not numbers stay text.
    """
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return [
            {name: cell if name in text else _value(cell) for name, cell in row.items() if cell}
            for row in csv.DictReader(file)
        ]


def _value(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell
