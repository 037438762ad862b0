"""Trains variants of a recipe: one method with varied settings, to tune or to compare."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib import style
from matplotlib.figure import Figure
from rich import box
from rich.table import Table
from rich.text import Text

from comixup._atomic_write import atomic_write, make_folder
from comixup._checks import check_count
from comixup._figures import BLUE, GREY, write_figure
from comixup.lab._cluster import Cluster
from comixup.lab._runs import RunRecord
from comixup.lab._tables import NOTHING, csv_table, markdown_table
from comixup.lab._tasks import check_done
from comixup.lab.training._hardware import Hardware
from comixup.lab.training._mixers import (
    Scalar,
    change_method,
    check_settings,
    keywords_of,
    mixer_class,
    plain,
)
from comixup.lab.training._recipe import Method, Recipe
from comixup.lab.training._results import spread
from comixup.lab.training._train import TrainOptions, train_all

if TYPE_CHECKING:
    from typing_extensions import Unpack

HELD_OUT = 0.1
"""Fraction of the training images to hold out if the data have no validation split."""
STEM = "sensitivity"
PANEL, HEIGHT = 2.4, 2.9
"""Size of a figure's panel, in inches."""
_ROUNDING = 1e-9
"""Errors in percent that differ by less are equal."""
_NOTE = "* the method's own value. Error: mean ± standard deviation over n seeds."
_HEAD = ("setting", "value", "n", "error")


@dataclass(frozen=True)
class Variant:
    """One value of one setting.

    Attributes:
        setting: keyword of the mixer.
        value: its value: a number, True, False, None or a string.
        name: name of the variant's method, METHOD-SETTING-VALUE; METHOD itself for its default
            value, so that settings share the variant.
        method: the method with this value.
        default: whether it is the method's default value.
        results: results by seed of the trained runs.
        stopped: epochs after which `tune` stopped it, and its mean validation error then; None if
            it was not stopped.
    """

    setting: str
    value: Scalar
    name: str
    method: Method
    default: bool
    results: Mapping[int, RunRecord] = dataclasses.field(default_factory=dict)
    stopped: tuple[int, float] | None = None

    @property
    def errors(self) -> list[float]:
        """The errors to report, one per seed."""
        return [result.error for result in self.results.values()]

    @property
    def validation_errors(self) -> list[float]:
        """The errors on the validation images, one per seed."""
        errors = [run.metrics.get("median_validation_error") for run in self.results.values()]
        if None in errors:
            raise ValueError(
                "`recipe` must have validation images to choose by, got none. Hold out a fraction "
                "of the training images with --validation."
            )
        return [error for error in errors if error is not None]

    @property
    def one_image(self) -> float:
        """The change of the mean error in percent by one validation image of one seed.

        `_ROUNDING` if a run does not record its number of validation images.
        """
        found = [run.metrics.get("validation_images") for run in self.results.values()]
        images = [count for count in found if count]
        one = 100 / (min(images) * len(found)) if images else 0.0
        return max(one - _ROUNDING, _ROUNDING)  # so that one whole image is a difference


@dataclass(frozen=True)
class Sweep:
    """A method trained with settings varied one at a time.

    Attributes:
        recipe: the trained recipe.
        method: name of the method whose settings were varied.
        variants: by setting; numbers in ascending order, then other values as given.
    """

    recipe: Recipe
    method: str
    variants: tuple[Variant, ...]

    @property
    def best(self) -> Variant:
        """The variant with the lowest mean validation error; test images are not used."""
        return min(self.trained, key=lambda one: statistics.mean(one.validation_errors))

    @property
    def trained(self) -> list[Variant]:
        """The variants trained to the end: all that were not stopped."""
        return [one for one in self.variants if one.stopped is None]

    @property
    def ties(self) -> list[str]:
        """The other variants that tie with the best one.

        Their mean validation error is higher by less than one image of one seed.
        """
        best, lowest = self.best, statistics.mean(self.best.validation_errors)
        return [
            one.name
            for one in self.trained
            if one.name != best.name
            and statistics.mean(one.validation_errors) - lowest < one.one_image
        ]


def tune(
    recipe: Recipe,
    method: str | None = None,
    *,
    reduction_factor: int | None = None,
    cluster: Cluster | None = None,
    **options: Unpack[TrainOptions],
) -> Sweep:
    """Returns the sweep over `recipe.tuning_grid`; `Sweep.best` is the selected variant.

    For the baselines the grid is alpha in {0.2, 1, 2}, as in the paper. The best has the lowest
    mean validation error (median of the last ten epochs). The folder of a variant is
    OUT/RECIPE-tune/METHOD-SETTING-VALUE.

    Args:
        recipe: the recipe to train.
        method: name of the method to tune; None means the recipe's default method.
        reduction_factor: stop bad values early, by successive halving: the best n /
            reduction_factor of n values are trained reduction_factor times longer, until one is
            trained to the end. The choice does not depend on the cluster: a rung waits for all of
            its runs. None trains every value to the end, as the paper does.
        cluster: executor of the runs; see `train_all`.
        **options: keywords of `train`.
    """
    name = method or recipe.method
    grid = recipe.tuning_grid.get(recipe.choose(name).mixer)
    if not grid:
        tunable = [key for key, one in recipe.methods.items() if one.mixer in recipe.tuning_grid]
        can = f"one that recipe {recipe.name} tunes ({', '.join(tunable)})"
        raise ValueError(
            f"`method` must be {can if tunable else 'that of a recipe that tunes'}, got {name!r} "
            f"of recipe {recipe.name}, whose settings the paper fixes."
        )
    # Recipes that stop or report by validation images hold them out themselves.
    own_split = recipe.patience is not None or recipe.reported == "validation"
    if recipe.validation is None and not own_split:
        recipe = dataclasses.replace(recipe, validation=HELD_OUT)
        options["data"] = None  # loaded without validation images
    return _train_variants(recipe, grid, name, "tune", cluster, options, reduction_factor)


def sweep(
    recipe: Recipe,
    grid: Mapping[str, Sequence[Scalar]],
    *,
    method: str | None = None,
    cluster: Cluster | None = None,
    **options: Unpack[TrainOptions],
) -> Sweep:
    """Returns the errors with settings varied one at a time, training missing variants.

    The folder of a variant is OUT/RECIPE-sweep/METHOD-SETTING-VALUE; it resumes from its last
    checkpoint. The variant with default values is trained once. OUT/RECIPE-sweep has a table,
    updated after every run, and a figure at the end.

    Args:
        recipe: the recipe to train, with all changes made.
        grid: the values to try by setting, a keyword of the method's mixer.
        method: name of one of the recipe's methods; None means the default one.
        cluster: executor of the runs; see `train_all`.
        **options: keywords of `train`.
    """
    return _train_variants(recipe, grid, method or recipe.method, "sweep", cluster, options)


def _train_variants(
    recipe: Recipe,
    grid: Mapping[str, Sequence[Scalar]],
    method: str,
    suffix: str,
    cluster: Cluster | None,
    options: TrainOptions,
    reduction_factor: int | None = None,
) -> Sweep:
    """Trains all variants as methods of one recipe, with a separate folder of runs."""
    found = Sweep(recipe, method, sweep_variants(recipe, grid, method))
    early = []
    if reduction_factor is not None:
        early = rungs(recipe.for_method(method), len(found.variants), reduction_factor)
    methods = {one.name: one.method for one in found.variants}
    name = f"{recipe.name}-{suffix}"
    trained = dataclasses.replace(recipe, name=name, methods=methods, method=next(iter(methods)))
    folder, first = options.get("out", Path("runs")) / name, True
    if (cluster or Cluster()).inline:
        hardware = options.get("hardware") or Hardware()
        options["fabric"] = fabric = options.get("fabric") or hardware.launch()
        first = fabric.is_global_zero

    stopped: dict[str, tuple[int, float]] = {}

    def with_results(results: Mapping[str, Mapping[int, RunRecord]]) -> Sweep:
        variants = (
            dataclasses.replace(
                one, results=results.get(one.name, {}), stopped=stopped.get(one.name)
            )
            for one in found.variants
        )
        return dataclasses.replace(found, variants=tuple(variants))

    trained_so_far: dict[str, dict[int, RunRecord]] = {}

    def write(label: str, seed: int, result: RunRecord) -> None:
        trained_so_far.setdefault(label, {})[seed] = result
        if first:
            write_tables(with_results(trained_so_far), folder)

    remaining = list(methods)
    for epochs, kept in early:
        paused: TrainOptions = {**options, "pause_after": epochs}
        results, done = train_all(trained, remaining, cluster, **paused)
        check_done(done)
        errors = {
            name: statistics.mean(run.metrics["validation_error"] for run in by_seed.values())
            for name, by_seed in results.items()
        }
        remaining.sort(key=lambda name: errors[name])  # the first of equal ones stays the first
        stopped |= {name: (epochs, errors[name]) for name in remaining[kept:]}
        del remaining[kept:]
    results, done = train_all(trained, remaining, cluster, each=write, **options)
    found = with_results(results)
    if results and first:
        write_figure(sweep_figure(found), folder / f"{STEM}.png")
    check_done(done)
    return found


def rungs(recipe: Recipe, count: int, factor: int) -> list[tuple[int, int]]:
    """Returns when values are stopped: epochs, and how many of them are trained beyond.

    Each rung keeps one in `factor`, and the epochs up to it are as many times those of the one
    before; the last one kept is trained to the recipe's end. Each is at an evaluation, and after
    the first mixed epoch.

    Args:
        recipe: with the method's own epochs.
        count: values to choose from.
        factor: of the reduction.

    >>> from comixup.lab.training import RECIPES
    >>> rungs(RECIPES["cifar100-preactresnet18"], 9, 3)
    [(34, 3), (100, 1)]
    """
    check_count("reduction_factor", factor, low=2)
    kept = [count]
    while kept[-1] >= factor:
        kept.append(kept[-1] // factor)
    found: list[tuple[int, int]] = []
    for behind, left in enumerate(reversed(kept[1:]), 1):
        wanted = max(math.ceil(recipe.epochs / factor**behind), recipe.unmixed_epochs + 1)
        epochs = math.ceil(wanted / recipe.evaluate_every) * recipe.evaluate_every
        found.insert(0, (epochs, left))
    if not found or found[-1][0] >= recipe.epochs:
        raise ValueError(
            "`reduction_factor` must be at most the number of values, with an evaluation of mixed "
            f"epochs before the last one, got {factor} for {count} values and {recipe.epochs} "
            f"epochs, evaluated every {recipe.evaluate_every}, unmixed up to epoch "
            f"{recipe.unmixed_epochs}. Leave it out, or change --evaluate-every or --epochs."
        )
    return found


def sweep_variants(
    recipe: Recipe, grid: Mapping[str, Sequence[Scalar]], method: str | None = None
) -> tuple[Variant, ...]:
    """Returns the untrained variants of a sweep; invalid settings raise `ValueError`.

    >>> from comixup.lab.training import RECIPES
    >>> [one.name for one in sweep_variants(RECIPES["digits"], {"beta": [0.32, 0]})]
    ['comixup-beta-0', 'comixup']
    """
    name = method or recipe.method
    chosen = dataclasses.replace(recipe.choose(name), paper=None)
    kind = mixer_class(chosen)
    if not grid:
        raise ValueError(
            "`grid` must have a setting with values to try, got none. Give one, for instance "
            "--beta 0 0.16 0.32."
        )
    variants = []
    for setting, given in grid.items():
        values: list[Scalar] = [check_settings(kind, {setting: one})[setting] for one in given]
        if not values or len(set(values)) < len(values):
            raise ValueError(
                f"`{setting}` must have different values to try, one at least, got {list(given)}."
            )
        if any(isinstance(value, tuple) for value in values):
            raise ValueError(
                f"`{setting}` must be varied by single values, got {list(given)}. Train each list "
                "by itself with comixup train --set."
            )
        own = chosen.settings.get(setting, keywords_of(kind)[setting].default)
        own = check_settings(kind, {setting: own})[setting]
        numbers = sorted(value for value in values if _is_number(value))  # type: ignore[type-var]
        for value in [*numbers, *(value for value in values if not _is_number(value))]:
            changed = change_method(recipe, name, {setting: value}).choose(name)
            default = type(value) is type(own) and value == own
            label = name if default else f"{name}-{setting}-{plain(value)}"
            trained = chosen if default else changed
            variants.append(Variant(setting, value, label, trained, default))
    return tuple(variants)


def _is_number(value: Scalar) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# ---- Tables and figure --------------------------------------------------------------------------


def sweep_table(found: Sweep) -> Table:
    """Returns the sensitivity table for the terminal; a star marks the default values."""
    title = f"{found.recipe.name}, {found.method}: top-1 error on the test images, %"
    return _table(title, _NOTE, _HEAD, [(one.setting, row) for one, row in _rows(found)])


def tuning_table(found: Sweep) -> Table:
    """Returns a table of the variants; the best one, or those tied for it, are marked."""
    best, ties = found.best.name, found.ties
    caption = _NOTE
    if ties:
        caption = (
            f"{best}, {', '.join(ties)} tie: they differ by less than one validation image. More "
            "seeds or validation images would tell them apart; the first of them is used."
        )
    rows = []
    for one, (setting, value, n, _) in _rows(found):
        mark = "tie" if ties and one.name in (best, *ties) else "best" if one.name == best else ""
        validation = test = NOTHING
        if one.stopped is None:
            test = spread([run.metrics["median_error"] for run in one.results.values()])
            validation = spread(one.validation_errors)
        else:
            mark = f"stopped after epoch {one.stopped[0]} at {one.stopped[1]:.2f}"
        row = [setting, value, n, validation, test, mark]
        rows.append((one.setting, row))
    title = f"{found.method}: top-1 error, %, chosen by the validation images"
    return _table(title, caption, (*_HEAD[:3], "validation", "test", ""), rows)


def _table(
    title: str, caption: str, head: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]
) -> Table:
    """Returns a table with a section for each setting."""
    table = Table(title=Text(title), caption=caption, box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(head):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for _, of_setting in itertools.groupby(rows, key=lambda row: row[0]):
        table.add_section()
        for _, words in of_setting:
            table.add_row(*map(Text, words))
    return table


def _rows(found: Sweep) -> list[tuple[Variant, list[str]]]:
    """Returns the cells of each variant, under `_HEAD`."""
    rows = []
    for one in found.variants:
        star, errors = " *" if one.default else "", one.errors
        error = spread(errors) if errors else NOTHING
        rows.append((one, [one.setting, f"{plain(one.value)}{star}", str(len(errors)), error]))
    return rows


def write_tables(found: Sweep, folder: Path) -> None:
    """Writes the sensitivity table as Markdown and CSV, each atomically."""
    make_folder(folder)
    text = markdown_table(_HEAD, [row for _, row in _rows(found)])
    atomic_write(folder / f"{STEM}.md", f"{text}\n{_NOTE}\n")
    rows = [
        {
            "setting": one.setting,
            "value": one.value if _is_number(one.value) else plain(one.value),
            "default": int(one.default),
            "n": len(one.errors),
            "error": statistics.fmean(one.errors) if one.errors else None,
            "std": statistics.stdev(one.errors) if len(one.errors) > 1 else None,
            "seeds": " ".join(map(str, one.results)),
            "errors": " ".join(f"{error:.10g}" for error in one.errors),
        }
        for one in found.variants
    ]
    atomic_write(folder / f"{STEM}.csv", csv_table(rows))


def sweep_figure(found: Sweep) -> Figure:
    """Returns the errors of a sweep against the values of each setting, a panel per setting.

    Dots are seeds, lines join means, bars are standard deviations; a dotted line marks the default
    value. Values are evenly spaced.
    """
    if not any(one.errors for one in found.variants):
        raise ValueError("`found` must have a trained variant to draw, got none. Train one first.")
    grouped = itertools.groupby(found.variants, key=lambda one: one.setting)
    panels = {setting: list(variants) for setting, variants in grouped}
    with style.context("default"):
        size = (0.7 + PANEL * len(panels), HEIGHT)
        figure = Figure(size, facecolor="white", layout="constrained")
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for ax, (setting, variants) in zip(axes, panels.items(), strict=True):
            trained = [(x, one.errors) for x, one in enumerate(variants) if one.errors]
            for x, errors in trained:
                ax.plot([x] * len(errors), errors, ls="", marker=".", ms=4, color=BLUE, alpha=0.5)
            for x, one in enumerate(variants):
                if one.default:
                    ax.axvline(x, color=GREY, ls=":", lw=1)
            means = [statistics.fmean(errors) for _, errors in trained]
            bars = [statistics.stdev(e) if len(e) > 1 else 0.0 for _, e in trained]
            xs = [x for x, _ in trained]
            ax.errorbar(xs, means, yerr=bars, color=BLUE, lw=1.4, marker="o", ms=4, capsize=3)
            ax.set_xticks(range(len(variants)), [plain(one.value) for one in variants], fontsize=8)
            ax.set_xlim(-0.5, len(variants) - 0.5)
            ax.grid(axis="y", color="#dddddd", lw=0.6)
            ax.set_xlabel(setting.replace("_", " "), parse_math=False)
        axes[0].set_ylabel("top-1 error, %")
        title = f"{found.recipe.title}\n{found.method}; a dotted line marks its own value"
        figure.suptitle(title, fontsize=9, parse_math=False)
    return figure
