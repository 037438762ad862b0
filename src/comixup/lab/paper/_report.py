"""The report: every table and figure with the paper's values, ours, and where ours come from."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from comixup._atomic_write import atomic_write, make_folder
from comixup._figures import write_figure
from comixup.lab._tables import csv_table
from comixup.lab.evaluation import RunRecord, draw_reliability
from comixup.lab.paper._figures import convergence_figure, mixed_batches_figure, run_time_figure
from comixup.lab.paper._html import anchor, html_page
from comixup.lab.paper._items import ITEMS, Item
from comixup.lab.paper._jobs import Cost, Job, jobs_of, same_at_both_scales, with_needed
from comixup.lab.paper._published import METHODS
from comixup.lab.paper._report_tables import ANALYSES, trained_table, values_of
from comixup.lab.paper._store import (
    JobResult,
    Row,
    commit_results,
    read_all,
    read_committed,
    read_out,
)
from comixup.lab.paper._trained_tables import DIGITS, SCALES, Entry, Scale

_TITLE = "# The paper's tables and figures, and what was measured"
_INTRODUCTION = """\
Every table and figure of *Co-Mixup: Saliency Guided Joint Mixup with Supermodular Diversity* (ICLR
2021): what the paper printed, what was measured with this package, by which command, and why they
differ. Where nothing was measured, the command that would do so and what it costs. What is ours *at
small scale* was trained by a recipe of our own, with another, small network and fewer classes than
the line of the paper above it. Numbers in parentheses behind ours count seeds; ± is a standard
deviation over them. This page is made from committed results by `comixup reproduce --report`. Our
own comparisons have pages of their own: [small data](small-data.md), [other data
sets](other-sets.md)."""
_DPI = 130
_WIDTH = 100
DRAWN = {
    "mixed-batches": ("mixed-batches", mixed_batches_figure),
    "photographs": ("photographs", mixed_batches_figure),
    "convergence": ("narasimhan-bilmes", convergence_figure),
    "run-time": ("run-time", run_time_figure),
}
"""Figures of numbers, by item: the first word of their jobs' keys, and what draws them."""
_DIGITS = 7


def write_report(results: Path, out: Path) -> Path:
    """Writes report.html and report.md with their figures and tables into the output folder.

    Returns the path of the page.

    Args:
        results: folder of the committed results.
        out: the output folder, whose own jobs count too.
    """
    made = read_all(results, out)
    text = report_text(made, out, pictures=(out / "figures", results / "figures"))
    atomic_write(out / "report.md", text)
    page = out / "report.html"
    atomic_write(page, html_page(text, out))
    for name, item in ITEMS.items():
        rows = table_rows(item, made)
        if rows:
            make_folder(out / "tables")
            atomic_write(out / "tables" / f"{name}.csv", csv_table(rows, _DIGITS))
    return page


def collect(results: Path, out: Path) -> int:
    """Adds the output folder's results to the committed ones, and writes report.md beside them.

    Pictures go along only if they show no image of a data set. Returns how many jobs were new.

    Args:
        results: folder of the committed results.
        out: the output folder.
    """
    new = commit_results(results, read_out(out))
    for path in sorted((out / "figures").glob("*.png")):
        if shows_no_data_set(path.name):
            make_folder(results / "figures")
            shutil.copyfile(path, results / "figures" / path.name)
    made = read_committed(results)
    text = report_text(made, results, pictures=(results / "figures",), suffixes=(".png",))
    atomic_write(results / "report.md", text)
    return new


def shows_no_data_set(name: str) -> bool:
    """Returns whether a picture may be committed: it is of digits, or of no images at all.

    >>> shows_no_data_set("samples-digits-pictures-inputs.png"), shows_no_data_set("methods-x.png")
    (True, False)
    """
    drawn = [*DRAWN, "compatibility", "reliability"]
    return DIGITS in name or any(name.startswith(f"{word}.") for word in drawn)


def report_text(
    made: Mapping[str, JobResult],
    folder: Path,
    *,
    pictures: Sequence[Path],
    suffixes: Sequence[str] = (".png", ".svg"),
) -> str:
    """Returns the report as Markdown, after drawing its figures into the folder.

    Args:
        made: all finished jobs.
        folder: where the report goes.
        pictures: folders to look for pictures of mixed images in.
        suffixes: of the figures to draw.
    """
    parts = [_TITLE, _INTRODUCTION, _contents(made)]
    for item in ITEMS.values():
        parts.append(f"## {_heading(item)}")
        parts += item_section(item, made, folder, pictures, suffixes)
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def word_for(item: Item) -> str:
    """Returns what an item is made of, in the plural."""
    return "runs" if item.entries else "jobs"


def _heading(item: Item) -> str:
    return f"{item.source[0].upper()}{item.source[1:]}: {item.title}"


def _contents(made: Mapping[str, JobResult]) -> str:
    lines = []
    for item in ITEMS.values():
        counts = []
        for scale in SCALES:
            keys = [job.key for job in jobs_of(item, scale)]
            if not keys or (scale == "paper" and same_at_both_scales(item)):
                continue
            word = "" if same_at_both_scales(item) else f" at {scale} scale"
            counts.append(
                f"{sum(key in made for key in keys)} of {len(keys)} {word_for(item)}{word}"
            )
        link = f"[{_heading(item)}](#{anchor(_heading(item))})"
        lines.append(f"- {link}: {', '.join(counts)}")
    return "\n".join(lines)


def table_rows(item: Item, made: Mapping[str, JobResult]) -> list[Row]:
    """Returns an item's numbers as rows of a CSV file: means of trained runs, or all rows."""
    if not item.entries:
        keys = {job.key for scale in SCALES for job in jobs_of(item, scale)}
        return [row for key, job in made.items() if key in keys for row in job.rows]
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


# ---- A section for each table or figure ----------------------------------------------------------


def item_section(
    item: Item,
    made: Mapping[str, JobResult],
    folder: Path,
    pictures: Sequence[Path],
    suffixes: Sequence[str],
) -> list[str]:
    """Returns the paragraphs, tables and pictures of an item, as Markdown.

    Args:
        item: the table or figure.
        made: all finished jobs.
        folder: where the report goes; figures are drawn into its folder `figures`.
        pictures: folders to look for pictures of mixed images in.
        suffixes: of the figures to draw.
    """
    parts = [_wrapped(f"**Printed:** {item.printed}.")]
    if item.name == "reliability":
        parts += _reliability(item, made, folder)
    elif item.entries:
        parts.append(trained_table(item, made))
    else:
        parts += _analysis(item, made, folder, suffixes)
    if item.kind == "pictures":
        parts += _pictures(item, folder, pictures)
    parts += [_wrapped(f"**About the paper:** {item.slip}")] if item.slip else []
    parts += [_wrapped(f"**Why ours differ:** {item.differs}")] if item.differs else []
    return [*parts, _origin(item, made)]


def _analysis(
    item: Item, made: Mapping[str, JobResult], folder: Path, suffixes: Sequence[str]
) -> list[str]:
    parts = []
    if item.name in ANALYSES:
        group, table = ANALYSES[item.name]
        rows = rows_of(group, made)
        if rows:
            parts.append(table(rows))
    if item.name in DRAWN:
        group, figure = DRAWN[item.name]
        rows = rows_of(group, made)
        if rows:
            drawn = figure(rows)
            for suffix in suffixes:
                write_figure(drawn, folder / "figures" / f"{item.name}{suffix}", _DPI)
            parts.append(f"![{item.title}](figures/{item.name}.png)")
    return parts


def _pictures(item: Item, folder: Path, searched: Sequence[Path]) -> list[str]:
    """Returns the pictures of an item that are there, copied into the report's folder."""
    found: dict[str, Path] = {}
    for source in searched:
        names = (*source.glob(f"{item.name}-*.png"), *source.glob(f"{item.name}.png"))
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


def _reliability(item: Item, made: Mapping[str, JobResult], folder: Path) -> list[str]:
    """Returns a row of diagrams for each data set that has runs with bins."""
    parts = []
    for row in dict.fromkeys(entry.row for entry in item.entries):
        for scale in SCALES:
            entries = [entry for entry in item.entries if entry.row == row]
            panels = {METHODS[key]: runs for key, runs in _runs(entries, scale, made).items()}
            if not panels:
                continue
            name = f"reliability.{row.lower()}-{scale}.png"
            make_folder(folder / "figures")
            draw_reliability(panels, folder / "figures" / name)
            recipe = next(entry.runs[scale][0].recipe for entry in entries if entry.runs[scale])
            parts += [f"{row}, {scale} scale (`{recipe}`):", f"![{row}](figures/{name})"]
    return parts


def _runs(
    entries: Sequence[Entry], scale: Scale, made: Mapping[str, JobResult]
) -> dict[str, list[RunRecord]]:
    """Returns the runs of entries that have bins, by method."""
    panels: dict[str, list[RunRecord]] = {}
    for entry in entries:
        for run in entry.runs[scale]:
            for row in made[run.key].rows if run.key in made else ():
                if "bins" in row:
                    panels.setdefault(run.method, []).append(RunRecord.from_row(row))
    return panels


def _origin(item: Item, made: Mapping[str, JobResult]) -> str:
    """Returns the commands of an item, with what they made or would cost."""
    parts = []
    for scale in SCALES:
        jobs = jobs_of(item, scale)
        if not jobs or (scale == "paper" and same_at_both_scales(item)):
            continue
        command = f"`comixup reproduce {item.name} --scale {scale}`"
        done = [made[job.key] for job in jobs if job.key in made]
        missing = [job for job in jobs if job.key not in made]
        needed = [job for job in with_needed(missing) if job.key not in made]
        cost = sum((job.cost for job in needed), Cost())
        word = word_for(item)
        count = f"{len(done)} of {len(jobs)} {word}"
        if not done:
            parts.append(f"{command}: not run; about {cost}")
        elif len(done) < len(jobs):
            told = f"{count}, {_seeds(jobs, made)}{_about(done)}"
            parts.append(f"{command}: {told}; the others take about {cost}")
        else:
            count = f"its {word[:-1]}" if len(jobs) == 1 else f"all {len(jobs)} {word}"
            told = f"{count}, {_seeds(jobs, made)}{_about(done)}"
            parts.append(f"{command}: {told}")
    return "\n".join(_wrapped(f"- {part}.", "  ") for part in parts)


def _seeds(jobs: Sequence[Job], made: Mapping[str, JobResult]) -> str:
    """Returns the seeds of the jobs that are done, in words."""
    found: set[int] = set()
    for job in jobs:
        if job.key in made:
            found |= set(job.arguments.get("seeds", ()))
            found |= {job.arguments["seed"]} if "seed" in job.arguments else set()
    if not found:
        return ""
    if found == set(range(len(found))) and len(found) > 1:
        return f"seeds 0 to {len(found) - 1}, "
    word = "seed" if len(found) == 1 else "seeds"
    return f"{word} {', '.join(map(str, sorted(found)))}, "


def _about(done: Sequence[JobResult]) -> str:
    """Returns date, machine and commits of jobs, in words."""
    told = []
    for name in ("date", "machine", "versions"):
        values = sorted({str(job.about[name]) for job in done if name in job.about})
        if values:
            told.append(" to ".join(dict.fromkeys((values[0], values[-1])))
                        if name == "date" else "; ".join(values))  # fmt: skip
    commits = sorted({str(job.about["commit"]) for job in done if "commit" in job.about})
    told.append(f"commit {', '.join(commits)}" if commits else "commit unknown")
    return ", ".join(told)


def rows_of(group: str, made: Mapping[str, JobResult]) -> list[Row]:
    """Returns the rows of all jobs whose key begins with a word."""
    return [row for key, job in made.items() if key.startswith(f"{group}/") for row in job.rows]


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
