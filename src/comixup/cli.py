"""The command line: `comixup recipes`, `comixup train`, `comixup tune`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

if TYPE_CHECKING:
    from comixup.training import Recipe, Result

try:
    import torch
    import tyro
    from rich.console import Console
    from rich.table import Table

    from comixup import training
    from comixup.training._methods import make_mixer
    from comixup.training._recipe import suggestion
    from comixup.training._tune import tune as run_tuning
    from comixup.training._tune import tuning_table
except ModuleNotFoundError as missing:
    sys.exit(
        f"comixup: the command line needs {missing.name}, which is not installed. "
        "Use pip install 'comixup[train]'."
    )

DEBUG = "COMIXUP_DEBUG"
"""Environment variable; if set, errors come with their traceback."""


@dataclass(frozen=True)
class Changes:
    """What to change in the recipe."""

    model: str | None = None
    """Another network: one of comixup's, torchvision's or timm's, by name."""
    epochs: int | None = None
    """Epochs in all; phases and learning rates keep their proportions."""
    batch_size: int | None = None
    """Images of a step, over all processes. Learning rates stay as they are."""
    lr: float | None = None
    """The highest learning rate; the others keep their proportion to it."""
    loss: Literal["cross-entropy", "released"] | None = None
    """The learning rates of the paper belong to the released code's loss."""
    weight_decay: float | None = None
    """Weight decay."""
    labels_per_class: int | None = None
    """Train on so many images of each class."""
    validation: float | None = None
    """Share of the training images to hold out."""
    set: tuple[str, ...] = ()
    """Settings of the method, as NAME=VALUE: --set beta=0.5 sweeps=2."""


@dataclass(frozen=True)
class Place:
    """Where to train, and where to put what comes out."""

    out: Path = Path("runs")
    """Folder of all runs; each has OUT/RECIPE/METHOD/seed-N."""
    data: Path | None = None
    """Folder of the data sets; default: $COMIXUP_DATA, else ./data."""
    download: bool = False
    """Fetch the data set if it is missing and may be fetched."""
    accelerator: str = "auto"
    """auto, cpu, cuda or mps."""
    devices: int = 1
    """Processes on this machine, each with a device and a share of every batch."""
    num_nodes: int = 1
    """Machines."""
    strategy: str = "auto"
    """How processes train together: auto or ddp."""
    precision: str = "32-true"
    """32-true, 16-mixed, bf16-mixed, ..."""
    accumulate: int = 1
    """Parts that each process cuts its share of a batch into."""
    workers: int = 4
    """Processes that read images from the disk."""
    checkpoint_steps: int | None = None
    """Save every so many steps too, not only after each epoch."""


def recipes(name: Annotated[str | None, tyro.conf.Positional] = None) -> None:
    """List the recipes with what they reproduce and the paper's figures, or show one whole.

    Args:
        name: the recipe to show.
    """
    console = Console()
    if name is not None:
        console.print_json(json.dumps(_recipe(name).as_dict()))
        return
    table = Table(title="Recipes: comixup train NAME --method METHOD")
    for column in ("name", "what", "reproduces", "methods (the paper's top-1 error, %)"):
        table.add_column(column)
    for recipe in training.RECIPES.values():
        methods = ", ".join(
            key if method.paper is None else f"{key} {method.paper:.2f}"
            for key, method in recipe.methods.items()
        )
        table.add_row(recipe.name, recipe.title, recipe.source, methods)
    console.print(table)


def train(
    recipe: Annotated[str, tyro.conf.Positional],
    method: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (0,),
    changes: Annotated[Changes, tyro.conf.arg(name="")] = Changes(),  # noqa: B008
    place: Annotated[Place, tyro.conf.arg(name="")] = Place(),  # noqa: B008
) -> None:
    """Train a recipe. The same command goes on where it was interrupted.

    Args:
        recipe: its name; see `comixup recipes`.
        method: one or more of its methods, or "all"; default: the recipe's own.
        seeds: a run each.
        changes: to the recipe.
        place: to train in.
    """
    chosen = _changed(recipe, changes)
    names = tuple(chosen.methods) if method == ("all",) else method or (chosen.method,)
    for name in names:  # a wrong name is told before anything is trained
        chosen = chosen.with_settings(name, _settings(changes.set))
        make_mixer(chosen.choose(name), num_classes=2, generator=torch.Generator())
    how = _how(place)
    results: dict[str, dict[int, Result]] = {}
    for name in names:
        results[name] = training.train(chosen, method=name, seeds=seeds, **how)
    if how["fabric"].is_global_zero:
        how["console"].print(training.results_table(chosen, results))
        how["console"].print(f"Runs are in {place.out / chosen.name}.", highlight=False)


def tune(
    recipe: Annotated[str, tyro.conf.Positional],
    method: str,
    seeds: tuple[int, ...] = (0,),
    changes: Annotated[Changes, tyro.conf.arg(name="")] = Changes(),  # noqa: B008
    place: Annotated[Place, tyro.conf.arg(name="")] = Place(),  # noqa: B008
) -> None:
    """Choose a baseline's alpha in {0.2, 1, 2} by images held out of the training ones.

    Args:
        recipe: its name; see `comixup recipes`.
        method: one of its methods that has something to tune.
        seeds: a run each, for every value.
        changes: to the recipe.
        place: to train in.
    """
    chosen = _changed(recipe, changes).with_settings(method, _settings(changes.set))
    how = _how(place)
    best, found = run_tuning(chosen, method, seeds=seeds, **how)
    if how["fabric"].is_global_zero:
        how["console"].print(tuning_table(best, found))


def main() -> None:
    """Runs the command line; a mistake gets a sentence, not a traceback."""
    commands: dict[str, Callable[..., None]] = {"recipes": recipes, "train": train, "tune": tune}
    try:
        tyro.extras.subcommand_cli_from_dict(
            commands,
            prog="comixup",
            description="Train classifiers with Co-Mixup and its rivals.",
        )
    except (ValueError, TypeError, OSError, training.TrainingStopped) as error:
        if os.environ.get(DEBUG):
            raise
        Console(stderr=True).print(f"comixup: {error}", highlight=False, markup=False)
        sys.exit(1)


def _recipe(name: str) -> Recipe:
    if name not in training.RECIPES:
        raise ValueError(
            f"`recipe` must be one of {', '.join(training.RECIPES)}, got {name!r}."
            f"{suggestion(name, training.RECIPES)}"
        )
    return training.RECIPES[name]


def _changed(name: str, changes: Changes) -> Recipe:
    return _recipe(name).changed(
        **{key: value for key, value in vars(changes).items() if key != "set"}
    )


def _settings(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Returns what NAME=VALUE words say; values are numbers, true, false, null, lists or words."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise ValueError(f"`--set` must be followed by NAME=VALUE, got {pair!r}.")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def _how(place: Place) -> dict[str, Any]:
    """Returns keywords of `training.train`; the processes asked for run from here on."""
    hardware = training.Hardware(
        accelerator=place.accelerator,
        devices=place.devices,
        num_nodes=place.num_nodes,
        strategy=place.strategy,
        precision=place.precision,
        accumulate=place.accumulate,
        workers=place.workers,
    )
    return {
        "out": place.out,
        "hardware": hardware,
        "fabric": hardware.fabric(),
        "data_root": place.data,
        "download": place.download,
        "checkpoint_steps": place.checkpoint_steps,
        "console": Console(),
    }


if __name__ == "__main__":
    main()
