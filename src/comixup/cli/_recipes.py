"""`comixup recipes`, a list of them or one as JSON, and `comixup reproduce`."""

from __future__ import annotations

import json
import textwrap
from typing import Annotated, Literal

import tyro
from rich.console import Console

from comixup._did_you_mean import did_you_mean
from comixup.cli._options import (
    ClusterArgument,
    ClusterOptions,
    DataFolder,
    Flag,
    Folder,
    given,
    option_help,
)
from comixup.lab import paper
from comixup.lab._cluster import Cluster
from comixup.lab._progress import print_line
from comixup.lab._tasks import Done, check_done
from comixup.lab.training._recipes import RECIPES

_TAB = "    "
_UNBROKEN = "\N{NO-BREAK SPACE}"


def recipes(
    name: Annotated[
        str | None, tyro.conf.Positional, option_help("RECIPE", "(default: all)")
    ] = None,
) -> None:
    """List the recipes with what they reproduce and the paper's errors, or print one as JSON.

    Args:
        name: the recipe whose settings are printed, all of them.
    """
    if name is not None:
        if name not in RECIPES:
            raise ValueError(
                f"`recipe` must be one of {', '.join(RECIPES)}, got {name!r}."
                f"{did_you_mean(name, RECIPES)}"
            )
        print(json.dumps(RECIPES[name].as_dict(), indent=2))
        return
    console = Console()
    console.print("Train one with: comixup train NAME --method METHOD")
    console.print("Numbers are the paper's top-1 errors, %; * marks the default method.\n")
    for recipe in RECIPES.values():
        title = f"[bold]{recipe.name}[/]: {recipe.title} ({recipe.source})"
        console.print(title, highlight=False, soft_wrap=True)
        methods = "  ".join(
            f"{'*' if key == recipe.method else ''}{key}"
            + ("" if method.paper is None else f"{_UNBROKEN}{method.paper:.2f}")
            for key, method in recipe.methods.items()
        )
        # A terminal's width is used; textwrap, unlike rich, keeps a method by its number.
        wrapped = textwrap.fill(
            methods,
            console.width,
            initial_indent=_TAB,
            subsequent_indent=_TAB,
            break_on_hyphens=False,
            break_long_words=False,
        )
        console.print(wrapped.replace(_UNBROKEN, " "), highlight=False, soft_wrap=True)


def reproduce(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, option_help("NAME ...", "")] = (),
    scale: Literal["small", "paper"] = "small",
    out: Folder = paper.OUT,
    data: DataFolder = None,
    results: Folder = paper.RESULTS,
    report: Flag = False,
    collect: Flag = False,
    cluster: ClusterArgument = ClusterOptions(),  # noqa: B008
) -> None:
    """Make the paper's tables and figures; without a name, list them.

    The same command resumes where it was interrupted. Several processes, on several machines too,
    may work on the same output folder.

    Args:
        names: tables and figures to make, or "all".
        scale: the paper's recipes, or small ones for CPU cores.
        out: where jobs, runs, figures and the report go.
        data: folder of the data sets.
        results: folder of the committed results.
        report: write the report from the results that there are.
        collect: add the results of the output folder to the committed ones.
        cluster: where jobs are run.
    """
    console = Console()
    chosen, on = paper.chosen_items(names), Cluster(**given(cluster))
    if not (names or report or collect):
        for paragraph in paper.listing(results, out, console.width):
            print_line(console, paragraph)
        return
    done: list[Done] = []
    if names:
        jobs = [job for item in chosen for job in paper.jobs_of(item, scale)]
        done = paper.run_jobs(jobs, paper.Workspace(out, data, console), on)
    if collect:
        print_line(console, f"{results}: {paper.collect(results, out)} new results.")
    print_line(console, f"The report is {paper.write_report(results, out)}.")
    check_done(done)
