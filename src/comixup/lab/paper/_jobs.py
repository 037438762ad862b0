"""The cells of each table and figure: one run, one picture, or a chunk of an analysis's seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from comixup.lab.paper._costs import Cost, run_cost
from comixup.lab.paper._items import Item
from comixup.lab.paper._published import EXHAUSTIVE, NARASIMHAN_BILMES, RUN_TIME
from comixup.lab.paper._small_recipes import DIGITS, SMALL, recipe_named
from comixup.lab.paper._trained_tables import BOXED, IMAGENET, SMALL_TINY, Run, Scale

SEEDS, CHUNK = 100, 25
"""Of an analysis, as in the paper, and those of one cell."""
BATCH, FEW = 100, 20
"""Images of a mixed batch, and photographs of one, of which there are fewer."""
GRIDS = (7, 14)
"""Cells per side that are tried on photographs, beside the 4 of all else."""
HARD = ((2, 2, 9), (3, 3, 4), (3, 3, 9), (2, 3, 9), (4, 4, 4))
"""(m, m', n) of harder problems that exhaustive search can solve."""
NETWORKS: Mapping[Scale, str] = {"small": SMALL, "paper": IMAGENET}
"""Recipes whose vanilla network (seed 0) gives the saliency in pictures and of mixed batches."""


@dataclass(frozen=True)
class Job:
    """A cell to be made: what is locked, resumed and kept as a whole.

    Attributes:
        key: its name, and its folder in the output folder's `cells`.
        maker: which function of `make_cell` makes it.
        arguments: of that function; they can be pickled.
        cost: an estimate.
        needs: cells that have to be there first.
    """

    key: str
    maker: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    needs: tuple[Job, ...] = ()


def jobs_of(item: Item, scale: Scale) -> list[Job]:
    """Returns the cells that a table or figure is made of at a scale.

    >>> from comixup.lab.paper._items import ITEMS
    >>> [job.key for job in jobs_of(ITEMS["exhaustive"], "small")][:2]
    ['exhaustive/paper-2-2-4/seeds-0-24', 'exhaustive/paper-2-2-4/seeds-25-49']
    """
    if item.entries:
        runs = dict.fromkeys(run for entry in item.entries for run in entry.runs[scale])
        return [run_job(run) for run in runs]
    return _JOBS[item.name](scale)


def same_at_both_scales(item: Item) -> bool:
    """Returns whether an item is made in the same way at either scale."""
    return [job.key for job in jobs_of(item, "small")] == [
        job.key for job in jobs_of(item, "paper")
    ]


def with_needed(jobs: Iterable[Job]) -> list[Job]:
    """Returns jobs with those that they need before them, each once."""
    found: dict[str, Job] = {}
    for job in jobs:
        for needed in with_needed(job.needs):
            found.setdefault(needed.key, needed)
        found.setdefault(job.key, job)
    return list(found.values())


def run_key(run: Run) -> str:
    """Returns the name of a run's cell."""
    return f"runs/{run.recipe}/{run.method}/seed-{run.seed}"


def run_job(run: Run) -> Job:
    """Returns the cell of a trained network and its measurements."""
    arguments = {
        "recipe": recipe_named(run.recipe),
        "method": run.method,
        "seed": run.seed,
        "boxes": run.recipe in BOXED,
    }
    return Job(run_key(run), "run", arguments, run_cost(run.recipe, run.method))


def network(recipe: str) -> Run:
    """Returns the network that gives the saliency of a recipe's images."""
    return Run(recipe, "vanilla", 0)


def _chunks(name: str, maker: str, cpu_seconds: float, **arguments: Any) -> list[Job]:
    """Returns a job for each chunk of the seeds."""
    return [
        Job(
            f"{name}/seeds-{first}-{first + CHUNK - 1}",
            maker,
            {**arguments, "seeds": range(first, first + CHUNK)},
            Cost(cpu_seconds),
        )
        for first in range(0, SEEDS, CHUNK)
    ]


def _exhaustive(_: Scale) -> list[Job]:
    sizes = [("paper", size) for size in EXHAUSTIVE] + [("hard", size) for size in HARD]
    return [
        job
        for kind, size in sizes
        for job in _chunks(
            f"exhaustive/{kind}-{'-'.join(map(str, size))}",
            "exhaustive",
            1.0,
            kind=kind,
            size=size,
        )
    ]


def _narasimhan_bilmes(_: Scale) -> list[Job]:
    return [
        job
        for m in NARASIMHAN_BILMES["ours"]
        for job in _chunks(f"narasimhan-bilmes/m-{m}", "narasimhan-bilmes", 0.1 + m / 5, m=m)
    ]


def _run_time(_: Scale) -> list[Job]:
    # |L| counts the values of a mask, 0, 1/L, ..., 1: one more than `levels`.
    sizes = [(20, values - 1) for values in RUN_TIME["levels"]]
    sizes += [(m, 2) for m in RUN_TIME["inputs"] if (m, 2) not in sizes]
    return [
        job
        for m, levels in sizes
        for job in _chunks(f"run-time/m-{m}-levels-{levels}", "run-time", 1.0, m=m, levels=levels)
    ]


def _mixed_batches(scale: Scale) -> list[Job]:
    run = network(NETWORKS[scale])
    return [
        Job(job.key, job.maker, {**job.arguments, "run": run}, job.cost, (run_job(run),))
        for job in _chunks(f"mixed-batches/{run.recipe}", "mixed-batches", 30.0, size=BATCH)
    ]


def _photographs(_: Scale) -> list[Job]:
    return _chunks("photographs", "mixed-batches", 30.0, run=None, size=FEW, grids=GRIDS)


def _pictures(name: str) -> Callable[[Scale], list[Job]]:
    def jobs(scale: Scale) -> list[Job]:
        return [
            Job(
                f"{name}/{recipe}",
                "picture",
                {"name": name, "run": network(recipe)},
                Cost(5.0),
                (run_job(network(recipe)),),
            )
            for recipe in (DIGITS, NETWORKS[scale])
        ] + [Job(f"{name}/photographs", "picture", {"name": name, "run": None}, Cost(20.0))]

    return jobs


def _compatibility(_: Scale) -> list[Job]:
    return [Job("compatibility/computed", "compatibility", cost=Cost(2.0))]


def _corruption(scale: Scale) -> list[Job]:
    recipe = SMALL_TINY if scale == "small" else IMAGENET
    return [Job(f"corruption/{recipe}", "corruption", {"recipe": recipe}, Cost(20.0))]


_JOBS: Mapping[str, Callable[[Scale], list[Job]]] = {
    "exhaustive": _exhaustive,
    "narasimhan-bilmes": _narasimhan_bilmes,
    "convergence": _narasimhan_bilmes,
    "run-time": _run_time,
    "mixed-batches": _mixed_batches,
    "photographs": _photographs,
    "methods": _pictures("methods"),
    "procedure": _pictures("procedure"),
    "samples": _pictures("samples"),
    "compatibility": _compatibility,
    "corruption": _corruption,
}
"""Of items that are no tables of trained networks."""
