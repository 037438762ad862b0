"""`comixup recipes`: a list of them, or one as a page: data, network, schedule, methods, notes."""

from __future__ import annotations

import json as json_text
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from comixup.cli._options import option_help, recipe_of
from comixup.lab.training._recipes import FOLDER, RECIPES

if TYPE_CHECKING:
    from comixup.lab.training import Method, Phase, Recipe

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
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff, option_help("", "")] = False,
) -> None:
    """List the recipes with what they reproduce and the paper's errors, or show one in full.

    Args:
        name: the recipe to show.
        json: every setting as JSON, for programs; of all recipes, a list.
    """
    console = Console()
    chosen = None if name is None else recipe_of(name)
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
    console.print(
        Group(
            Text.assemble((recipe.name, "bold"), f": {recipe.title}"),
            Text(""),
            facts,
            Text("\nMethods", "bold"),
            Text(f"{recipe.method} is trained unless --method names another."),
            Padding(_methods(recipe), _INDENT),
            *_notes(recipe),
            Text("\nTrain it", "bold"),
        )
    )
    what = "PATH" if recipe.name == FOLDER else recipe.name
    command = f"  comixup train {what} --method {recipe.method}"
    console.print(command, highlight=False, markup=False, soft_wrap=True)


def _facts(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yields the name and the value of everything but the methods."""
    of_the_paper = "" if recipe.source == "ours" else " of the paper"
    yield "Source", f"{recipe.source}{of_the_paper}"
    yield "Data", ", ".join(_data(recipe))
    yield "Augmentation", recipe.augment
    yield "Network", recipe.model + ("" if recipe.width is None else f", width {recipe.width}")
    yield "Epochs", "; then ".join(map(_phase, recipe.phases))
    if recipe.unmixed_epochs:
        yield "Unmixed", f"first {recipe.unmixed_epochs}"
    joined = {"linear": ", in straight lines", "cosine": ", in cosines"}.get(
        recipe.lr_interpolation, ""
    )
    rates = ", ".join(f"{rate:g} at epoch {when:g}" for when, rate in recipe.lr)
    yield "Learning rate", rates + joined
    yield "Optimizer", ", ".join(_optimizer(recipe))
    yield "Loss", recipe.loss
    if recipe.patience is not None:
        yield "Patience", f"{recipe.patience} epochs without a better validation accuracy"
    yield "Reported", _REPORTED[recipe.reported]


def _data(recipe: Recipe) -> Iterator[str]:
    yield recipe.data
    if recipe.classes is not None:
        yield f"{len(recipe.classes)} classes"
    if recipe.images_per_class is not None:
        yield f"{recipe.images_per_class} training images per class"
    if recipe.validation is not None:
        yield f"{100 * recipe.validation:g} % of them held out for validation"


def _phase(phase: Phase) -> str:
    size = "" if phase.image_size is None else f" at {phase.image_size} pixels"
    return f"{phase.epochs} of batches of {phase.batch_size}{size}"


def _optimizer(recipe: Recipe) -> Iterator[str]:
    yield recipe.optimizer
    if recipe.optimizer == "sgd":
        yield f"momentum {recipe.momentum:g}{' (Nesterov)' if recipe.nesterov else ''}"
    but = "" if recipe.decay_norms else " but for biases and normalisation"
    yield f"weight decay {recipe.weight_decay:g}{but}"


def _methods(recipe: Recipe) -> RenderableType:
    """Returns the table of the methods; a column of the paper's errors only where it has some."""
    papers = any(method.paper is not None for method in recipe.methods.values())
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="", pad_edge=False)
    table.add_column("method", no_wrap=True)
    table.add_column("settings")
    if papers:
        table.add_column("paper's error, %", justify="right", no_wrap=True)
    for name, method in recipe.methods.items():
        row: list[RenderableType] = [name, Text(_settings(name, method) or "-")]
        if papers:
            row.append("-" if method.paper is None else f"{method.paper:.2f}")
        table.add_row(*row)
    return table


def _settings(name: str, method: Method) -> str:
    """Returns what sets a method apart, in words of --set where there are such."""
    parts = [] if name == method.mixer or method.vat is not None else [method.mixer]
    parts += method.parts
    parts += _assignments(method.settings)
    if method.vat is not None:
        parts += ["virtual adversarial training:", *_assignments(method.vat)]
    if method.saliency != "paper":
        parts += [f"saliency={method.saliency}", *_assignments(method.memory)]
    if method.schedule:
        parts += ["schedule:", *_assignments(method.schedule)]
    for what, factor in (("epochs", method.epoch_multiplier), ("lr", method.lr_multiplier)):
        if factor != 1:
            parts.append(f"{what} x{factor:g}")
    if method.ema is not None:
        parts.append(f"ema={method.ema:g}")
    return " ".join(parts)


def _assignments(settings: Mapping[str, Any]) -> list[str]:
    plain = {
        name: value if isinstance(value, str) else json_text.dumps(value)
        for name, value in settings.items()
    }
    return [f"{name}={value}" for name, value in plain.items()]


def _notes(recipe: Recipe) -> list[Text]:
    return [Text("\nNotes", "bold"), Text(recipe.notes)] if recipe.notes else []
