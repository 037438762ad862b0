"""`comixup recipes`, `comixup train`, `comixup tune`, `comixup sweep`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from comixup.cli._method_names import method_name, method_names, print_synonyms
from comixup.cli._options import (
    Changes,
    ChangesOption,
    RecipeName,
    RunOptions,
    RunOptionsArgument,
    Seeds,
    check_different,
    check_seeds,
    launch,
    option_help,
    print_line,
    recipe_of,
    train_options,
    with_set,
)
from comixup.cli._own_images import recipe_and_options
from comixup.cli._recipe_page import print_recipe
from comixup.cli._settings import parse_settings
from comixup.lab import training

if TYPE_CHECKING:
    from comixup.lab.training import Method

_Values = Annotated[tuple[float, ...], option_help("VALUE ...", "(default: not varied)")]
_INDENT = "    "
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
        every = [recipe.as_dict() for recipe in training.RECIPES.values()]
        print(dumps(every if chosen is None else chosen.as_dict(), indent=2))
        return
    if chosen is not None:
        print_recipe(console, chosen)
        return
    console.print("Train one with: comixup train NAME --method METHOD")
    console.print("Numbers are the paper's top-1 errors, %; * marks the default method.\n")
    for recipe in training.RECIPES.values():
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
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_on_hyphens=False,
            break_long_words=False,
        )
        console.print(wrapped.replace(_UNBROKEN, " "), highlight=False, soft_wrap=True)


def train(
    recipe: RecipeName,
    method: Annotated[tuple[str, ...], option_help("NAME ...", "(default: the recipe's own)")] = (),
    seeds: Seeds = (0,),
    changes: ChangesOption = Changes(),  # noqa: B008
    run_options: RunOptionsArgument = RunOptions(),  # noqa: B008
) -> None:
    """Train a recipe. The same command resumes where it was interrupted.

    Args:
        recipe: its name, see `comixup recipes`; or the path of your own images: a folder with a
            folder for each class, or a CSV file of paths and labels.
        method: one or more of its methods, or "all". Names joined by "+", as in comixup+input, are
            one method that draws one of them for each batch; --set weights=[2,1] weights them.
        seeds: a run each.
        changes: what to change in the recipe; the rest stays as it is.
        run_options: where to train, and where results go.
    """
    check_seeds(seeds)
    chosen, run_options = recipe_and_options(recipe, changes, run_options)
    given = tuple(chosen.methods) if method == ("all",) else method or (chosen.method,)
    names = method_names(given, chosen.methods)
    check_different("--method", names)
    for name in names:  # a wrong name is told before anything is trained
        chosen = with_set(chosen, name, changes)
    options = train_options(run_options, chosen, seeds)
    options["fabric"] = fabric = launch(run_options)
    if fabric.is_global_zero:
        print_synonyms(given, names)
    results = {name: training.train(chosen, method=name, **options) for name in names}
    if fabric.is_global_zero:
        console = Console()
        console.print(training.results_table(chosen, results))
        if chosen.data == training.FOLDER:
            console.print(training.classes_table(chosen, results, run_options.out))
        print_line(console, f"Runs are in {run_options.out / chosen.name}.")


def tune(
    recipe: RecipeName,
    method: Annotated[str, option_help("NAME")],
    seeds: Seeds = (0,),
    changes: ChangesOption = Changes(),  # noqa: B008
    run_options: RunOptionsArgument = RunOptions(),  # noqa: B008
) -> None:
    """Choose a baseline's alpha in {0.2, 1, 2} by images held out of the training ones.

    Args:
        recipe: its name, see `comixup recipes`; or the path of your own images: a folder with a
            folder for each class, or a CSV file of paths and labels.
        method: one of its methods that has something to tune.
        seeds: a run each, for every value.
        changes: what to change in the recipe; the rest stays as it is.
        run_options: where to train, and where results go.
    """
    check_seeds(seeds)
    chosen, run_options = recipe_and_options(recipe, changes, run_options)
    given, method = method, method_name(method, chosen.methods)
    chosen = with_set(chosen, method, changes)
    tuned = chosen.tuning_grid.get(chosen.choose(method).mixer, {})
    for name in parse_settings(changes.set):
        if name in tuned:
            values = ", ".join(f"{value:g}" for value in tuned[name])
            raise ValueError(
                f"`--set` must leave {name} alone, which tune itself tries with {values}. Leave it "
                "out, or use comixup train."
            )
    options = train_options(run_options, chosen, seeds)
    options["fabric"] = fabric = launch(run_options)
    if fabric.is_global_zero:
        print_synonyms([given], [method])
    best, results = training.tune(chosen, method, **options)
    if fabric.is_global_zero:
        Console().print(training.tuning_table(best, results))


def sweep(
    recipe: RecipeName,
    beta: _Values = (),
    gamma: _Values = (),
    tau: _Values = (),
    omega: _Values = (),
    partition_size: Annotated[tuple[int, ...], option_help("N ...", "(default: not varied)")] = (),
    vary: Annotated[tuple[str, ...], option_help("NAME=[VALUE,...] ...", "(default: none)")] = (),
    method: Annotated[str | None, option_help("NAME", "(default: the recipe's own)")] = None,
    seeds: Seeds = (0,),
    changes: ChangesOption = Changes(),  # noqa: B008
    run_options: RunOptionsArgument = RunOptions(),  # noqa: B008
) -> None:
    """Train a recipe with each setting varied alone, as in the paper's table of sensitivity.

    The same command resumes where it was interrupted; what is trained is not trained again.

    Args:
        recipe: its name, see `comixup recipes`; or the path of your own images: a folder with a
            folder for each class, or a CSV file of paths and labels.
        beta: weights of smoothness to try.
        gamma: weights of compatibility to try.
        tau: clip levels to try.
        omega: weights of the distances to try.
        partition_size: sizes of partitions to try.
        vary: other settings of the method, as JSON lists: --vary levels=[1,2,3]
            resolve=[true,false].
        method: the method whose settings are varied.
        seeds: a run each, for every value.
        changes: what to change in the recipe; the rest stays as it is.
        run_options: where to train, and where results go.
    """
    check_seeds(seeds)
    named = {
        "beta": beta,
        "gamma": gamma,
        "tau": tau,
        "omega": omega,
        "partition_size": partition_size,
    }
    grid = _joined({name: values for name, values in named.items() if values}, _varied(vary))
    chosen, run_options = recipe_and_options(recipe, changes, run_options)
    given = method or chosen.method
    method = method_name(given, chosen.methods)
    chosen = with_set(chosen, method, changes)
    _check_set(chosen.choose(method), grid, changes)
    options = train_options(run_options, chosen, seeds)
    options["fabric"] = fabric = launch(run_options)
    if fabric.is_global_zero:
        print_synonyms([given], [method])
    found = training.sweep(chosen, grid, method=method, **options)
    if fabric.is_global_zero:
        Console().print(training.sweep_table(found))


def _varied(words: tuple[str, ...]) -> dict[str, tuple[Any, ...]]:
    """Returns the values of each setting that NAME=[VALUE,...] words mean."""
    varied = parse_settings(words, "--vary")
    for name, values in varied.items():
        if not isinstance(values, list):
            raise ValueError(
                f"`--vary` must be followed by NAME=[VALUE,...], got {name}={values!r}. Lists are "
                'JSON: levels=[1,2,3], resolve=[true,false], \'clip=["soft","hard"]\'.'
            )
    return {name: tuple(values) for name, values in varied.items()}


def _joined(
    named: Mapping[str, tuple[Any, ...]], varied: Mapping[str, tuple[Any, ...]]
) -> dict[str, tuple[Any, ...]]:
    """Returns the values of all settings to be swept, each setting named once."""
    for name in named:
        if name in varied:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"`--vary` must name other settings than {option}, got {name}. Put all values "
                f"behind {option}."
            )
    if not (named or varied):
        raise ValueError(
            "`sweep` must vary something, got nothing. For instance --beta 0 0.16 0.32."
        )
    return {**named, **varied}


def _check_set(method: Method, grid: Mapping[str, tuple[Any, ...]], changes: Changes) -> None:
    """Raises `ValueError` if what --set sets has no effect on any cell of a sweep."""
    for name in parse_settings(changes.set):
        if [*grid] == [name] and method.settings[name] not in grid[name]:
            raise ValueError(
                f"`--set` must set what the sweep does not vary, got {name}, whose values are all "
                "given. Add the value to them, or leave --set out."
            )
