"""The report: every table and figure with the paper's values, ours, and where ours come from."""

from __future__ import annotations

import itertools
import re
import shutil
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from comixup._atomic_write import atomic_write, make_folder
from comixup._figures import write_figure
from comixup.lab._tables import NOTHING, markdown_table
from comixup.lab.evaluation import RunRecord, draw_reliability
from comixup.lab.paper._analysis_report import FIGURES, TABLES
from comixup.lab.paper._items import ITEMS, SMALL_SCALE, Item
from comixup.lab.paper._jobs import Job, jobs_by_scale, total_cost, with_needed
from comixup.lab.paper._store import (
    JobResult,
    Row,
    commit_results,
    read_all,
    read_committed,
    read_out,
)
from comixup.lab.paper._trained_tables import COLUMNS, DIGITS, SCALES, Entry, Scale

_INTRODUCTION = """\
# The paper's tables and figures, and what was measured

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


def write_report(results: Path, out: Path) -> Path:
    """Writes report.md with its figures into the output folder; returns its path.

    Args:
        results: folder of the committed results.
        out: the output folder, whose own jobs count too.
    """
    made = read_all(results, out)
    make_folder(out / "figures")
    for path in (path for item in ITEMS.values() for path in _pictures(item, results)):
        if not (out / "figures" / path.name).exists():
            shutil.copyfile(path, out / "figures" / path.name)
    page = out / "report.md"
    atomic_write(page, _report_text(made, out))
    return page


def collect(results: Path, out: Path) -> int:
    """Adds the output folder's results to the committed ones, and writes report.md beside them.

    Pictures go along only if they show no image of a data set. Returns how many jobs were new.

    Args:
        results: folder of the committed results.
        out: the output folder.
    """
    new = commit_results(results, read_out(out))
    make_folder(results / "figures")
    for path in sorted((out / "figures").glob("*.png")):
        if shows_no_data_set(path.name):
            shutil.copyfile(path, results / "figures" / path.name)
    atomic_write(results / "report.md", _report_text(read_committed(results), results))
    return new


def shows_no_data_set(name: str) -> bool:
    """Returns whether a picture may be committed: it is of digits, or of no images at all.

    >>> shows_no_data_set("samples-digits-pictures-inputs.png"), shows_no_data_set("methods-x.png")
    (True, False)
    """
    return DIGITS in name or name.partition(".")[0] in (*FIGURES, "compatibility", "reliability")


def _report_text(made: Mapping[str, JobResult], folder: Path) -> str:
    """Returns the report as Markdown, after drawing its figures into the folder."""
    contents, sections = [], []
    for item in ITEMS.values():
        heading = f"{item.source}: {item.title}"
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")  # as GitHub makes it
        scales = jobs_by_scale(item)
        counts = [
            f"{sum(job.key in made for job in jobs)} of {len(jobs)} {_noun(item)}"
            + ("" if len(scales) == 1 else f" at {scale} scale")
            for scale, jobs in scales.items()
        ]
        contents.append(f"- [{heading}](#{anchor}): {', '.join(counts)}")
        sections += [f"## {heading}", *_section(item, made, folder)]
    parts = [_INTRODUCTION, "\n".join(contents), *sections]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _noun(item: Item) -> str:
    return "runs" if item.entries else "jobs"


def _section(item: Item, made: Mapping[str, JobResult], folder: Path) -> list[str]:
    """Returns the paragraphs, tables and pictures of an item, as Markdown."""
    name, rows = item.name, _rows_of(item, made)
    parts = [_wrapped(f"**Printed:** {item.printed}.")]
    if name == "reliability":
        parts += _reliability(item, made, folder)
    elif item.entries:
        parts.append(_trained_table(item, made))
    if rows and name in TABLES:
        parts.append(TABLES[name](rows))
    if rows and name in FIGURES:
        write_figure(FIGURES[name](rows), folder / "figures" / f"{name}.png", _DPI)
        parts.append(f"![{item.title}](figures/{name}.png)")
    for path in _pictures(item, folder):
        parts.append(f"![{item.title}: {path.stem}](figures/{path.name})")
    differs = (SMALL_SCALE if item.entries else "") + item.differs
    parts += [_wrapped(f"**About the paper:** {item.slip}")] if item.slip else []
    return [*parts, _wrapped(f"**Why ours differ:** {differs}"), _origin(item, made)]


def _rows_of(item: Item, made: Mapping[str, JobResult]) -> list[Row]:
    """Returns the rows of all jobs that an item is made of, if they are not runs."""
    return [
        row for key, job in made.items() if key.startswith(f"{item.group}/") for row in job.rows
    ]


def _pictures(item: Item, folder: Path) -> list[Path]:
    """Returns the pictures of mixed images that a folder has of an item."""
    if item.entries or item.name in FIGURES:
        return []
    figures = folder / "figures"
    return sorted([*figures.glob(f"{item.name}-*.png"), *figures.glob(f"{item.name}.png")])


def _reliability(item: Item, made: Mapping[str, JobResult], folder: Path) -> list[str]:
    """Returns a row of diagrams for each data set that has runs with bins."""
    parts = []
    for row, scale in itertools.product(dict.fromkeys(e.row for e in item.entries), SCALES):
        runs = [run for e in item.entries if e.row == row for run in e.runs[scale]]
        panels: dict[str, list[RunRecord]] = {}
        for run in runs:
            for record in made[run.key].rows if run.key in made else ():
                if "bins" in record:
                    own = panels.setdefault(COLUMNS[run.method], [])
                    own.append(RunRecord.from_row(record))
        if panels:
            name = f"reliability.{row.lower()}-{scale}.png"
            draw_reliability(panels, folder / "figures" / name)
            parts += [f"{row}, {scale} scale (`{runs[0].recipe}`):", f"![{row}](figures/{name})"]
    return parts


def _origin(item: Item, made: Mapping[str, JobResult]) -> str:
    """Returns the commands of an item, with what they made or would cost."""
    lines = []
    for scale, jobs in jobs_by_scale(item).items():
        missing = [job for job in with_needed(jobs) if job.key not in made]
        done = [job for job in jobs if job.key in made]
        words = f"`comixup reproduce {item.name} --scale {scale}`: "
        if done:
            count = f"{len(done)} of {len(jobs)} {_noun(item)}"
            if len(done) == len(jobs):
                word = _noun(item)
                count = f"its {word[:-1]}" if len(jobs) == 1 else f"all {len(jobs)} {word}"
            words += f"{count}, {_seeds(done)}{_about([made[job.key] for job in done])}"
        if len(done) < len(jobs):
            words += "; the others take about " if done else "not run; about "
            words += str(total_cost(missing))
        lines.append(_wrapped(f"- {words}.", "  "))
    return "\n".join(lines)


def _seeds(jobs: Sequence[Job]) -> str:
    """Returns the seeds of jobs, in words."""
    found = {seed for job in jobs for seed in job.arguments.get("seeds", ())}
    found |= {job.arguments["seed"] for job in jobs if "seed" in job.arguments}
    if not found:
        return ""
    if found == set(range(len(found))) and len(found) > 1:
        return f"seeds 0 to {len(found) - 1}, "
    return f"seed{'s' if len(found) > 1 else ''} {', '.join(map(str, sorted(found)))}, "


def _about(done: Sequence[JobResult]) -> str:
    """Returns date, machine, versions and commits of jobs, in words."""
    known = {
        name: sorted({str(job.about[name]) for job in done if name in job.about})
        for name in ("date", "machine", "versions", "commit")
    }
    dates = " to ".join(dict.fromkeys((*known["date"][:1], *known["date"][-1:])))
    parts = [dates, "; ".join(known["machine"]), "; ".join(known["versions"])]
    parts.append(f"commit {', '.join(known['commit']) or 'unknown'}")
    return ", ".join(part for part in parts if part)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


# ---- Tables of trained networks ------------------------------------------------------------------


def _trained_table(item: Item, made: Mapping[str, JobResult]) -> str:
    """Returns the paper's numbers, and ours below them at either scale, as Markdown."""
    scales: tuple[Scale, ...] = ("paper", "small")
    if item.name == "hyperparameters":  # every row has values of its own
        lines = [
            [e.row, e.column, _printed(e), *(spread(_values(e, scale, made)) for scale in scales)]
            for e in item.entries
        ]
        head = ["setting", "value", "paper", "ours, paper scale", "ours, small"]
        return markdown_table(head, lines)
    columns = list(dict.fromkeys(entry.column for entry in item.entries))
    lines = []
    for row in dict.fromkeys(entry.row for entry in item.entries):
        own = {entry.column: entry for entry in item.entries if entry.row == row}
        if any(entry.paper is not None for entry in own.values()):
            printed = [_printed(own[c]) if c in own else NOTHING for c in columns]
            lines.append([row, "paper", *printed])
        for scale in scales:
            values = {c: _values(entry, scale, made) for c, entry in own.items()}
            if any(values.values()):
                recipe = next(e.runs[scale][0].recipe for e in own.values() if e.runs[scale])
                whose = "ours at small scale" if scale == "small" else "ours"
                words = [spread(values.get(c, [])) for c in columns]
                lines.append([row, f"{whose}, `{recipe}`", *words])
    return markdown_table(["", "", *columns], lines)


def _values(entry: Entry, scale: Scale, made: Mapping[str, JobResult]) -> list[float]:
    """Returns an entry's metric of each run that is there."""
    found = [made[run.key] for run in entry.runs[scale] if run.key in made]
    return [float(row[entry.metric]) for job in found for row in job.rows if entry.metric in row]


def _printed(entry: Entry) -> str:
    """Returns the paper's number with its decimals: one of a calibration error, else two."""
    if entry.paper is None:
        return NOTHING
    return f"{entry.paper:.{1 if entry.metric == 'ece' else 2}f}"


def spread(values: Sequence[float]) -> str:
    """Returns the mean, with its standard deviation and the number of runs if there are several."""
    if not values:
        return NOTHING
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{deviation} ({len(values)})"
