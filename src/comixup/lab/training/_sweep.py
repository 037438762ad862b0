"""The sensitivity of a method to its settings: each varied alone, cell by cell."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from rich import box
from rich.table import Table
from rich.text import Text

from comixup._atomic_write import atomic_write, make_folder
from comixup._figures import write_figure
from comixup.lab._tables import NOTHING, csv_table, markdown_table
from comixup.lab.training._make_mixer import make_mixer, mixer_class
from comixup.lab.training._method import Method
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._recipes import RECIPES
from comixup.lab.training._results import Result, spread
from comixup.lab.training._settings import Scalar, check_effect, check_settings, keywords_of, plain
from comixup.lab.training._sweep_figure import sweep_figure
from comixup.lab.training._train import TrainOptions
from comixup.lab.training._variants import (
    launch_for,
    recipe_of_variants,
    train_variants,
    with_setting,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

PAPER = "cifar100-sensitivity"
"""The recipe that has the paper's errors (tab:hyperparameter)."""
_OF_NO_EFFECT = ("name", "title", "source", "methods", "method", "tuning_grid", "notes")
"""Fields of a recipe that its sweep does not depend on."""
SUFFIX = "-sweep"
STEM = "sensitivity"


@dataclass(frozen=True)
class SweepCell:
    """One value of one setting.

    Attributes:
        setting: keyword of the mixer.
        value: what it is set to: a number, True, False, None or a word.
        name: of the method that has it so; the name of the swept method itself if that is its own
            value, so that settings share the cell.
        default: whether it is the method's own value.
        paper: the error that the paper reports for it; None unless this is the paper's experiment.
        results: by seed, as far as they are trained.
    """

    setting: str
    value: Scalar
    name: str
    default: bool
    paper: float | None
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
        cells: setting by setting; numbers in rising order, then other values as they were given.
    """

    recipe: Recipe
    method: str
    cells: tuple[SweepCell, ...]


def sweep(
    recipe: Recipe,
    grid: Mapping[str, Sequence[Scalar]],
    *,
    method: str | None = None,
    **options: Unpack[TrainOptions],
) -> Sweep:
    """Returns the errors with each setting varied alone, training what is not yet trained.

    Each cell has the folder OUT/RECIPE-sweep/SETTING-VALUE and resumes from its last checkpoint.
    The cell that all settings share, with the method's own values, is trained once. The table of
    the trained cells is in OUT/RECIPE-sweep after every cell, the figure at the end.

    Args:
        recipe: what to train, with all changes made.
        grid: the values to try, by setting: keywords of the method's mixer.
        method: the name of one of the recipe's methods; None means its own.
        **options: keywords of `train`.
    """
    name = method or recipe.method
    cells = cells_of(recipe, grid, name)
    variants = _variants(recipe, cells, name)
    fabric = launch_for(variants, options)
    folder = options.get("out", Path("runs")) / variants.name
    results: dict[str, dict[int, Result]] = {}
    trained = Sweep(recipe, name, cells)
    for variant, by_seed in train_variants(variants, fabric, options):
        results[variant] = by_seed
        trained = _filled(trained, results)
        if fabric.is_global_zero:
            write_tables(trained, folder)
    if fabric.is_global_zero:
        write_figure(sweep_figure(trained), folder / f"{STEM}.png")
    return trained


def cells_of(
    recipe: Recipe, grid: Mapping[str, Sequence[Scalar]], method: str | None = None
) -> tuple[SweepCell, ...]:
    """Returns the cells of a sweep, none trained; settings that a mixer rejects raise `ValueError`.

    >>> [cell.name for cell in cells_of(RECIPES["digits"], {"beta": [0.32, 0]})]
    ['beta-0', 'comixup']
    """
    name = method or recipe.method
    chosen = recipe.choose(name)
    if not grid:
        raise ValueError(
            "`grid` must have a setting with values to try, got none. Give one, for instance "
            "--beta 0 0.16 0.32."
        )
    cells = []
    for setting, given in grid.items():
        values = [_checked(chosen, setting, value) for value in given]
        if not values or len(set(values)) < len(values):
            raise ValueError(
                f"`{setting}` must have different values to try, one at least, got {list(given)}."
            )
        own = _own_value(chosen, setting)
        for value in _sorted(values):
            trial = with_setting(chosen, setting, value)
            check_effect(trial.settings)
            make_mixer(trial, num_classes=2, generator=torch.Generator())
            default = type(value) is type(own) and value == own
            papers = _is_papers(recipe, chosen, setting)
            paper = _paper_errors().get((setting, value)) if papers else None
            label = name if default else f"{setting}-{plain(value)}"
            if label == name and not default:
                raise ValueError(
                    f"`method` must not have the name of a cell of its sweep, got {name!r}. Give "
                    "the method another name."
                )
            cells.append(SweepCell(setting, value, label, default, paper))
    return tuple(cells)


def sweep_table(found: Sweep) -> Table:
    """Returns the sensitivity table for the terminal; a star marks the method's own values."""
    table = Table(
        title=Text(f"{found.recipe.name}, {found.method}: top-1 error on the test images, %"),
        caption=_note(found),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for number, column in enumerate(_head(found)):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    last = ""
    for cell, words in zip(found.cells, _words(found), strict=True):
        if last not in ("", cell.setting):
            table.add_section()
        table.add_row(*map(Text, words))
        last = cell.setting
    return table


def write_tables(found: Sweep, folder: Path) -> None:
    """Writes the sensitivity table as Markdown and CSV, each atomically."""
    make_folder(folder)
    text = markdown_table(_head(found), _words(found))
    atomic_write(folder / f"{STEM}.md", f"{text}\n{_note(found)}\n")
    rows = [
        {
            "setting": cell.setting,
            "value": cell.value if _is_number(cell.value) else plain(cell.value),
            "default": int(cell.default),
            "n": len(cell.errors),
            "error": statistics.fmean(cell.errors) if cell.errors else None,
            "std": statistics.stdev(cell.errors) if len(cell.errors) > 1 else None,
            "seeds": " ".join(map(str, cell.results)),
            "errors": " ".join(f"{error:.10g}" for error in cell.errors),
            "paper": cell.paper,
        }
        for cell in found.cells
    ]
    atomic_write(folder / f"{STEM}.csv", csv_table(rows))


def _head(found: Sweep) -> tuple[str, ...]:
    """Returns the columns: the paper's is there if one of the cells is of its experiment."""
    return ("setting", "value", "n", "error", *(("paper",) if _has_paper(found) else ()))


def _words(found: Sweep) -> list[list[str]]:
    return [
        [
            cell.setting,
            f"{plain(cell.value)}{' *' if cell.default else ''}",
            str(len(cell.errors)),
            spread(cell.errors) if cell.errors else NOTHING,
            *([_paper_word(cell)] if _has_paper(found) else []),
        ]
        for cell in found.cells
    ]


def _paper_word(cell: SweepCell) -> str:
    return "" if cell.paper is None else f"{cell.paper:.2f}"


def _has_paper(found: Sweep) -> bool:
    return any(cell.paper is not None for cell in found.cells)


def _note(found: Sweep) -> str:
    return "* the method's own value. Error: mean ± standard deviation over n seeds."


def _variants(recipe: Recipe, cells: Sequence[SweepCell], method: str) -> Recipe:
    """Returns a recipe whose methods are the cells."""
    chosen = recipe.choose(method)
    methods = {
        cell.name: dataclasses.replace(chosen, paper=None)
        if cell.default
        else with_setting(chosen, cell.setting, cell.value)
        for cell in cells
    }
    return recipe_of_variants(recipe, SUFFIX, methods)


def _filled(found: Sweep, results: Mapping[str, Mapping[int, Result]]) -> Sweep:
    cells = tuple(
        dataclasses.replace(cell, results=results.get(cell.name, {})) for cell in found.cells
    )
    return dataclasses.replace(found, cells=cells)


def _own_value(method: Method, setting: str) -> Any:
    """Returns the value that a method has for a setting, perhaps its mixer's default."""
    mixer = mixer_class(method)
    if setting not in method.settings:
        return keywords_of(mixer)[setting].default
    return check_settings(mixer, {setting: method.settings[setting]})[setting]


def _checked(method: Method, setting: str, value: object) -> Scalar:
    """Returns a value as the mixer takes it."""
    checked = check_settings(mixer_class(method), {setting: value})[setting]
    if isinstance(checked, tuple):
        raise ValueError(
            f"`{setting}` must be varied by single values, got {value!r}. Train each list by "
            "itself with comixup train --set."
        )
    scalar: Scalar = checked
    return scalar


def _sorted(values: Sequence[Scalar]) -> list[Scalar]:
    """Returns numbers in rising order, then other values as they were given."""
    numbers = sorted(value for value in values if _is_number(value))
    return [*numbers, *(value for value in values if not _is_number(value))]


def _is_number(value: Scalar) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_papers(recipe: Recipe, method: Method, setting: str) -> bool:
    """Returns whether a setting of a method is varied in the paper's experiment, unchanged.

    That is its recipe in all that decides the weights, and a method whose other settings are
    Co-Mixup's own.
    """
    paper = RECIPES[PAPER]
    own = Method("comixup", method.settings, paper=method.paper)
    same = all(
        getattr(recipe, field.name) == getattr(paper, field.name)
        for field in dataclasses.fields(Recipe)
        if field.name not in _OF_NO_EFFECT
    )
    others = [name for name in method.settings if name != setting]
    defaults = keywords_of(mixer_class(own))
    return (
        same
        and method == own
        and all(_own_value(method, name) == defaults[name].default for name in others)
    )


def _paper_errors() -> dict[tuple[str, Scalar], float | None]:
    return {
        (setting, value): method.paper
        for method in RECIPES[PAPER].methods.values()
        for setting, value in method.settings.items()
    }
