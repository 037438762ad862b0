"""The report: every table and figure with the paper's values, ours, and where ours come from."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from comixup._atomic_write import atomic_write, make_folder
from comixup.lab.paper._html import anchor, html_page
from comixup.lab.paper._items import ITEMS, Item
from comixup.lab.paper._jobs import jobs_of, same_at_both_scales
from comixup.lab.paper._report_tables import values_of
from comixup.lab.paper._sections import DRAWN, item_section
from comixup.lab.paper._small_recipes import DIGITS
from comixup.lab.paper._store import (
    Made,
    Row,
    commit_cells,
    read_all,
    read_committed,
    read_out,
    write_rows,
)
from comixup.lab.paper._trained_tables import SCALES

_TITLE = "# The paper's tables and figures, and what was measured"
_INTRODUCTION = """\
Every table and figure of *Co-Mixup: Saliency Guided Joint Mixup with Supermodular Diversity* (ICLR
2021): what the paper printed, what was measured with this package, by which command, and why they
differ. Where nothing was measured, the command that would do so and what it costs. What is ours *at
small scale* was trained by a recipe of our own, with another, small network and fewer classes than
the line of the paper above it. Numbers in parentheses behind ours count seeds; ± is a standard
deviation over them. This page is made from committed cells by `comixup reproduce --report`."""


def write_report(results: Path, out: Path) -> Path:
    """Writes report.html and report.md with their figures and tables into the output folder.

    Returns the path of the page.

    Args:
        results: folder of the committed cells.
        out: the output folder, whose own cells count too.
    """
    made = read_all(results, out)
    text = report_text(made, results, out, pictures=(out / "figures", results / "figures"))
    atomic_write(out / "report.md", text)
    page = out / "report.html"
    atomic_write(page, html_page(text, out))
    for name, item in ITEMS.items():
        rows = table_rows(item, made)
        if rows:
            write_rows(out / "tables" / f"{name}.csv", rows)
    return page


def collect(results: Path, out: Path) -> int:
    """Adds the output folder's cells to the committed ones, and writes report.md beside them.

    Pictures go along only if they show no image of a data set. Returns how many cells were new.

    Args:
        results: folder of the committed cells.
        out: the output folder.
    """
    new = commit_cells(results, read_out(out))
    for path in sorted((out / "figures").glob("*.png")):
        if shows_no_data_set(path.name):
            make_folder(results / "figures")
            shutil.copyfile(path, results / "figures" / path.name)
    made = read_committed(results)
    text = report_text(made, results, results, pictures=(results / "figures",), suffixes=(".png",))
    atomic_write(results / "report.md", text)
    return new


def shows_no_data_set(name: str) -> bool:
    """Returns whether a picture may be committed: it is of digits, or of no images at all.

    >>> shows_no_data_set("samples-digits-pictures-inputs.png"), shows_no_data_set("methods-x.png")
    (True, False)
    """
    drawn = [*DRAWN, "compatibility", "reliability", "small-data"]
    return DIGITS in name or any(name.startswith(f"{word}.") for word in drawn)


def report_text(
    made: Mapping[str, Made],
    results: Path,
    folder: Path,
    *,
    pictures: Sequence[Path],
    suffixes: Sequence[str] = (".png", ".svg"),
) -> str:
    """Returns the report as Markdown, after drawing its figures into the folder.

    Args:
        made: all cells.
        results: folder of the committed cells, for the study on small data.
        folder: where the report goes.
        pictures: folders to look for pictures of mixed images in.
        suffixes: of the figures to draw.
    """
    parts = [_TITLE, _INTRODUCTION, _contents(made)]
    for item in ITEMS.values():
        parts.append(f"## {_heading(item)}")
        parts += item_section(item, made, results, folder, pictures, suffixes)
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _heading(item: Item) -> str:
    return f"{item.source[0].upper()}{item.source[1:]}: {item.title}"


def _contents(made: Mapping[str, Made]) -> str:
    lines = []
    for item in ITEMS.values():
        counts = []
        for scale in SCALES:
            keys = [job.key for job in jobs_of(item, scale)]
            if not keys or (scale == "paper" and same_at_both_scales(item)):
                continue
            word = "" if same_at_both_scales(item) else f" at {scale} scale"
            counts.append(f"{sum(key in made for key in keys)} of {len(keys)} cells{word}")
        link = f"[{_heading(item)}](#{anchor(_heading(item))})"
        lines.append(f"- {link}: {', '.join(counts)}")
    return "\n".join(lines)


def table_rows(item: Item, made: Mapping[str, Made]) -> list[Row]:
    """Returns an item's numbers as rows of a CSV file: means of trained runs, or all rows."""
    if not item.entries:
        keys = {job.key for scale in SCALES for job in jobs_of(item, scale)}
        return [row for key, cell in made.items() if key in keys for row in cell.rows]
    rows: list[Row] = []
    for entry in item.entries:
        for scale in SCALES:
            values = values_of(entry, scale, made)
            row: Row = {"row": entry.row, "column": entry.column, "metric": entry.metric}
            row |= {} if entry.paper is None else {"paper": entry.paper}
            if values:
                mean = sum(values) / len(values)
                row |= {"scale": scale, "ours": mean, "seeds": len(values)}
            if values or scale == "paper":
                rows.append(row)
    return rows
