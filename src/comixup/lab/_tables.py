"""Tables as text: Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence

NOTHING = "-"
"""What an empty cell shows."""


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table, the first column aligned left and the others right."""
    lines = [head, [":--", *["--:"] * (len(head) - 1)], *rows]
    cells = ([re.sub(r"\s+", " ", text).replace("|", r"\|") for text in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def csv_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Returns rows as CSV; None and NaN become empty cells, and numbers keep all their digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        empty = {key for key, value in row.items() if value is None or value != value}  # noqa: PLR0124
        writer.writerow({key: "" if key in empty else value for key, value in row.items()})
    return text.getvalue()
