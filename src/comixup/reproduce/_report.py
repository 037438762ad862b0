"""The report: every table and figure with the paper's values, ours, and where ours come from."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from comixup._atomic_write import atomic_write, make_folder
from comixup._plots import write_figure
from comixup.evaluation import Bin, Metrics, draw_reliability
from comixup.reproduce import small_data
from comixup.reproduce._costs import Cost
from comixup.reproduce._figures import convergence_figure, mixed_batches_figure, run_time_figure
from comixup.reproduce._html import anchor, html_page
from comixup.reproduce._items import ITEMS, Item
from comixup.reproduce._jobs import jobs_of, run_key
from comixup.reproduce._published import METHODS
from comixup.reproduce._report_tables import ANALYSES, trained_table, values_of
from comixup.reproduce._small_recipes import DIGITS
from comixup.reproduce._store import (
    Made,
    Row,
    commit_cells,
    read_all,
    read_committed,
    read_out,
    write_rows,
)
from comixup.reproduce._trained_tables import SCALES, Entry, Scale
from comixup.reproduce.cells import read_cells

_DPI = 130
_WIDTH = 100
_DRAWN = {
    "mixed-batches": ("mixed-batches", mixed_batches_figure),
    "convergence": ("narasimhan-bilmes", convergence_figure),
    "run-time": ("run-time", run_time_figure),
}
"""Figures of numbers, by item: the first word of their cells' keys, and what draws them."""
_INTRODUCTION = """\
Every table and figure of *Co-Mixup: Saliency Guided Joint Mixup with Supermodular Diversity* (ICLR
2021): what the paper printed, what was measured with this package, by which command, and why they
differ. Where nothing was measured, the command that would do so and what it costs. Numbers in
parentheses behind ours count seeds; ± is a standard deviation over them. This page is made from
committed cells by `comixup reproduce --report`."""


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
    drawn = [*_DRAWN, "compatibility", "reliability", "small-data"]
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
    parts = ["# The paper, reproduced", _INTRODUCTION, _contents(made)]
    for item in ITEMS.values():
        parts += [
            f"## {_heading(item)}",
            *_section(item, made, results, folder, pictures, suffixes),
        ]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def there(item: Item, scale: Scale, made: Mapping[str, Made]) -> tuple[int, int]:
    """Returns how many cells of an item are there at a scale, and how many there are in all."""
    keys = [job.key for job in jobs_of(item, scale)]
    return sum(key in made for key in keys), len(keys)


def _heading(item: Item) -> str:
    return f"{item.source[0].upper()}{item.source[1:]}: {item.title}"


def _contents(made: Mapping[str, Made]) -> str:
    lines = []
    for item in ITEMS.values():
        counts = []
        for scale in SCALES:
            done, total = there(item, scale, made)
            counts.append(f"{scale} {done} of {total}" if total else "")
        link = f"[{_heading(item)}](#{anchor(_heading(item))})"
        lines.append(f"- {link}: cells, {', '.join(filter(None, counts))}")
    return "\n".join(lines)


def _section(
    item: Item,
    made: Mapping[str, Made],
    results: Path,
    folder: Path,
    pictures: Sequence[Path],
    suffixes: Sequence[str],
) -> list[str]:
    parts = [_wrapped(f"**Printed:** {item.printed}.")]
    if item.kind == "study":
        parts += _study(results, folder, suffixes)
    elif item.name == "reliability":
        parts += _reliability(item, made, folder)
    elif item.entries:
        parts.append(trained_table(item, made))
    else:
        parts += _analysis(item, made, folder, suffixes)
    if item.kind == "pictures":
        parts += _pictures(item, folder, pictures)
    parts += [_wrapped(f"**Slip in the paper:** {item.slip}")] if item.slip else []
    parts += [_wrapped(f"**Why ours differ:** {item.differs}")] if item.differs else []
    return [*parts, _origin(item, made)]


def _analysis(
    item: Item, made: Mapping[str, Made], folder: Path, suffixes: Sequence[str]
) -> list[str]:
    parts = []
    if item.name in ANALYSES:
        group, table = ANALYSES[item.name]
        rows = rows_of(group, made)
        if rows:
            parts.append(table(rows))
    if item.name in _DRAWN:
        group, figure = _DRAWN[item.name]
        rows = rows_of(group, made)
        if rows:
            drawn = figure(rows)
            for suffix in suffixes:
                write_figure(drawn, folder / "figures" / f"{item.name}{suffix}", _DPI)
            parts.append(f"![{item.title}](figures/{item.name}.png)")
    return parts


def _pictures(item: Item, folder: Path, places: Sequence[Path]) -> list[str]:
    """Returns the pictures of an item that are there, copied into the report's folder."""
    found: dict[str, Path] = {}
    for place in places:
        names = (*place.glob(f"{item.name}-*.png"), *place.glob(f"{item.name}.png"))
        for path in sorted(names):
            found.setdefault(path.name, path)
    parts = []
    for name, path in found.items():
        target = folder / "figures" / name
        make_folder(target.parent)
        if path.resolve() != target.resolve():
            shutil.copyfile(path, target)
        parts.append(f"![{item.title}: {Path(name).stem}](figures/{name})")
    return parts


def _reliability(item: Item, made: Mapping[str, Made], folder: Path) -> list[str]:
    """Returns a row of diagrams for each data set that has runs with bins."""
    parts = []
    for row in dict.fromkeys(entry.row for entry in item.entries):
        for scale in SCALES:
            entries = [entry for entry in item.entries if entry.row == row]
            panels = {METHODS[key]: runs for key, runs in _metrics(entries, scale, made).items()}
            if not panels:
                continue
            name = f"reliability.{row.lower()}-{scale}.png"
            make_folder(folder / "figures")
            draw_reliability(panels, folder / "figures" / name)
            recipe = next(entry.runs[scale][0].recipe for entry in entries if entry.runs[scale])
            parts += [f"{row}, {scale} scale (`{recipe}`):", f"![{row}](figures/{name})"]
    return parts


def _metrics(
    entries: Sequence[Entry], scale: Scale, made: Mapping[str, Made]
) -> dict[str, list[Metrics]]:
    panels: dict[str, list[Metrics]] = {}
    for entry in entries:
        for run in entry.runs[scale]:
            for row in made[run_key(run)].rows if run_key(run) in made else ():
                if "bins" in row:
                    panels.setdefault(run.method, []).append(_metrics_of(row))
    return panels


def _metrics_of(row: Row) -> Metrics:
    """Returns what a reliability diagram needs of a run's row."""
    texts = [text.split(":") for text in str(row["bins"]).split()]
    bins = tuple(Bin(int(n), float(c), float(a)) for n, c, a in texts)
    nan = float("nan")
    return Metrics(
        sum(b.count for b in bins), float(row["error"]), (nan, nan), nan, (nan, nan),
        float(row["ece"]), nan, nan, nan, bins,
    )  # fmt: skip


def _study(results: Path, folder: Path, suffixes: Sequence[str]) -> list[str]:
    """Returns the report of the study on small data, with its figure of compute."""
    path = results / small_data.CELLS.name
    if not path.is_file():
        return []
    cells = read_cells(path)
    for suffix in suffixes:
        figure = small_data.compute_figure(cells)
        write_figure(figure, folder / "figures" / f"small-data.compute{suffix}", _DPI)
    return [
        small_data.report(cells),
        "![Error and ECE against compute](figures/small-data.compute.png)",
    ]


def _origin(item: Item, made: Mapping[str, Made]) -> str:
    """Returns the commands of an item, with what they made or would cost."""
    parts = []
    for scale in SCALES:
        jobs = jobs_of(item, scale)
        if not jobs or (scale == "paper" and _same_at_both(item)):
            continue
        command = f"`comixup reproduce {item.name} --scale {scale}`"
        cells = [made[job.key] for job in jobs if job.key in made]
        cost = sum((job.cost for job in jobs if job.key not in made), Cost())
        count = f"{len(cells)} of {len(jobs)} cells"
        if not cells:
            parts.append(f"{command}: not run; about {cost}")
        elif len(cells) < len(jobs):
            parts.append(f"{command}: {count}, {_about(cells)}; the others take about {cost}")
        else:
            parts.append(f"{command}: all {len(jobs)} cells, {_about(cells)}")
    return "\n".join(_wrapped(f"- {part}.", "  ") for part in parts)


def _same_at_both(item: Item) -> bool:
    return [job.key for job in jobs_of(item, "small")] == [
        job.key for job in jobs_of(item, "paper")
    ]


def _about(cells: Sequence[Made]) -> str:
    """Returns date, machine and commits of cells, in words."""
    told = []
    for name in ("date", "machine", "versions"):
        values = sorted({str(cell.about[name]) for cell in cells if name in cell.about})
        if values:
            told.append(" to ".join(dict.fromkeys((values[0], values[-1])))
                        if name == "date" else "; ".join(values))  # fmt: skip
    commits = sorted({str(cell.about["commit"]) for cell in cells if "commit" in cell.about})
    told.append(f"commit {', '.join(commits)}" if commits else "commit unknown")
    return ", ".join(told)


def rows_of(group: str, made: Mapping[str, Made]) -> list[Row]:
    """Returns the rows of all cells whose key begins with a word."""
    return [row for key, cell in made.items() if key.startswith(f"{group}/") for row in cell.rows]


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


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
