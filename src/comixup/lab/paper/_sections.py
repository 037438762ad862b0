"""The sections of the report, one for each table or figure."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from comixup._atomic_write import make_folder
from comixup._figures import write_figure
from comixup.lab.evaluation import Bin, Metrics, draw_reliability
from comixup.lab.paper import small_data
from comixup.lab.paper._costs import Cost
from comixup.lab.paper._figures import convergence_figure, mixed_batches_figure, run_time_figure
from comixup.lab.paper._items import Item
from comixup.lab.paper._jobs import Job, jobs_of, run_key, same_at_both_scales, with_needed
from comixup.lab.paper._published import METHODS
from comixup.lab.paper._report_tables import ANALYSES, trained_table
from comixup.lab.paper._store import Made, Row
from comixup.lab.paper._trained_tables import SCALES, Entry, Scale
from comixup.lab.paper.cells import read_cells

_DPI = 130
_WIDTH = 100
DRAWN = {
    "mixed-batches": ("mixed-batches", mixed_batches_figure),
    "photographs": ("photographs", mixed_batches_figure),
    "convergence": ("narasimhan-bilmes", convergence_figure),
    "run-time": ("run-time", run_time_figure),
}
"""Figures of numbers, by item: the first word of their cells' keys, and what draws them."""


def item_section(
    item: Item,
    made: Mapping[str, Made],
    results: Path,
    folder: Path,
    pictures: Sequence[Path],
    suffixes: Sequence[str],
) -> list[str]:
    """Returns the paragraphs, tables and pictures of an item, as Markdown.

    Args:
        item: the table or figure.
        made: all cells.
        results: folder of the committed cells, for the study on small data.
        folder: where the report goes; figures are drawn into its folder `figures`.
        pictures: folders to look for pictures of mixed images in.
        suffixes: of the figures to draw.
    """
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
    parts += [_wrapped(f"**About the paper:** {item.slip}")] if item.slip else []
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
    small_data.write_figures(cells, folder / "figures", suffixes)
    return [
        small_data.report(cells),
        "![Error and ECE against compute](figures/small-data.compute.png)",
        "![Reliability diagrams](figures/small-data.reliability.png)",
    ]


def _origin(item: Item, made: Mapping[str, Made]) -> str:
    """Returns the commands of an item, with what they made or would cost."""
    parts = []
    for scale in SCALES:
        jobs = jobs_of(item, scale)
        if not jobs or (scale == "paper" and same_at_both_scales(item)):
            continue
        command = f"`comixup reproduce {item.name} --scale {scale}`"
        cells = [made[job.key] for job in jobs if job.key in made]
        missing = [job for job in jobs if job.key not in made]
        needed = [job for job in with_needed(missing) if job.key not in made]
        cost = sum((job.cost for job in needed), Cost())
        count = f"{len(cells)} of {len(jobs)} cells"
        if not cells:
            parts.append(f"{command}: not run; about {cost}")
        elif len(cells) < len(jobs):
            told = f"{count}, {_seeds(jobs, made)}{_about(cells)}"
            parts.append(f"{command}: {told}; the others take about {cost}")
        else:
            count = "its cell" if len(jobs) == 1 else f"all {len(jobs)} cells"
            told = f"{count}, {_seeds(jobs, made)}{_about(cells)}"
            parts.append(f"{command}: {told}")
    return "\n".join(_wrapped(f"- {part}.", "  ") for part in parts)


def _seeds(jobs: Sequence[Job], made: Mapping[str, Made]) -> str:
    """Returns the seeds of the cells that are there, in words."""
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


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
