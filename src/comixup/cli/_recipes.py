"""`comixup recipes`, a list of them or one as a page, and `comixup reproduce`."""

from __future__ import annotations

import json as json_text
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

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
from comixup.lab.training._recipes import FOLDER, RECIPES

if TYPE_CHECKING:
    from comixup.lab.training import Method, Recipe

_REPORTED = {
    "median": "median error of the last ten epochs",
    "last": "error of the last epoch",
    "validation": "error of the epoch with the best validation accuracy",
}
_INDENT = (0, 0, 0, 2)
_TAB = "    "
_UNBROKEN = "\N{NO-BREAK SPACE}"


def recipes(
    name: Annotated[
        str | None, tyro.conf.Positional, option_help("RECIPE", "(default: all)")
    ] = None,
    json: Flag = False,
) -> None:
    """List the recipes with what they reproduce and the paper's errors, or show one in full.

    Args:
        name: the recipe to show.
        json: every setting as JSON, for programs; of all recipes, a list.
    """
    console = Console()
    if name is not None and name not in RECIPES:
        raise ValueError(
            f"`recipe` must be one of {', '.join(RECIPES)}, got {name!r}."
            f"{did_you_mean(name, RECIPES)}"
        )
    chosen = None if name is None else RECIPES[name]
    if json:
        every = [recipe.as_dict() for recipe in RECIPES.values()]
        print(json_text.dumps(every if chosen is None else chosen.as_dict(), indent=2))
        return
    if chosen is not None:
        print_recipe(console, chosen)
        return
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


def print_recipe(console: Console, recipe: Recipe) -> None:
    """Prints a recipe's page."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()
    for name, value in _facts(recipe):
        facts.add_row(name, Text(value))
    papers = any(method.paper is not None for method in recipe.methods.values())
    methods = Table(box=None, padding=(0, 2, 0, 0), header_style="", pad_edge=False)
    methods.add_column("method", no_wrap=True)
    methods.add_column("settings")
    if papers:
        methods.add_column("paper's error, %", justify="right", no_wrap=True)
    for name, method in recipe.methods.items():
        error = "-" if method.paper is None else f"{method.paper:.2f}"
        methods.add_row(name, Text(_settings(name, method) or "-"), *([error] if papers else []))
    notes = [Text("\nNotes", "bold"), Text(recipe.notes)] if recipe.notes else []
    console.print(
        Group(
            Text.assemble((recipe.name, "bold"), f": {recipe.title}"),
            Text(""),
            facts,
            Text("\nMethods", "bold"),
            Text(f"{recipe.method} is trained unless --method names another."),
            Padding(methods, _INDENT),
            *notes,
            Text("\nTrain it", "bold"),
        )
    )
    what = "PATH" if recipe.name == FOLDER else recipe.name
    print_line(console, f"  comixup train {what} --method {recipe.method}")


def _facts(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yields the name and the value of everything but the methods."""
    yield "Source", recipe.source + ("" if recipe.source == "ours" else " of the paper")
    data = [recipe.data]
    if recipe.classes is not None:
        data.append(f"{len(recipe.classes)} classes")
    if recipe.images_per_class is not None:
        data.append(f"{recipe.images_per_class} training images per class")
    if recipe.validation is not None:
        data.append(f"{100 * recipe.validation:g} % of them held out for validation")
    yield "Data", ", ".join(data)
    yield "Augmentation", recipe.augment
    yield "Network", recipe.model + ("" if recipe.width is None else f", width {recipe.width}")
    sizes = ("" if p.image_size is None else f" at {p.image_size} pixels" for p in recipe.phases)
    phases = zip(recipe.phases, sizes, strict=True)
    yield "Epochs", "; then ".join(f"{p.epochs} of batches of {p.batch_size}{s}" for p, s in phases)
    if recipe.unmixed_epochs:
        yield "Unmixed", f"first {recipe.unmixed_epochs}"
    joined = {"linear": ", in straight lines", "cosine": ", in cosines"}
    rates = ", ".join(f"{rate:g} at epoch {when:g}" for when, rate in recipe.lr)
    yield "Learning rate", rates + joined.get(recipe.lr_interpolation, "")
    optimizer: list[str] = [recipe.optimizer]
    if recipe.optimizer == "sgd":
        optimizer.append(f"momentum {recipe.momentum:g}{' (Nesterov)' if recipe.nesterov else ''}")
    but = "" if recipe.decay_norms else " but for biases and normalization"
    yield "Optimizer", ", ".join([*optimizer, f"weight decay {recipe.weight_decay:g}{but}"])
    if recipe.ema is not None:
        yield "Averaged weights", f"decay {recipe.ema:g}"
    yield "Loss", recipe.loss
    if recipe.patience is not None:
        yield "Patience", f"{recipe.patience} epochs without a better validation accuracy"
    yield "Reported", _REPORTED[recipe.reported]


def _settings(name: str, method: Method) -> str:
    """Returns what sets a method apart, in words of --set where there are such."""

    def assignments(settings: Mapping[str, Any]) -> list[str]:
        words = {k: v if isinstance(v, str) else json_text.dumps(v) for k, v in settings.items()}
        return [f"{name}={value}" for name, value in words.items()]

    parts = [] if name == method.mixer or method.vat is not None else [method.mixer]
    parts += [*method.parts, *assignments(method.settings)]
    if method.vat is not None:
        parts += ["virtual adversarial training:", *assignments(method.vat)]
    if method.saliency != "paper":
        parts += [f"saliency={method.saliency}", *assignments(method.memory)]
    if method.schedule:
        parts += ["schedule:", *assignments(method.schedule)]
    for what, factor in (("epochs", method.epoch_multiplier), ("lr", method.lr_multiplier)):
        if factor != 1:
            parts.append(f"{what} x{factor:g}")
    return " ".join(parts)


def reproduce(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, option_help("NAME ...", "")] = (),
    scale: Literal["small", "paper"] = "small",
    out: Folder = paper.OUT,
    data: DataFolder = None,
    results: Folder = paper.RESULTS,
    report: Flag = False,
    collect: Flag = False,
    check: Annotated[int | None, option_help("N", "(default: none)")] = None,
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
        check: draw so many committed jobs of the named tables and figures at random, run them
            again in the output folder, and compare.
        cluster: where jobs are run.
    """
    console = Console()
    chosen, on = paper.chosen_items(names), Cluster(**given(cluster))
    if not (names or report or collect):
        for paragraph in paper.listing(results, out, console.width):
            print_line(console, paragraph)
        return
    done: list[Done] = []
    workspace = paper.Workspace(out, data, console)
    if check is not None:
        found, done = paper.check(chosen, check, results, workspace, on)
        for comparison in found:
            print_line(console, str(comparison))
    elif names:
        jobs = [job for item in chosen for job in paper.jobs_of(item, scale)]
        done = paper.run_jobs(jobs, workspace, on)
    if collect:
        print_line(console, f"{results}: {paper.collect(results, out)} new results.")
    print_line(console, f"The report is {paper.write_report(results, out)}.")
    check_done(done)
