"""The command line: `comixup recipes`, `comixup train`, `comixup tune`."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from comixup.training import Recipe, Result

try:
    import torch
    import tyro
    from lightning_fabric.utilities.exceptions import MisconfigurationException
    from rich.console import Console

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

_MISTAKES = (ValueError, TypeError, OSError, ImportError, RuntimeError, MisconfigurationException)
"""What a user's mistake, a missing file or package, or a machine's limits raise."""
_INTERRUPTED = 130
"""What a shell takes a program for that Ctrl-C ended."""
_INDENT = "    "
_UNBROKEN = "\N{NO-BREAK SPACE}"
_PLAIN: dict[str, Any] = {"highlight": False, "soft_wrap": True}


_UNCHANGED = ""
"""What help says of a default that is None: the group's own words say that nothing changes."""


def _word(metavar: str, default: str | None = None) -> Any:
    """Returns how help shows an option: what stands for its value, and words for its default."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=default)


@dataclass(frozen=True)
class Changes:
    """What to change in the recipe."""

    data_set: Annotated[str | None, _word("NAME", _UNCHANGED)] = None
    """Another data set: cifar10, cifar100, tiny-imagenet, imagenet, speech-commands, digits, or
    folder for images of your own in folders named after their classes."""
    model: Annotated[str | None, _word("NAME", _UNCHANGED)] = None
    """Another network: one of comixup's, torchvision's or timm's."""
    epochs: Annotated[int | None, _word("N", _UNCHANGED)] = None
    """Epochs in all; phases, learning rates and plain epochs keep their proportions."""
    batch_size: Annotated[int | None, _word("N", _UNCHANGED)] = None
    """Images of a step, over all processes. Learning rates stay as they are."""
    lr: Annotated[float | None, _word("RATE", _UNCHANGED)] = None
    """The highest learning rate; the others keep their proportion to it."""
    loss: Annotated[
        Literal["cross-entropy", "released"] | None, _word("cross-entropy|released", _UNCHANGED)
    ] = None
    """The paper's learning rates belong to its released code's loss."""
    weight_decay: Annotated[float | None, _word("DECAY", _UNCHANGED)] = None
    """Weight decay."""
    labels_per_class: Annotated[int | None, _word("N", _UNCHANGED)] = None
    """Train on so many images of each class; 0 for all."""
    validation: Annotated[float | None, _word("SHARE", _UNCHANGED)] = None
    """Share of the training images to hold out, between 0 and 1."""
    set: Annotated[tuple[str, ...], _word("NAME=VALUE ...", "(none)")] = ()
    """Settings of the method: --set beta=0.5 sweeps=2."""


@dataclass(frozen=True)
class Place:
    """Where to train, and where to put what comes out."""

    out: Annotated[Path, _word("FOLDER")] = Path("runs")
    """Folder of all runs; each has OUT/RECIPE/METHOD/seed-N."""
    data: Annotated[Path | None, _word("FOLDER", "(default: $COMIXUP_DATA, else ./data)")] = None
    """Folder of the data sets."""
    download: Annotated[bool, tyro.conf.FlagCreatePairsOff, _word("", "")] = False
    """Fetch the data set if it is missing; CIFAR only."""
    accelerator: Annotated[str, _word("NAME")] = "auto"
    """auto, cpu, cuda or mps."""
    devices: Annotated[int, _word("N")] = 1
    """Processes on this machine, each with a device and a share of every batch."""
    num_nodes: Annotated[int, _word("N")] = 1
    """Machines."""
    strategy: Annotated[str, _word("NAME")] = "auto"
    """How processes train together: auto or ddp."""
    precision: Annotated[str, _word("NAME")] = "32-true"
    """32-true, 16-mixed, bf16-mixed, ..."""
    accumulate: Annotated[int, _word("N")] = 1
    """Parts that each process cuts its share of a batch into."""
    workers: Annotated[int, _word("N")] = 4
    """Processes that read images from the disk."""
    checkpoint_steps: Annotated[int | None, _word("N", "(default: none)")] = None
    """Save every so many steps too, not only after each epoch."""


_Name: TypeAlias = Annotated[str, tyro.conf.Positional, _word("RECIPE")]
_Seeds: TypeAlias = Annotated[tuple[int, ...], _word("N ...")]
# Their options have no prefix, --epochs and not --changes.epochs; help shows them in groups.
_Changes: TypeAlias = Annotated[Changes, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="recipe")]
_Place: TypeAlias = Annotated[Place, tyro.conf.OmitArgPrefixes, tyro.conf.arg(name="place")]


def recipes(
    name: Annotated[str | None, tyro.conf.Positional, _word("RECIPE", "(default: all)")] = None,
) -> None:
    """List the recipes with what they reproduce and the paper's figures, or show one whole.

    Args:
        name: the recipe to show.
    """
    console = Console()
    if name is not None:
        console.print_json(json.dumps(_recipe(name).as_dict()))
        return
    console.print("Train one with: comixup train NAME --method METHOD")
    console.print("Figures are the paper's top-1 errors, %; * marks the default method.\n")
    for recipe in training.RECIPES.values():
        console.print(f"[bold]{recipe.name}[/]: {recipe.title} ({recipe.source})", **_PLAIN)
        methods = "  ".join(
            f"{'*' if key == recipe.method else ''}{key}"
            + ("" if method.paper is None else f"{_UNBROKEN}{method.paper:.2f}")
            for key, method in recipe.methods.items()
        )
        # A terminal's width is used; textwrap, unlike rich, keeps a method by its figure.
        wrapped = textwrap.fill(
            methods,
            console.width,
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_on_hyphens=False,
            break_long_words=False,
        )
        console.print(wrapped.replace(_UNBROKEN, " "), **_PLAIN)


def train(
    recipe: _Name,
    method: Annotated[tuple[str, ...], _word("NAME ...", "(default: the recipe's own)")] = (),
    seeds: _Seeds = (0,),
    changes: _Changes = Changes(),  # noqa: B008
    place: _Place = Place(),  # noqa: B008
) -> None:
    """Train a recipe. The same command goes on where it was interrupted.

    Args:
        recipe: its name; see `comixup recipes`.
        method: one or more of its methods, or "all".
        seeds: a run each.
        changes: what to change in the recipe; the rest stays as it is.
        place: where to train, and where to put what comes out.
    """
    _check_seeds(seeds)
    chosen = _changed(recipe, changes)
    names = tuple(chosen.methods) if method == ("all",) else method or (chosen.method,)
    for name in names:  # a wrong name is told before anything is trained
        chosen = _set(chosen, name, changes)
    how = _how(place)
    results: dict[str, dict[int, Result]] = {}
    for name in names:
        results[name] = training.train(chosen, method=name, seeds=seeds, **how)
    if how["fabric"].is_global_zero:
        how["console"].print(training.results_table(chosen, results))
        how["console"].print(f"Runs are in {place.out / chosen.name}.", highlight=False)


def tune(
    recipe: _Name,
    method: Annotated[str, _word("NAME")],
    seeds: _Seeds = (0,),
    changes: _Changes = Changes(),  # noqa: B008
    place: _Place = Place(),  # noqa: B008
) -> None:
    """Choose a baseline's alpha in {0.2, 1, 2} by images held out of the training ones.

    Args:
        recipe: its name; see `comixup recipes`.
        method: one of its methods that has something to tune.
        seeds: a run each, for every value.
        changes: what to change in the recipe; the rest stays as it is.
        place: where to train, and where to put what comes out.
    """
    _check_seeds(seeds)
    chosen = _set(_changed(recipe, changes), method, changes)
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
    except _MISTAKES as error:
        if os.environ.get(DEBUG):
            raise
        sentence = str(error).strip() or type(error).__name__
        if isinstance(error, RuntimeError) and not isinstance(error, training.TrainingStopped):
            sentence += f" ({DEBUG}=1 shows where that happened.)"
        _say(sentence)
        sys.exit(1)
    except KeyboardInterrupt:
        _say("Stopped. The same command goes on from the last checkpoint.")
        sys.exit(_INTERRUPTED)


def _say(sentence: str) -> None:
    """Prints a sentence for people on standard error, in one line however long."""
    Console(stderr=True).print(f"comixup: {sentence}", markup=False, **_PLAIN)


def _recipe(name: str) -> Recipe:
    if name not in training.RECIPES:
        raise ValueError(
            f"`recipe` must be one of {', '.join(training.RECIPES)}, got {name!r}."
            f"{suggestion(name, training.RECIPES)}"
        )
    return training.RECIPES[name]


def _changed(name: str, changes: Changes) -> Recipe:
    wanted = {key: value for key, value in vars(changes).items() if key != "set"}
    return _recipe(name).changed(data=wanted.pop("data_set"), **wanted)


def _check_seeds(seeds: tuple[int, ...]) -> None:
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        given = " ".join(map(str, seeds)) or "none"
        raise ValueError(f"`--seeds` must be different integers of at least 0, got {given}.")


def _set(recipe: Recipe, method: str, changes: Changes) -> Recipe:
    """Returns the recipe with a method's settings changed, after trying whether they fit."""
    changed = recipe.with_settings(method, _settings(changes.set))
    make_mixer(changed.choose(method), num_classes=2, generator=torch.Generator())
    return changed


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
