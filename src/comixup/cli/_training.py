"""`comixup train`, `comixup tune`, `comixup sweep`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from comixup._did_you_mean import did_you_mean
from comixup.cli._options import (
    SCHEDULES,
    Changes,
    ChangesOption,
    HardwareArgument,
    HardwareOptions,
    RecipeName,
    RunOptions,
    RunOptionsArgument,
    Seeds,
    changed_fields,
    check_different,
    check_seeds,
    check_writable,
    given,
    method_name,
    option_help,
    print_line,
    print_synonyms,
)
from comixup.cli._values import parse_settings
from comixup.lab import data, training
from comixup.lab.training._hardware import Hardware
from comixup.lab.training._recipes import FOLDER, RECIPES

if TYPE_CHECKING:
    from comixup.lab.training import Method, Recipe
    from comixup.lab.training._train import TrainOptions

_Values = Annotated[tuple[float, ...], option_help("VALUE ...", "(default: not varied)")]
_LOADING = ("classes", "images_per_class", "validation", "validation_seed", "test_fraction")
"""Changes that decide which images are trained on."""


def train(
    recipe: RecipeName,
    method: Annotated[tuple[str, ...], option_help("NAME ...", "(default: the recipe's own)")] = (),
    seeds: Seeds = (0,),
    changes: ChangesOption = Changes(),  # noqa: B008
    run_options: RunOptionsArgument = RunOptions(),  # noqa: B008
    hardware: HardwareArgument = HardwareOptions(),  # noqa: B008
) -> None:
    """Train a recipe. The same command resumes where it was interrupted.

    Args:
        recipe: its name, see `comixup recipes`; or the path of your own images: a folder with a
            folder for each class, or a CSV file of paths and labels.
        method: one or more of its methods, or "all". Names joined by "+", as in comixup+input, are
            one method that draws one of them for each batch; --set weights=[2,1] weights them.
        seeds: a run each.
        changes: what to change in the recipe; the rest stays as it is.
        run_options: where data come from and results go.
        hardware: what to train on.
    """
    chosen, options = _prepared(recipe, seeds, changes, run_options, hardware)
    words = tuple(chosen.methods) if method == ("all",) else method or (chosen.method,)
    names = [method_name(word, chosen.methods) for word in words]
    check_different("--method", names)
    for name in names:  # a wrong name is told before anything is trained
        chosen = _with_set(chosen, name, changes)
    first = _launch(chosen, options, words, names)
    results = {name: training.train(chosen, method=name, **options) for name in names}
    if first:
        from comixup.lab.training._results import classes_table, results_table  # noqa: PLC0415

        console = Console()
        console.print(results_table(chosen, results))
        if chosen.data == FOLDER:
            console.print(classes_table(chosen, results))
        print_line(console, f"Runs are in {run_options.out / chosen.name}.")


def tune(
    recipe: RecipeName,
    method: Annotated[str, option_help("NAME")],
    seeds: Seeds = (0,),
    changes: ChangesOption = Changes(),  # noqa: B008
    run_options: RunOptionsArgument = RunOptions(),  # noqa: B008
    hardware: HardwareArgument = HardwareOptions(),  # noqa: B008
) -> None:
    """Choose a baseline's alpha in {0.2, 1, 2} by images held out of the training ones.

    Args:
        recipe: as for `comixup train`.
        method: one of its methods that has something to tune.
        seeds: a run each, for every value.
        changes: what to change in the recipe; the rest stays as it is.
        run_options: where data come from and results go.
        hardware: what to train on.
    """
    chosen, options = _prepared(recipe, seeds, changes, run_options, hardware)
    word, method = method, method_name(method, chosen.methods)
    chosen = _with_set(chosen, method, changes)
    tuned = chosen.tuning_grid.get(chosen.choose(method).mixer, {})
    for name in parse_settings(changes.set or ()):
        if name in tuned:
            values = ", ".join(f"{value:g}" for value in tuned[name])
            raise ValueError(
                f"`--set` must leave {name} alone, which tune itself tries with {values}. Leave it "
                "out, or use comixup train."
            )
    first = _launch(chosen, options, [word], [method])
    best, results = training.tune(chosen, method, **options)
    if first:
        from comixup.lab.training._sweep import tuning_table  # noqa: PLC0415

        Console().print(tuning_table(best, results))


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
    hardware: HardwareArgument = HardwareOptions(),  # noqa: B008
) -> None:
    """Train a recipe with each setting varied alone, as in the paper's table of sensitivity.

    The same command resumes where it was interrupted; what is trained is not trained again.

    Args:
        recipe: as for `comixup train`.
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
        run_options: where data come from and results go.
        hardware: what to train on.
    """
    named = {
        "beta": beta,
        "gamma": gamma,
        "tau": tau,
        "omega": omega,
        "partition_size": partition_size,
    }
    grid = _joined({name: values for name, values in named.items() if values}, _varied(vary))
    chosen, options = _prepared(recipe, seeds, changes, run_options, hardware)
    word = method or chosen.method
    method = method_name(word, chosen.methods)
    chosen = _with_set(chosen, method, changes)
    _check_set(chosen.choose(method), grid, changes)
    first = _launch(chosen, options, [word], [method])
    found = training.sweep(chosen, grid, method=method, **options)
    if first:
        from comixup.lab.training._sweep import sweep_table  # noqa: PLC0415

        Console().print(sweep_table(found))


def _prepared(
    word: str,
    seeds: tuple[int, ...],
    changes: Changes,
    run_options: RunOptions,
    hardware: HardwareOptions,
) -> tuple[Recipe, TrainOptions]:
    """Returns the recipe that a word means, changed, and the keywords of `training.train`."""
    check_seeds(seeds)
    fields, on = changed_fields(changes), Hardware(**given(hardware))
    path = None if word in RECIPES and word != FOLDER else _path_of(word, run_options)
    check_writable(run_options.out)
    options: TrainOptions = {
        "seeds": seeds,
        "out": run_options.out,
        "hardware": on,
        "data_root": path or run_options.data,
        "download": run_options.download,
        "checkpoint_steps": run_options.checkpoint_steps,
        "console": Console(),
    }
    if "model" in fields:
        from comixup.lab.models._build import resolve  # noqa: PLC0415 - needs torch

        resolve(fields["model"])  # a wrong name is told before images are looked at
    if path is None:
        return _changed(RECIPES[word], fields), options
    chosen: dict[str, Any] = {name: fields.get(name) for name in _LOADING}
    skip_bad = fields.get("skip_bad", False)
    own = data.load(FOLDER, path, seed=seeds[0], skip_bad=skip_bad, **chosen)
    options["data"] = {seeds[0]: own}
    return _recipe_for(own, fields, run_options.out), options


def _launch(
    recipe: Recipe, options: TrainOptions, words: Sequence[str], names: Sequence[str]
) -> bool:
    """Starts the processes asked for; returns whether this one is the first of them."""
    from comixup.lab.training._train import check_run_options  # noqa: PLC0415 - needs torch

    hardware = options["hardware"] or Hardware()
    check_run_options(recipe, options["seeds"], hardware, options["checkpoint_steps"])
    options["fabric"] = fabric = hardware.launch()
    if fabric.is_global_zero:
        print_synonyms(words, names)
    return bool(fabric.is_global_zero)


def _changed(recipe: Recipe, fields: Mapping[str, Any]) -> Recipe:
    """Returns a recipe with all that options change in it, but the settings of its methods."""
    wanted = dict(fields)
    if "weights" in wanted and "model" not in wanted:
        from comixup.lab.training._setup import network_of  # noqa: PLC0415 - needs torch

        wanted |= network_of(wanted["weights"])
    return recipe.changed(data=wanted.pop("data_set", None), **wanted)


def _recipe_for(own: data.DataSet, fields: Mapping[str, Any], out: Path) -> Recipe:
    """Returns the recipe for images of one's own, and prints what was chosen for them."""
    from comixup.lab.training._own_images import (  # noqa: PLC0415 - needs torch
        PRETRAINED,
        default_network,
        describe_images,
        report_near_copies,
        summarize,
    )

    summary = summarize(own)
    named = "pretrained" in fields or "model" in fields or "weights" in fields
    pretrained = None
    if fields.get("pretrained"):
        pretrained = fields.get("model", PRETRAINED)
    elif not (named or "width" in fields):
        pretrained = default_network(summary, out / summary.name)
    recipe = training.recipe_for(
        summary,
        epochs=fields.get("epochs"),
        image_size=fields.get("image_size"),
        optimizer=fields.get("optimizer"),
        pretrained=pretrained,
        weights=fields.get("weights"),
    )
    recipe, console = _changed(recipe, fields), Console()
    for line in describe_images(own, recipe, by_default=not named):
        print_line(console, line)
    report = report_near_copies(own, out / recipe.name)
    if report:
        print_line(console, report)
    return recipe


def _path_of(word: str, run_options: RunOptions) -> Path:
    """Returns the folder or CSV file that a word names, or --data does for the recipe `folder`."""
    path = run_options.data
    if word != FOLDER:
        path = Path(word).expanduser().absolute()
        try:
            there = path.exists()
        except OSError:  # a name too long for the system
            there = False
        if not there:
            raise ValueError(
                f"`recipe` must be the name of one ({', '.join(RECIPES)}) or the path of a folder "
                f"of images or a CSV file, got {word[:200]!r}.{did_you_mean(word[:200], RECIPES)}"
            )
        if run_options.data is not None:
            raise ValueError(
                f"`--data` must be left out where images are given by their path, {path}, got "
                f"{run_options.data}."
            )
    if path is None:
        raise ValueError(
            f"`recipe` {FOLDER} must be given its images, got none. Use comixup train PATH."
        )
    out = run_options.out.resolve()
    if path.resolve() in (out, *out.parents):
        raise ValueError(
            f"`--out` must lie outside of the folder of images, {path}, where its folders would "
            f"pass for classes, got {run_options.out}."
        )
    return path


def _with_set(recipe: Recipe, method: str, changes: Changes) -> Recipe:
    """Returns the recipe with what --set, --saliency, --memory, --schedule change in a method."""
    return training.change_method(
        recipe,
        method,
        parse_settings(changes.set or ()),
        saliency=changes.saliency,
        memory=parse_settings(changes.memory or (), "--memory"),
        schedule=None if changes.schedule is None else SCHEDULES[changes.schedule],
    )


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
    for name in parse_settings(changes.set or ()):
        if [*grid] == [name] and method.settings[name] not in grid[name]:
            raise ValueError(
                f"`--set` must set what the sweep does not vary, got {name}, whose values are all "
                "given. Add the value to them, or leave --set out."
            )
