"""The tables of the report: what the paper printed above what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from comixup.lab._tables import NOTHING, markdown_table
from comixup.lab.paper._items import Item
from comixup.lab.paper._jobs import HARD
from comixup.lab.paper._published import (
    CONVERGENCE,
    EXHAUSTIVE,
    NARASIMHAN_BILMES,
    RUN_TIME,
)
from comixup.lab.paper._store import JobResult, Row
from comixup.lab.paper._trained_tables import Entry, Scale

_WAYS = {
    "ours": "Algorithm 1",
    "ours_4_sweeps": "Algorithm 1, 4 sweeps",
    "narasimhan_bilmes": "Narasimhan-Bilmes",
    "random": "random, feasible",
    "infeasible": "random, not feasible",
}


def trained_table(item: Item, made: Mapping[str, JobResult]) -> str:
    """Returns the table of an item of trained networks, as Markdown."""
    columns = list(dict.fromkeys(entry.column for entry in item.entries))
    rows = list(dict.fromkeys(entry.row for entry in item.entries))
    if item.name == "hyperparameters":  # every row has values of its own
        return _long_table(item, made)
    lines = []
    for row in rows:
        own = {entry.column: entry for entry in item.entries if entry.row == row}
        printed = [_printed(own[c]) if c in own else NOTHING for c in columns]
        if any(text != NOTHING for text in printed):
            lines.append([row, "paper", *printed])
        for scale in ("paper", "small"):
            values = {c: values_of(own[c], scale, made) for c in columns if c in own}
            if any(values.values()):
                recipe = next(e.runs[scale][0].recipe for e in own.values() if e.runs[scale])
                words = [_spread(values.get(c, [])) for c in columns]
                whose = "ours at small scale" if scale == "small" else "ours"
                lines.append([row, f"{whose}, `{recipe}`", *words])
    return markdown_table(["", "", *columns], lines)


def _long_table(item: Item, made: Mapping[str, JobResult]) -> str:
    scales: tuple[Scale, ...] = ("paper", "small")
    lines = [
        [
            entry.row,
            entry.column,
            _printed(entry),
            *(_spread(values_of(entry, scale, made)) for scale in scales),
        ]
        for entry in item.entries
    ]
    return markdown_table(["setting", "value", "paper", "ours, paper scale", "ours, small"], lines)


def values_of(entry: Entry, scale: Scale, made: Mapping[str, JobResult]) -> list[float]:
    """Returns an entry's metric of each run that is there."""
    found = [made[run.key] for run in entry.runs[scale] if run.key in made]
    return [float(row[entry.metric]) for job in found for row in job.rows if entry.metric in row]


def exhaustive_table(rows: Sequence[Row]) -> str:
    """Returns Table 6, with harder problems below it."""
    lines = []
    for kind, sizes in (("paper", tuple(EXHAUSTIVE)), ("hard", HARD)):
        for size in sizes:
            own = [
                row
                for row in rows
                if row["kind"] == kind and (row["m"], row["outputs"], row["n"]) == size
            ]
            name = f"({', '.join(map(str, size))}){', harder' if kind == 'hard' else ''}"
            if kind == "paper":
                ours, optimum, random, error = EXHAUSTIVE[size]
                printed = [f"{value:.2f}" for value in (ours, optimum, random)]
                lines.append([name, "paper", "100", *printed, f"{error:g}", "", ""])
            if own:
                lines.append([name, "ours", str(len(own)), *_exhaustive_words(own)])
    head = [
        *("(m, m', n)", "", "seeds", "Algorithm 1", "optimum", "random", "relative error"),
        *("... of output j = input j", "seeds solved to optimality"),
    ]
    return markdown_table(head, lines)


def _exhaustive_words(rows: Sequence[Row]) -> list[str]:
    sums = {
        name: sum(float(row[name]) for row in rows)
        for name in ("ours", "optimum", "random", "identity")
    }
    spread = sums["random"] - sums["optimum"]
    solved = sum(float(row["ours"]) < float(row["optimum"]) + 1e-6 for row in rows)
    return [
        *(f"{sums[name] / len(rows):.3f}" for name in ("ours", "optimum", "random")),
        f"{(sums['ours'] - sums['optimum']) / spread:.4f}",
        f"{(sums['identity'] - sums['optimum']) / spread:.3f}",
        f"{100 * solved / len(rows):.0f} %",
    ]


def narasimhan_bilmes_table(rows: Sequence[Row]) -> str:
    """Returns Table 7: means and standard deviations of the objective."""
    columns = list(NARASIMHAN_BILMES["ours"])
    lines = []
    for name, title in _WAYS.items():
        values = [[float(row[name]) for row in rows if row["m"] == m] for m in columns]
        printed = NARASIMHAN_BILMES.get("random" if name == "infeasible" else name)
        if printed is not None and name != "random":
            lines.append([title, "paper", *(printed[m] for m in columns)])
        lines.append([title, "ours", *map(_mean_and_deviation, values)])
    return markdown_table(["", "", *(f"m = {m}" for m in columns)], lines)


def convergence_table(rows: Sequence[Row]) -> str:
    """Returns Table 8: mean seconds until convergence."""
    columns = list(CONVERGENCE["ours"])
    lines = []
    for name, printed in CONVERGENCE.items():
        times = [_mean([r for r in rows if r["m"] == m], f"{name}_ms") / 1e3 for m in columns]
        lines.append([_WAYS[name], "paper, s", *(f"{printed[m]:g}" for m in columns)])
        lines.append([_WAYS[name], "ours, s", *(f"{time:.2g}" for time in times)])
    return markdown_table(["", "", *(f"m = {m}" for m in columns)], lines)


def run_time_table(rows: Sequence[Row]) -> str:
    """Returns the numbers of Figure 6: mean milliseconds."""
    lines = []
    for name, label, of in (
        ("levels", "|L|", lambda v: (20, v - 1)),
        ("inputs", "m", lambda v: (v, 2)),
    ):
        for value, printed in RUN_TIME[name].items():
            m, levels = of(value)
            own = [row for row in rows if row["m"] == m and row["levels"] == levels]
            lines.append([f"{label} = {value}", f"{printed:g}", f"{_mean(own, 'ms'):.3f}"])
    return markdown_table(["", "paper, ms as printed", "ours, ms"], lines)


def compatibility_table(rows: Sequence[Row]) -> str:
    """Returns the inner products of Figure 5."""
    lines = [[str(row["result"]), f"{float(row['inner_product']):.2f}"] for row in rows]
    return markdown_table(["", "inner product of the two outputs under A"], lines)


ANALYSES: Mapping[str, tuple[str, Callable[[Sequence[Row]], str]]] = {
    "exhaustive": ("exhaustive", exhaustive_table),
    "narasimhan-bilmes": ("narasimhan-bilmes", narasimhan_bilmes_table),
    "convergence": ("narasimhan-bilmes", convergence_table),
    "run-time": ("run-time", run_time_table),
    "compatibility": ("compatibility", compatibility_table),
}
"""By item: the first word of its jobs' keys, and the table of their rows."""


def _printed(entry: Entry) -> str:
    """Returns the paper's number with its decimals: one of a calibration error, else two."""
    if entry.paper is None:
        return NOTHING
    return f"{entry.paper:.{1 if entry.metric == 'ece' else 2}f}"


def _spread(values: Sequence[float]) -> str:
    """Returns the mean, with its standard deviation and the number of runs if there are several."""
    if not values:
        return NOTHING
    if len(values) == 1:
        return f"{values[0]:.2f} (1)"
    return f"{statistics.fmean(values):.2f} ± {statistics.stdev(values):.2f} ({len(values)})"


def _mean_and_deviation(values: Sequence[float]) -> str:
    if len(values) < 2:
        return NOTHING if not values else f"{values[0]:.4g}"
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    spread = f"{deviation:.0f}" if deviation >= 10 or deviation < 1e-9 else f"{deviation:.2g}"
    return f"{mean:.0f} ({spread})" if mean > 1e3 else f"{mean:.4g} ({spread})"


def _mean(rows: Sequence[Row], name: str) -> float:
    return statistics.fmean(float(row[name]) for row in rows) if rows else float("nan")
