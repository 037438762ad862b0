"""Adds runs to the cells of the comparison, and makes its tables and figures from them."""

from __future__ import annotations

from pathlib import Path

import tyro
from rich.console import Console

from comixup._atomic_write import atomic_write
from comixup.lab.paper.cells import merged, read_cells, read_run, write_cells
from comixup.lab.paper.small_data._arms import CELLS
from comixup.lab.paper.small_data._figures import write_figures
from comixup.lab.paper.small_data._tables import report

_PAGE = """# Small data: all tables

Made from [its cells](small-data.csv), one per run, by `python -m comixup.lab.paper.small_data
report`. [The rules](rules.md#small-data) were written before the runs.

![Error and ECE against compute](figures/small-data.compute.png)

Points of the same number of passes stand beside each other; bars are 95 % intervals of the mean.

![Reliability diagrams of the headline arms](figures/small-data.reliability.png)

{report}"""


def collect(*folders: tyro.conf.Positional[Path], cells: Path = CELLS) -> None:
    """Add finished runs to the table of cells."""
    old = read_cells(cells) if cells.exists() else []
    new = [read_run(folder) for folder in folders if (folder / "result.json").exists()]
    write_cells(merged(old, new), cells)
    Console().print(f"{cells}: {len(merged(old, new))} cells, {len(new)} of them from these runs")


def write_report(cells: Path = CELLS, out: Path = CELLS.parent) -> None:
    """Make the tables and figures from the cells."""
    found = read_cells(cells)
    write_figures(found, out / "figures")
    atomic_write(out / "small-data.md", _PAGE.format(report=report(found).replace("### ", "## ")))
    Console().print(f"Tables and figures are in {out}.")


def main() -> None:
    """Runs a command."""
    tyro.extras.subcommand_cli_from_dict({"collect": collect, "report": write_report})
