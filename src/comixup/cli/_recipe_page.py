"""A recipe as a page to read: data, network, schedule, methods, notes, and how to train it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from comixup.lab import training

if TYPE_CHECKING:
    from comixup.lab.training import Method, Phase, Recipe

_REPORTED = {
    "median": "median error of the last ten epochs",
    "last": "error of the last epoch",
    "validation": "error of the epoch with the best validation accuracy",
}
_INDENT = (0, 0, 0, 2)


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
    what = "PATH" if recipe.name == training.FOLDER else recipe.name
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
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in settings.items()
    }
    return [f"{name}={value}" for name, value in plain.items()]


def _notes(recipe: Recipe) -> list[Text]:
    return [Text("\nNotes", "bold"), Text(recipe.notes)] if recipe.notes else []
