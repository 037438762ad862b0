"""`comixup recipes`, `comixup train`, `comixup tune`."""

from __future__ import annotations

import json
import textwrap
from typing import Annotated, Any

import tyro
from rich.console import Console

from comixup import training
from comixup.cli._options import (
    PLAIN,
    Changes,
    ChangesOption,
    Place,
    PlaceOption,
    RecipeName,
    Seeds,
    changed,
    check_different,
    check_seeds,
    how_to_train,
    recipe_of,
    with_set,
    word,
)
from comixup.training import Result
from comixup.training._settings import parse_settings, plain
from comixup.training._tune import tune as run_tuning
from comixup.training._tune import tuning_table

_INDENT = "    "
_UNBROKEN = "\N{NO-BREAK SPACE}"
_PLAIN: dict[str, Any] = {"highlight": False, "soft_wrap": True}


def recipes(
    name: Annotated[str | None, tyro.conf.Positional, word("RECIPE", "(default: all)")] = None,
) -> None:
    """List the recipes with what they reproduce and the paper's figures, or show one whole.

    Args:
        name: the recipe to show.
    """
    console = Console()
    if name is not None:
        console.print_json(json.dumps(recipe_of(name).as_dict()))
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
    recipe: RecipeName,
    method: Annotated[tuple[str, ...], word("NAME ...", "(default: the recipe's own)")] = (),
    seeds: Seeds = (0,),
    changes: ChangesOption = Changes(),  # noqa: B008
    place: PlaceOption = Place(),  # noqa: B008
) -> None:
    """Train a recipe. The same command resumes where it was interrupted.

    Args:
        recipe: its name; see `comixup recipes`.
        method: one or more of its methods, or "all".
        seeds: a run each.
        changes: what to change in the recipe; the rest stays as it is.
        place: where to train, and where to put what comes out.
    """
    check_seeds(seeds)
    chosen = changed(recipe, changes)
    names = tuple(chosen.methods) if method == ("all",) else method or (chosen.method,)
    check_different("--method", names)
    for name in names:  # a wrong name is told before anything is trained
        chosen = with_set(chosen, name, changes)
    how = how_to_train(place, chosen, seeds)
    results: dict[str, dict[int, Result]] = {}
    for name in names:
        results[name] = training.train(chosen, method=name, seeds=seeds, **how)
    if how["fabric"].is_global_zero:
        how["console"].print(training.results_table(chosen, results))
        how["console"].print(f"Runs are in {place.out / chosen.name}.", **PLAIN)


def tune(
    recipe: RecipeName,
    method: Annotated[str, word("NAME")],
    seeds: Seeds = (0,),
    changes: ChangesOption = Changes(),  # noqa: B008
    place: PlaceOption = Place(),  # noqa: B008
) -> None:
    """Choose a baseline's alpha in {0.2, 1, 2} by images held out of the training ones.

    Args:
        recipe: its name; see `comixup recipes`.
        method: one of its methods that has something to tune.
        seeds: a run each, for every value.
        changes: what to change in the recipe; the rest stays as it is.
        place: where to train, and where to put what comes out.
    """
    check_seeds(seeds)
    chosen = with_set(changed(recipe, changes), method, changes)
    tuned = chosen.tuning_grid.get(chosen.choose(method).mixer, {})
    for name in parse_settings(changes.set):
        if name in tuned:
            raise ValueError(
                f"`--set` must leave {name} alone, which tune itself tries with "
                f"{', '.join(map(plain, tuned[name]))}. Leave it out, or use comixup train."
            )
    how = how_to_train(place, chosen, seeds)
    best, found = run_tuning(chosen, method, seeds=seeds, **how)
    if how["fabric"].is_global_zero:
        how["console"].print(tuning_table(best, found))
