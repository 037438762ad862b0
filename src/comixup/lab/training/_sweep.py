"""Trained variants of a recipe: one method with other settings, to choose one or to compare."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from matplotlib import style
from matplotlib.figure import Figure
from rich import box
from rich.table import Table
from rich.text import Text

from comixup._atomic_write import atomic_write, make_folder
from comixup._figures import BLUE, GREY, write_figure
from comixup.lab._tables import NOTHING, csv_table, markdown_table
from comixup.lab.training._hardware import Hardware
from comixup.lab.training._mixers import (
    Scalar,
    check_effect,
    check_settings,
    keywords_of,
    make_mixer,
    mixer_class,
    plain,
)
from comixup.lab.training._recipe import Method, Recipe
from comixup.lab.training._results import Result, spread
from comixup.lab.training._train import TrainOptions, check_run_options, train

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from typing_extensions import Unpack

HELD_OUT = 0.1
"""Fraction of the training images to choose by, where the data have no validation split."""
STEM = "sensitivity"
PANEL, HEIGHT = 2.4, 2.9
"""Of a figure's panel, in inches."""
_ROUNDING = 1e-9
"""Percent: errors that differ by less are the same."""
_NOTE = "* the method's own value. Error: mean ± standard deviation over n seeds."


def with_setting(method: Method, setting: str, value: Scalar) -> Method:
    """Returns a method with one setting changed; the paper's error no longer belongs to it."""
    return dataclasses.replace(method, settings={**method.settings, setting: value}, paper=None)


def recipe_of_variants(recipe: Recipe, suffix: str, variants: Mapping[str, Method]) -> Recipe:
    """Returns a recipe whose methods are the variants; its runs have a folder of their own."""
    return dataclasses.replace(
        recipe, name=f"{recipe.name}{suffix}", methods=dict(variants), method=next(iter(variants))
    )


def launch_for(variants: Recipe, options: TrainOptions) -> Fabric:
    """Returns the Fabric of the options, or launches one, after rejecting what no run can have."""
    hardware = options.get("hardware") or Hardware()
    seeds, checkpoint_steps = options.get("seeds", (0,)), options.get("checkpoint_steps")
    check_run_options(variants, seeds, hardware, checkpoint_steps)
    return options.get("fabric") or hardware.launch()


def train_variants(
    variants: Recipe, fabric: Fabric, options: TrainOptions
) -> Iterator[tuple[str, dict[int, Result]]]:
    """Yields the name of each method of a recipe and its results by seed, once it is trained."""
    options = {**options, "fabric": fabric}
    for name in variants.methods:
        yield name, train(variants, method=name, **options)


# ---- Choosing -----------------------------------------------------------------------------------


def tune(
    recipe: Recipe, method: str | None = None, **options: Unpack[TrainOptions]
) -> tuple[str, dict[str, dict[int, Result]]]:
    """Returns the name of the best variant of a method, and the results of all by name and seed.

    The variants are those of `recipe.tuning_grid`: for the baselines alpha in {0.2, 1, 2}, where
    the paper tunes it. The best has the lowest mean validation error (median of the last ten
    epochs); the test images are not used to choose.

    Args:
        recipe: what to train.
        method: which of its methods to tune; None means the recipe's own.
        **options: keywords of `train`.
    """
    variants = tuning_variants(recipe, method)
    fabric = launch_for(variants, options)
    results = dict(train_variants(variants, fabric, options))
    return best_of(results), results


def tuning_variants(recipe: Recipe, method: str | None = None) -> Recipe:
    """Returns a recipe whose methods are one method with each of the settings to be tried."""
    name = method or recipe.method
    chosen = recipe.choose(name)
    grid = recipe.tuning_grid.get(chosen.mixer)
    if not grid:
        tunable = [key for key, one in recipe.methods.items() if one.mixer in recipe.tuning_grid]
        can = f"one that recipe {recipe.name} tunes ({', '.join(tunable)})"
        raise ValueError(
            f"`method` must be {can if tunable else 'that of a recipe that tunes'}, got {name!r} "
            f"of recipe {recipe.name}, whose settings the paper fixes."
        )
    variants = {
        f"{name}-{setting}-{plain(value)}": with_setting(chosen, setting, value)
        for setting, values in grid.items()
        for value in values
    }
    # What stops or reports by validation images has them in its data.
    own_split = recipe.patience is not None or recipe.reported == "validation"
    if recipe.validation is None and not own_split:
        recipe = dataclasses.replace(recipe, validation=HELD_OUT)
    return recipe_of_variants(recipe, "-tune", variants)


def best_of(found: Mapping[str, Mapping[int, Result]]) -> str:
    """Returns the name of the variant with the lowest validation error."""
    return min(found, key=lambda name: mean_validation(found[name]))


def mean_validation(results: Mapping[int, Result]) -> float:
    """Returns the mean over seeds of the validation error."""
    return statistics.mean(_validation(result) for result in results.values())


def tied_with(best: str, found: Mapping[str, Mapping[int, Result]]) -> list[str]:
    """Returns the other variants that the validation images cannot tell from the best one.

    Their mean validation error is higher by less than one image of one seed: by a rounding of the
    error. Where a run does not say how many images it was validated on, equal means are ties.
    """
    lowest = mean_validation(found[best])
    return [
        name
        for name, results in found.items()
        if name != best and mean_validation(results) - lowest < _one_image(results)
    ]


def tuning_table(best: str, found: Mapping[str, Mapping[int, Result]]) -> Table:
    """Returns a table of the variants with the best one marked, or those that tie for it."""
    ties = tied_with(best, found)
    caption = None
    if ties:
        caption = (
            f"{best}, {', '.join(ties)} tie: they differ by less than one validation image. More "
            "seeds or validation images would tell them apart; the first of them is used."
        )
    table = Table(title="Top-1 error, %: chosen by the validation images", caption=caption)
    for column in ("variant", "seeds", "validation", "test", ""):
        table.add_column(column, justify="right" if column in ("validation", "test") else "left")
    for name, results in found.items():
        table.add_row(
            name,
            " ".join(map(str, results)),
            spread([_validation(result) for result in results.values()]),
            spread([result.median for result in results.values()]),
            "tie" if ties and name in (best, *ties) else "best" if name == best else "",
        )
    return table


def _one_image(results: Mapping[int, Result]) -> float:
    """Returns by how much one validation image of one seed changes the mean error, in percent."""
    images = [result.final.get("validation", {}).get("images") for result in results.values()]
    known = [count for count in images if count]
    one = 100 / (min(known) * len(results)) if known else 0.0
    # A difference of one whole image is one, but for rounding.
    return max(one - _ROUNDING, _ROUNDING)


def _validation(result: Result) -> float:
    if result.validation is None:
        raise ValueError(
            "`recipe` must have validation images to choose by, got none. Hold out a fraction of "
            "the training images with --validation."
        )
    return result.validation


# ---- Sensitivity --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """One value of one setting.

    Attributes:
        setting: keyword of the mixer.
        value: what it is set to: a number, True, False, None or a word.
        name: of the method that has it so; the name of the swept method itself if that is its own
            value, so that settings share the variant.
        default: whether it is the method's own value.
        results: by seed, as far as they are trained.
    """

    setting: str
    value: Scalar
    name: str
    default: bool
    results: Mapping[int, Result] = dataclasses.field(default_factory=dict)

    @property
    def errors(self) -> list[float]:
        """The errors to report, one per seed."""
        return [result.error for result in self.results.values()]


@dataclass(frozen=True)
class Sweep:
    """A sensitivity table.

    Attributes:
        recipe: what was trained.
        method: whose settings were varied.
        variants: setting by setting; numbers in rising order, then other values as given.
    """

    recipe: Recipe
    method: str
    variants: tuple[Variant, ...]


def sweep(
    recipe: Recipe,
    grid: Mapping[str, Sequence[Scalar]],
    *,
    method: str | None = None,
    **options: Unpack[TrainOptions],
) -> Sweep:
    """Returns the errors with each setting varied alone, training what is not yet trained.

    Each variant has the folder OUT/RECIPE-sweep/SETTING-VALUE and resumes from its last checkpoint.
    The one that all settings share, with the method's own values, is trained once. The table of
    what is trained is in OUT/RECIPE-sweep after every variant, the figure at the end.

    Args:
        recipe: what to train, with all changes made.
        grid: the values to try, by setting: keywords of the method's mixer.
        method: the name of one of the recipe's methods; None means its own.
        **options: keywords of `train`.
    """
    name = method or recipe.method
    found = Sweep(recipe, name, sweep_variants(recipe, grid, name))
    chosen = dataclasses.replace(recipe.choose(name), paper=None)
    methods = {
        one.name: chosen if one.default else with_setting(chosen, one.setting, one.value)
        for one in found.variants
    }
    trained = recipe_of_variants(recipe, "-sweep", methods)
    fabric = launch_for(trained, options)
    folder = options.get("out", Path("runs")) / trained.name
    for variant, results in train_variants(trained, fabric, options):
        variants = [
            dataclasses.replace(one, results=results) if one.name == variant else one
            for one in found.variants
        ]
        found = dataclasses.replace(found, variants=tuple(variants))
        if fabric.is_global_zero:
            write_tables(found, folder)
    if fabric.is_global_zero:
        write_figure(sweep_figure(found), folder / f"{STEM}.png")
    return found


def sweep_variants(
    recipe: Recipe, grid: Mapping[str, Sequence[Scalar]], method: str | None = None
) -> tuple[Variant, ...]:
    """Returns the variants of a sweep, none trained; what a mixer rejects raises `ValueError`.

    >>> from comixup.lab.training import RECIPES
    >>> [one.name for one in sweep_variants(RECIPES["digits"], {"beta": [0.32, 0]})]
    ['beta-0', 'comixup']
    """
    name = method or recipe.method
    chosen = recipe.choose(name)
    if not grid:
        raise ValueError(
            "`grid` must have a setting with values to try, got none. Give one, for instance "
            "--beta 0 0.16 0.32."
        )
    variants = []
    for setting, given in grid.items():
        values = [_checked(chosen, setting, value) for value in given]
        if not values or len(set(values)) < len(values):
            raise ValueError(
                f"`{setting}` must have different values to try, one at least, got {list(given)}."
            )
        own = _own_value(chosen, setting)
        numbers = sorted(value for value in values if _is_number(value))  # type: ignore[type-var]
        for value in [*numbers, *(value for value in values if not _is_number(value))]:
            trial = with_setting(chosen, setting, value)
            check_effect(trial.settings)
            make_mixer(trial, num_classes=2, generator=torch.Generator())
            default = type(value) is type(own) and value == own
            label = name if default else f"{setting}-{plain(value)}"
            if label == name and not default:
                raise ValueError(
                    f"`method` must not have the name of a variant of its sweep, got {name!r}. "
                    "Give the method another name."
                )
            variants.append(Variant(setting, value, label, default))
    return tuple(variants)


def _own_value(method: Method, setting: str) -> Any:
    """Returns the value that a method has for a setting, perhaps its mixer's default."""
    mixer = mixer_class(method)
    if setting not in method.settings:
        return keywords_of(mixer)[setting].default
    return check_settings(mixer, {setting: method.settings[setting]})[setting]


def _checked(method: Method, setting: str, value: object) -> Scalar:
    """Returns a value as the mixer takes it."""
    checked: Scalar = check_settings(mixer_class(method), {setting: value})[setting]
    if isinstance(checked, tuple):
        raise ValueError(
            f"`{setting}` must be varied by single values, got {value!r}. Train each list by "
            "itself with comixup train --set."
        )
    return checked


def _is_number(value: Scalar) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def sweep_table(found: Sweep) -> Table:
    """Returns the sensitivity table for the terminal; a star marks the method's own values."""
    table = Table(
        title=Text(f"{found.recipe.name}, {found.method}: top-1 error on the test images, %"),
        caption=_NOTE,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for number, column in enumerate(_HEAD):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    rows = zip(found.variants, _rows(found), strict=True)
    for _, of_setting in itertools.groupby(rows, key=lambda row: row[0].setting):
        table.add_section()
        for _, words in of_setting:
            table.add_row(*map(Text, words))
    return table


def write_tables(found: Sweep, folder: Path) -> None:
    """Writes the sensitivity table as Markdown and CSV, each atomically."""
    make_folder(folder)
    text = markdown_table(_HEAD, _rows(found))
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


_HEAD = ("setting", "value", "n", "error")


def _rows(found: Sweep) -> list[list[str]]:
    return [
        [
            one.setting,
            f"{plain(one.value)}{' *' if one.default else ''}",
            str(len(one.errors)),
            spread(one.errors) if one.errors else NOTHING,
        ]
        for one in found.variants
    ]


def sweep_figure(found: Sweep) -> Figure:
    """Returns the errors of a sweep against the values of each setting, a panel per setting.

    Dots are seeds, the line joins their means, bars are standard deviations. The method's own value
    has a ring and a dotted line. Values stand at equal distances, however far apart they are.
    """
    counts = sorted({len(one.errors) for one in found.variants if one.errors})
    if not counts:
        raise ValueError("`found` must have a trained variant to draw, got none. Train one first.")
    panels = [
        list(variants)
        for _, variants in itertools.groupby(found.variants, key=lambda one: one.setting)
    ]
    with style.context("default"):
        size = (0.7 + PANEL * len(panels), HEIGHT)
        figure = Figure(size, facecolor="white", layout="constrained")
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for ax, variants in zip(axes, panels, strict=True):
            trained = [(x, one) for x, one in enumerate(variants) if one.errors]
            means = [statistics.fmean(one.errors) for _, one in trained]
            for (x, one), mean in zip(trained, means, strict=True):
                dots = [x] * len(one.errors)
                ax.plot(dots, one.errors, ls="", marker=".", ms=4, color=BLUE, alpha=0.5)
                if one.default:
                    ax.axvline(x, color=GREY, ls=":", lw=1)
                    ax.plot([x], [mean], ls="", marker="o", mfc="none", mec=BLUE, ms=10)
            bars = [statistics.stdev(e) if len(e := one.errors) > 1 else 0.0 for _, one in trained]
            xs = [x for x, _ in trained]
            ax.errorbar(xs, means, yerr=bars, color=BLUE, lw=1.4, marker="o", ms=4, capsize=3)
            ax.set_xticks(range(len(variants)), [plain(one.value) for one in variants], fontsize=8)
            ax.set_xlim(-0.5, len(variants) - 0.5)
            ax.tick_params(axis="y", labelsize=8)
            ax.grid(axis="y", color="#dddddd", lw=0.6)
            ax.spines[["top", "right"]].set_visible(False)
            ax.set_xlabel(variants[0].setting.replace("_", " "), parse_math=False)
        axes[0].set_ylabel("top-1 error, %")
        seeds = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
        noun = "seed" if seeds == "1" else "seeds"
        title = f"{found.recipe.title}\n{found.method}, {seeds} {noun}; a ring marks its own value"
        figure.suptitle(title, fontsize=9, parse_math=False)
    return figure
