"""The sensitivity of a method to its settings: each varied alone, cell by cell."""

from __future__ import annotations

import dataclasses
import inspect
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.table import Table

from comixup.evaluation._sweep_figure import sweep_figure
from comixup.evaluation._tables import NOTHING, csv_table, markdown_table
from comixup.training._figures import write_figure
from comixup.training._files import write_whole
from comixup.training._hardware import Hardware
from comixup.training._methods import MIXERS, make_mixer
from comixup.training._recipe import Method, Recipe
from comixup.training._recipes import RECIPES
from comixup.training._results import Result, spread
from comixup.training._train import train

PAPER = "cifar100-sensitivity"
"""The recipe that has the paper's figures (tab:hyperparameter)."""
SUFFIX = "-sweep"
STEM = "sensitivity"


@dataclass(frozen=True)
class SweepCell:
    """One value of one setting.

    Attributes:
        setting: keyword of the mixer.
        value: what it is set to.
        name: of the method that has it so; the name of the swept method itself if that is its own
            value, so that settings share the cell.
        default: whether it is the method's own value.
        paper: the error that the paper reports for it, on CIFAR-100 with PreActResNet18; or None.
        results: by seed, as far as they are trained.
    """

    setting: str
    value: float
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
        cells: setting by setting, by rising value.
    """

    recipe: Recipe
    method: str
    cells: tuple[SweepCell, ...]

    @property
    def like_the_paper(self) -> bool:
        """Whether the paper's figures are of the same data set and network."""
        paper = RECIPES[PAPER]
        return (self.recipe.data, self.recipe.model) == (paper.data, paper.model)


def sweep(
    recipe: Recipe,
    grid: Mapping[str, Sequence[float]],
    *,
    method: str | None = None,
    seeds: Sequence[int] = (0,),
    out: Path = Path("runs"),
    hardware: Hardware | None = None,
    **how: Any,
) -> Sweep:
    """Returns the errors with each setting varied alone, training what is not yet trained.

    Each cell has the folder OUT/RECIPE-sweep/SETTING-VALUE and goes on from where that stands. The
    cell that all settings share, with the method's own values, is trained once. The table of what
    is done is in OUT/RECIPE-sweep after every cell, the figure at the end.

    Args:
        recipe: what to train, with all changes made.
        grid: the values to try, by setting: keywords of the method's mixer.
        method: the name of one of the recipe's methods; None means its own.
        seeds: a run each, for every value.
        out: the folder of all runs.
        hardware: what to train on.
        **how: further keywords of `train`.
    """
    name = method or recipe.method
    cells = cells_of(recipe, grid, name)
    seeds = tuple(seeds)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"`seeds` must be different integers, one at least, got {seeds}.")
    variants = _variants(recipe, cells, name)
    hardware = hardware or Hardware()
    fabric = how.pop("fabric", None) or hardware.fabric()  # launched once, for all cells
    folder = Path(out) / variants.name
    found: dict[str, dict[int, Result]] = {}
    done = Sweep(recipe, name, cells)
    for cell in cells:
        if cell.name not in found:
            found[cell.name] = train(
                variants,
                method=cell.name,
                seeds=seeds,
                out=Path(out),
                hardware=hardware,
                fabric=fabric,
                **how,
            )
        done = _filled(done, found)
        if fabric.is_global_zero:
            write_tables(done, folder)
    if fabric.is_global_zero:
        write_figure(sweep_figure(done), folder / f"{STEM}.png")
    return done


def cells_of(
    recipe: Recipe, grid: Mapping[str, Sequence[float]], method: str | None = None
) -> tuple[SweepCell, ...]:
    """Returns the cells of a sweep, none trained; what a mixer refuses is refused here.

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
        own = _own_value(chosen, setting)
        values = [_number(setting, value, own) for value in given]
        if not values or len(set(values)) < len(values):
            raise ValueError(
                f"`{setting}` must have different values to try, one at least, got {list(given)}."
            )
        for value in sorted(values):
            trial = _with(chosen, setting, value)
            make_mixer(trial, num_classes=2, generator=torch.Generator())
            default = own is not None and value == own
            paper = _paper_errors().get((setting, value)) if chosen.mixer == "comixup" else None
            label = name if default else f"{setting}-{_plain(value)}"
            cells.append(SweepCell(setting, value, label, default, paper))
    return tuple(cells)


def sweep_table(found: Sweep) -> Table:
    """Returns the sensitivity table for the terminal; a star marks the method's own values."""
    table = Table(
        title=f"{found.recipe.name}, {found.method}: top-1 error on the test images, %",
        caption=_note(found),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for number, column in enumerate(_HEAD):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    last = ""
    for cell, words in zip(found.cells, _words(found), strict=True):
        if last not in ("", cell.setting):
            table.add_section()
        table.add_row(*words)
        last = cell.setting
    return table


def write_tables(found: Sweep, folder: Path) -> None:
    """Writes the sensitivity table as Markdown and CSV, each in one move."""
    folder.mkdir(parents=True, exist_ok=True)
    text = markdown_table(_HEAD, _words(found))
    write_whole(folder / f"{STEM}.md", f"{text}\n{_note(found)}\n")
    rows = [
        {
            "setting": cell.setting,
            "value": cell.value,
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
    write_whole(folder / f"{STEM}.csv", csv_table(rows))


_HEAD = ("setting", "value", "n", "error", "paper")


def _words(found: Sweep) -> list[list[str]]:
    return [
        [
            cell.setting,
            f"{_plain(cell.value)}{' *' if cell.default else ''}",
            str(len(cell.errors)),
            spread(cell.errors) if cell.errors else NOTHING,
            "" if cell.paper is None else f"{cell.paper:.2f}",
        ]
        for cell in found.cells
    ]


def _note(found: Sweep) -> str:
    words = "* the method's own value. Error: mean ± standard deviation over n seeds."
    if any(cell.paper is not None for cell in found.cells):
        words += " The paper's: CIFAR-100, PreActResNet18, 300 epochs"
        words += "." if found.like_the_paper else ", so not to be compared with the errors here."
    return words


def _variants(recipe: Recipe, cells: Sequence[SweepCell], method: str) -> Recipe:
    """Returns a recipe whose methods are the cells."""
    chosen = recipe.choose(method)
    methods = {
        cell.name: dataclasses.replace(chosen, paper=None)
        if cell.default
        else _with(chosen, cell.setting, cell.value)
        for cell in cells
    }
    return dataclasses.replace(
        recipe, name=f"{recipe.name}{SUFFIX}", methods=methods, method=next(iter(methods))
    )


def _with(method: Method, setting: str, value: float) -> Method:
    settings = {**method.settings, setting: value}
    return dataclasses.replace(method, settings=settings, paper=None)


def _filled(found: Sweep, results: Mapping[str, Mapping[int, Result]]) -> Sweep:
    cells = tuple(
        dataclasses.replace(cell, results=results.get(cell.name, {})) for cell in found.cells
    )
    return dataclasses.replace(found, cells=cells)


def _own_value(method: Method, setting: str) -> Any:
    """Returns the value that a method has for a setting, perhaps its mixer's default."""
    if setting in method.settings:
        return method.settings[setting]
    kind: Callable[..., Any] = MIXERS[method.mixer]
    parameter = inspect.signature(kind).parameters.get(setting)
    return None if parameter is None else parameter.default  # unknown ones the mixer refuses


def _number(setting: str, value: object, own: object) -> float:
    """Returns a value as the number it is: whole where the setting's own value is."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"`{setting}` must be tried with finite numbers, got {value!r}.")
    number = float(value)
    return int(number) if type(own) is int and number.is_integer() else number


def _plain(value: float) -> str:
    """Returns a number with all its digits and no others.

    >>> _plain(0.0005), _plain(1.0), _plain(20)
    ('0.0005', '1', '20')
    """
    return repr(value).removesuffix(".0")


def _paper_errors() -> dict[tuple[str, float], float | None]:
    return {
        (setting, value): method.paper
        for method in RECIPES[PAPER].methods.values()
        for setting, value in method.settings.items()
    }
