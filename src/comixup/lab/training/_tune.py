"""Choosing a setting by validation images held out of the training ones."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.table import Table

from comixup.lab.training._recipe import Recipe
from comixup.lab.training._results import Result, spread
from comixup.lab.training._settings import plain
from comixup.lab.training._train import TrainOptions
from comixup.lab.training._variants import (
    launch_for,
    recipe_of_variants,
    train_variants,
    with_setting,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

HELD_OUT = 0.1
"""Fraction of the training images to choose by, where the data have no validation split."""
SUFFIX = "-tune"
_ROUNDING = 1e-9
"""Percent: errors that differ by less are the same."""


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
    variants = variants_of(recipe, method)
    fabric = launch_for(variants, options)
    results = dict(train_variants(variants, fabric, options))
    return best_of(results), results


def variants_of(recipe: Recipe, method: str | None = None) -> Recipe:
    """Returns a recipe whose methods are one method with each of the settings to be tried."""
    name = method or recipe.method
    chosen = recipe.choose(name)
    grid = recipe.tuning_grid.get(chosen.mixer)
    if not grid:
        tunable = [
            key for key, value in recipe.methods.items() if value.mixer in recipe.tuning_grid
        ]
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
    return recipe_of_variants(recipe, SUFFIX, variants)


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
