"""`comixup train`, `comixup tune`, `comixup sweep`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from comixup._did_you_mean import did_you_mean
from comixup.cli._options import (
    SCHEDULES,
    Changes,
    CommonArgument,
    CommonOptions,
    RecipeName,
    RunOptions,
    changed_fields,
    check_exists,
    check_writable,
    given,
    option_help,
    path_exists,
)
from comixup.cli._values import parse_settings
from comixup.lab import data, training
from comixup.lab._cluster import Cluster
from comixup.lab._progress import print_line
from comixup.lab._tasks import check_done
from comixup.lab.training._hardware import Hardware, check_run_options
from comixup.lab.training._recipe import OF_DATA
from comixup.lab.training._recipes import FOLDER, RECIPES

if TYPE_CHECKING:
    from comixup.lab.training import Recipe
    from comixup.lab.training._train import TrainOptions

_Values = Annotated[tuple[float, ...], option_help("VALUE ...", "(default: not varied)")]
_DEPENDENT = ("data_set", "weights", "freeze")
"""Changes whose check needs more than the recipe."""


def train(
    recipe: RecipeName,
    method: Annotated[tuple[str, ...], option_help("NAME ...", "(default: the recipe's own)")] = (),
    options: CommonArgument = CommonOptions(),  # noqa: B008
) -> None:
    """Train a recipe. The same command resumes where it was interrupted.

    Args:
        recipe: its name, see `comixup recipes`; or the path of your own images: a folder with a
            folder for each class, or a CSV file of paths and labels.
        method: one or more of its methods, or "all". Names joined by "+", as in comixup+input, are
            one method that draws one of them for each batch; --set weights=[2,1] weights them.
        options: what the commands that train share.
    """
    on = Cluster(**given(options.cluster))
    asked = () if method == ("all",) else method
    chosen, keywords = _prepared(recipe, asked, options, on)
    names = asked or (tuple(chosen.methods) if method else (chosen.method,))
    chosen = _with_methods(chosen, names, options.changes)
    first = _launch(keywords, on)
    results, done = training.train_all(chosen, names, on, **keywords)
    if first and results:
        from comixup.lab.training._results import classes_table, results_table  # noqa: PLC0415

        console = Console()
        console.print(results_table(chosen, results))
        if chosen.data == FOLDER:
            console.print(classes_table(chosen, results))
        print_line(console, f"Runs are in {options.run.out / chosen.name}.")
    check_done(done)


def tune(
    recipe: RecipeName,
    method: Annotated[str, option_help("NAME")],
    reduction_factor: Annotated[int | None, option_help("N", "(default: none)")] = None,
    options: CommonArgument = CommonOptions(),  # noqa: B008
) -> None:
    """Choose a baseline's alpha in {0.2, 1, 2} by images held out of the training ones.

    Args:
        recipe: as for `comixup train`.
        method: one of its methods that has something to tune.
        reduction_factor: stop bad values early (successive halving): train the best one in N values
            N times longer, until one is trained to the end.
        options: what the commands that train share.
    """
    on = Cluster(**given(options.cluster))
    chosen, keywords = _prepared(recipe, [method], options, on)
    chosen = _with_methods(chosen, [method], options.changes)
    tuned = chosen.tuning_grid.get(chosen.choose(method).mixer, {})
    for name in parse_settings(options.changes.set or ()):
        if name in tuned:
            values = ", ".join(f"{value:g}" for value in tuned[name])
            raise ValueError(
                f"`--set` must leave {name} alone, which tune itself tries with {values}. Leave it "
                "out, or use comixup train."
            )
    first = _launch(keywords, on)
    found = training.tune(chosen, method, reduction_factor=reduction_factor, cluster=on, **keywords)
    if first:
        from comixup.lab.training._sweep import tuning_table  # noqa: PLC0415

        Console().print(tuning_table(found))


def sweep(
    recipe: RecipeName,
    beta: _Values = (),
    gamma: _Values = (),
    tau: _Values = (),
    omega: _Values = (),
    partition_size: Annotated[tuple[int, ...], option_help("N ...", "(default: not varied)")] = (),
    vary: Annotated[tuple[str, ...], option_help("NAME=[VALUE,...] ...", "(default: none)")] = (),
    method: Annotated[str | None, option_help("NAME", "(default: the recipe's own)")] = None,
    options: CommonArgument = CommonOptions(),  # noqa: B008
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
        options: what the commands that train share.
    """
    on = Cluster(**given(options.cluster))
    named = {"beta": beta, "gamma": gamma, "tau": tau, "omega": omega}
    grid = _grid(named | {"partition_size": partition_size}, vary)
    asked = [] if method is None else [method]
    chosen, keywords = _prepared(recipe, asked, options, on)
    method = method or chosen.method
    chosen = _with_methods(chosen, [method], options.changes)
    settings = chosen.choose(method).settings
    for name in parse_settings(options.changes.set or ()):
        if [*grid] == [name] and settings[name] not in grid[name]:
            raise ValueError(
                f"`--set` must set what the sweep does not vary, got {name}, whose values are all "
                "given. Add the value to them, or leave --set out."
            )
    first = _launch(keywords, on)
    found = training.sweep(chosen, grid, method=method, cluster=on, **keywords)
    if first:
        from comixup.lab.training._sweep import sweep_table  # noqa: PLC0415

        Console().print(sweep_table(found))


def _grid(named: Mapping[str, tuple[Any, ...]], vary: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Returns the values of all settings to be swept, by options of their own and by --vary."""
    grid = {name: values for name, values in named.items() if values}
    for name, values in parse_settings(vary, "--vary").items():
        if not isinstance(values, list):
            raise ValueError(
                f"`--vary` must be followed by NAME=[VALUE,...], got {name}={values!r}. Lists are "
                'JSON: levels=[1,2,3], resolve=[true,false], \'clip=["soft","hard"]\'.'
            )
        if name in grid:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"`--vary` must name other settings than {option}, got {name}. Put all values "
                f"behind {option}."
            )
        grid[name] = tuple(values)
    if not grid:
        raise ValueError(
            "`sweep` must vary something, got nothing. For instance --beta 0 0.16 0.32."
        )
    return grid


def _prepared(
    word: str, methods: Sequence[str], common: CommonOptions, cluster: Cluster
) -> tuple[Recipe, TrainOptions]:
    """Returns the recipe that a word means, changed, and the keywords of `training.train`.

    What can be checked without torch and without the images is checked first. Images of one's own
    are looked at by the first of the processes that train together, for all.
    """
    seeds, changes, run_options = common.seeds, common.changes, common.run
    on, checkpoint_steps = Hardware(**given(common.hardware)), run_options.checkpoint_steps
    check_run_options(seeds, on, checkpoint_steps)
    fields = changed_fields(changes)
    path = None if word in RECIPES and word != FOLDER else _path_of(word, run_options)
    check_writable("--out", run_options.out)
    base = RECIPES[word if path is None else FOLDER]
    for name in methods:
        base.choose(name)
    parse_settings(changes.set or ())
    parse_settings(changes.memory or (), "--memory")
    if "weights" in fields:
        check_exists("--weights", Path(fields["weights"]))
    base.changed(**{name: value for name, value in fields.items() if name not in _DEPENDENT})
    options: TrainOptions = {
        "seeds": seeds,
        "out": run_options.out,
        "hardware": on,
        "data_root": path or run_options.data,
        "download": run_options.download,
        "checkpoint_steps": checkpoint_steps,
        "console": Console(),
    }
    if "model" in fields:
        from comixup.lab.models._build import resolve  # noqa: PLC0415 - needs torch

        resolve(fields["model"])  # a wrong name is rejected before images are read
    if path is None:
        recipe = _changed(RECIPES[word], fields)
    else:
        look = functools.partial(_look_at, path, seeds[0], fields, run_options.out)
        if cluster.inline:
            from comixup.lab.training._processes import (  # noqa: PLC0415 - needs torch
                explaining_lost_processes,
                from_first_process,
            )

            options["fabric"] = fabric = on.launch()
            with explaining_lost_processes(fabric, on.timeout_minutes):
                own, recipe = from_first_process(fabric, look)
        else:
            own, recipe = look()
        options["data"] = {seeds[0]: own}
    check_run_options(seeds, on, checkpoint_steps, recipe)
    return recipe, options


def _with_methods(recipe: Recipe, names: Sequence[str], changes: Changes) -> Recipe:
    """Returns the recipe with what options change in some of its methods."""
    settings = parse_settings(changes.set or ())
    wanted: dict[str, Any] = {"saliency": changes.saliency}
    if changes.memory is not None:
        wanted["memory"] = parse_settings(changes.memory, "--memory")
    if changes.schedule is not None:
        wanted["schedule"] = SCHEDULES[changes.schedule]
    for name in names:  # a wrong name is rejected before anything is trained
        if names.count(name) > 1:
            raise ValueError(f"`--method` must be followed by different values, got {name} twice.")
        recipe = recipe.with_method(name)
        if settings or any(value is not None for value in wanted.values()):
            recipe = training.change_method(recipe, name, settings, **wanted)
    return recipe


def _launch(options: TrainOptions, cluster: Cluster) -> bool:
    """Starts the processes that train a run; returns whether this one is the first of them."""
    if not cluster.inline:
        return True
    fabric = options.get("fabric") or (options["hardware"] or Hardware()).launch()
    options["fabric"] = fabric
    return bool(fabric.is_global_zero)


def _changed(recipe: Recipe, fields: Mapping[str, Any]) -> Recipe:
    """Returns a recipe with all that options change in it, but the settings of its methods."""
    wanted = dict(fields)
    if "weights" in wanted and "model" not in wanted:
        from comixup.lab.training._setup import network_of  # noqa: PLC0415 - needs torch

        wanted |= network_of(wanted["weights"])
    return recipe.changed(data=wanted.pop("data_set", None), **wanted)


def _look_at(
    path: Path, seed: int, fields: Mapping[str, Any], out: Path
) -> tuple[data.DataSet, Recipe]:
    """Returns images of one's own and the recipe for them, and prints what was chosen for them."""
    from comixup.lab.training._own_images import (  # noqa: PLC0415 - needs torch
        PRETRAINED,
        default_network,
        describe_images,
        recipe_for,
        report_near_copies,
        summarize,
    )

    wanted = {name: fields[name] for name in OF_DATA if name in fields}
    own = data.load(FOLDER, path, seed=seed, **wanted)
    summary = summarize(own)
    named = "pretrained" in fields or "model" in fields or "weights" in fields
    pretrained = None
    if fields.get("pretrained"):
        pretrained = fields.get("model", PRETRAINED)
    elif not (named or "width" in fields):
        pretrained = default_network(summary, out / summary.name)
    chosen = {name: fields.get(name) for name in ("epochs", "image_size", "optimizer", "weights")}
    recipe = _changed(recipe_for(summary, pretrained=pretrained, **chosen), fields)
    console = Console()
    for line in describe_images(own, recipe, by_default=not named):
        print_line(console, line)
    report = report_near_copies(own, out / recipe.name)
    if report:
        print_line(console, report)
    return own, recipe


def _path_of(word: str, run_options: RunOptions) -> Path:
    """Returns the folder or CSV file that a word names, or --data does for the recipe `folder`."""
    path = run_options.data
    if word != FOLDER:
        path = Path(word).expanduser().absolute()
        if not path_exists(path):
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
