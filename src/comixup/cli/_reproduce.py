"""`comixup reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from comixup.cli._options import option_help, print_line
from comixup.lab import paper

if TYPE_CHECKING:
    from comixup.lab.paper import Outcome


def reproduce(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, option_help("NAME ...", "")] = (),
    scale: Annotated[Literal["small", "paper"], option_help("small|paper")] = "small",
    out: Annotated[Path, option_help("FOLDER")] = paper.OUT,
    data: Annotated[
        Path | None, option_help("FOLDER", "(default: $COMIXUP_DATA, else ./data)")
    ] = None,
    workers: Annotated[int, option_help("N")] = 1,
    shard: Annotated[str, option_help("I/N")] = "1/1",
    results: Annotated[Path, option_help("FOLDER")] = paper.RESULTS,
    report: Annotated[bool, tyro.conf.FlagCreatePairsOff, option_help("", "")] = False,
    collect: Annotated[bool, tyro.conf.FlagCreatePairsOff, option_help("", "")] = False,
    check: Annotated[int | None, option_help("N", "(default: none)")] = None,
) -> None:
    """Make the paper's tables and figures; without a name, list them.

    The same command resumes where it was interrupted. Several processes, on several machines too,
    may work on the same output folder.

    Args:
        names: tables and figures to make, or "all".
        scale: the paper's recipes, or small ones for CPU cores.
        out: where jobs, runs, figures and the report go.
        data: folder of the data sets.
        workers: processes that run jobs side by side.
        shard: run every N-th job from the I-th on, for clusters.
        results: folder of the committed results.
        report: write the report from the results that there are.
        collect: add the results of the output folder to the committed ones.
        check: draw so many committed jobs of the named tables and figures at random, run them
            again in the output folder, and compare.
    """
    console = Console()
    chosen, part = paper.chosen_items(names), paper.shard_of(shard)
    if not (names or report or collect):
        for paragraph in paper.listing(results, out, console.width):
            print_line(console, paragraph)
        return
    failed, workspace = None, paper.Workspace(out, data, console)
    if check is not None:
        found, outcome = paper.check(chosen, check, results, workspace, workers=workers)
        for comparison in found:
            print_line(console, str(comparison))
        failed = _told(console, outcome)
    elif names:
        jobs = [job for item in chosen for job in paper.jobs_of(item, scale)]
        failed = _told(console, paper.run_jobs(jobs, workspace, workers=workers, shard=part))
    if collect:
        print_line(console, f"{results}: {paper.collect(results, out)} new results.")
    print_line(console, f"The report is {paper.write_report(results, out)}.")
    if failed is not None:
        raise RuntimeError(failed)


def _told(console: Console, outcome: Outcome) -> str | None:
    """Prints what became of jobs; returns the error message if some failed."""
    if outcome.elsewhere:
        count = len(outcome.elsewhere)
        print_line(console, f"{count} jobs are left to other processes, which hold their locks.")
    if not outcome.failed:
        return None
    reasons = dict.fromkeys(outcome.failed.values())
    return f"{len(outcome.failed)} jobs failed: {' '.join(reasons)}"
