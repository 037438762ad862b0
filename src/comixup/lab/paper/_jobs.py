"""The jobs of each table and figure, what they cost, and the list of all of them.

A job is one run, one picture, or a chunk of an analysis's seeds.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comixup.lab.paper._items import ITEMS, Item
from comixup.lab.paper._published import EXHAUSTIVE, NARASIMHAN_BILMES, RUN_TIME
from comixup.lab.paper._store import read_all
from comixup.lab.paper._trained_tables import (
    BOXED,
    DIGITS,
    IMAGENET,
    SCALES,
    SMALL,
    SMALL_TINY,
    VARIANTS,
    Run,
    Scale,
    recipe_named,
)
from comixup.lab.training import Method

SEEDS, CHUNK = 100, 25
"""Of an analysis, as in the paper, and those of one job."""
BATCH, FEW = 100, 20
"""Images of a mixed batch, and photographs of one, of which there are fewer."""
GRIDS = (7, 14)
"""Cells per side that are tried on photographs, beside the 4 of all else."""
HARD = ((2, 2, 9), (3, 3, 4), (3, 3, 9), (2, 3, 9), (4, 4, 4))
"""(m, m', n) of harder problems that exhaustive search can solve."""
NETWORKS: Mapping[Scale, str] = {"small": SMALL, "paper": IMAGENET}
"""Recipes whose vanilla network (seed 0) gives the saliency in pictures and of mixed batches."""
GPU_FLOPS = 1e13
"""Floating-point operations per second that one GPU is taken to train with. The paper's vanilla
ImageNet training ran at 0.7e13 for each of its four RTX 2080 Ti (0.374 s for 448 images)."""
_PASS_FLOPS = 6.0
"""Per multiply-add of a forward pass: two operations, and twice as many again backwards."""
_GPU = {
    "cifar100-preactresnet18": (0.555, 50_000),
    "cifar100-wrn16-8": (2.00, 50_000),
    "cifar100-resnext29-4-24": (0.761, 50_000),
    "cifar100-multi-input": (0.555, 50_000),
    "cifar100-sensitivity": (0.555, 50_000),
    "cifar100-vat": (0.555, 50_000),
    "tiny-imagenet-preactresnet18": (0.556, 100_000),
    "imagenet-resnet50": (3.68, 1_281_167),
    "speech-vgg11": (2.33, 51_088),
    "speech-lenet": (0.056, 51_088),
}
"""Giga multiply-adds of a forward pass, counted (ImageNet: mean over its phases), and images."""
_CPU_SECONDS = {
    SMALL: 2.2,
    **dict.fromkeys(VARIANTS.values(), 2.2),
    "tiny-imagenet-small": 3.0,
    "speech-small": 25.0,
    DIGITS: 4.0,
}
"""Of one core for a pass over the training images, as measured; with 3,000 clips."""
_INDENT = "    "


@dataclass(frozen=True)
class Cost:
    """An estimate of compute time.

    Attributes:
        cpu_seconds: of one core.
        gpu_seconds: of one GPU.
    """

    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cpu_seconds + other.cpu_seconds, self.gpu_seconds + other.gpu_seconds)

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.cpu_seconds + self.gpu_seconds

    def __str__(self) -> str:
        """The estimate in words.

        >>> print(Cost(cpu_seconds=90.0), "|", Cost(gpu_seconds=7200.0), "|", Cost(0.5))
        1.5 CPU-minutes | 2.0 GPU-hours | seconds
        """
        words = []
        for kind, seconds in (("CPU", self.cpu_seconds), ("GPU", self.gpu_seconds)):
            if seconds >= 3600:
                hours = seconds / 3600
                words.append(
                    f"{hours:.1f} {kind}-hours" if hours < 10 else f"{hours:,.0f} {kind}-hours"
                )
            elif seconds >= 60:
                words.append(f"{seconds / 60:.2g} {kind}-minutes")
        return " and ".join(words) or "seconds"


@dataclass(frozen=True)
class Job:
    """A piece of work: what is locked, resumed and kept as a whole.

    Attributes:
        key: its name, and its folder in the output folder's `jobs`.
        maker: which function of `run_job` does it.
        arguments: of that function; they can be pickled.
        cost: an estimate.
        needs: jobs that have to be done first.
    """

    key: str
    maker: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    needs: tuple[Job, ...] = ()


def jobs_of(item: Item, scale: Scale) -> list[Job]:
    """Returns the jobs that a table or figure is made of at a scale.

    >>> from comixup.lab.paper._items import ITEMS
    >>> [job.key for job in jobs_of(ITEMS["exhaustive"], "small")][:2]
    ['exhaustive/paper-2-2-4/seeds-0-24', 'exhaustive/paper-2-2-4/seeds-25-49']
    """
    if item.entries:
        runs = dict.fromkeys(run for entry in item.entries for run in entry.runs[scale])
        return [training_job(run) for run in runs]
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


def training_job(run: Run) -> Job:
    """Returns the job that trains and measures a run."""
    arguments = {
        "recipe": recipe_named(run.recipe),
        "method": run.method,
        "seed": run.seed,
        "boxes": run.recipe in BOXED,
    }
    return Job(run.key, "run", arguments, run_cost(run.recipe, run.method))


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
        Job(job.key, job.maker, {**job.arguments, "run": run}, job.cost, (training_job(run),))
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
                (training_job(network(recipe)),),
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


# ---- Costs ---------------------------------------------------------------------------------------


def run_cost(recipe: str, method: str) -> Cost:
    """Returns an estimate for training one run of a recipe."""
    whole = recipe_named(recipe)
    chosen = whole.choose(method)
    passes = whole.epochs * chosen.epoch_multiplier * passes_of(chosen)
    if recipe in _GPU:
        giga, images = _GPU[recipe]
        return Cost(gpu_seconds=passes * images * giga * 1e9 * _PASS_FLOPS / GPU_FLOPS)
    return Cost(cpu_seconds=passes * _CPU_SECONDS[recipe])


def passes_of(method: Method) -> float:
    """Returns the passes over a training image that a method of the paper's tables makes.

    `training.passes_per_image` counts them for any method, but needs torch, which a list is not to
    wait for.
    """
    if method.vat is not None:  # the perturbed images, and a pass for each update of the noise
        return 2.0 + float(method.vat["updates"])
    return 2.0 if method.mixer in ("puzzlemix", "comixup") else 1.0


# ---- The list ------------------------------------------------------------------------------------


def listing(results: Path, out: Path, width: int = 100) -> Iterable[str]:
    """Yields paragraphs about each item: what it is, needs and costs, and what is there.

    Args:
        results: folder of the committed results.
        out: the output folder.
        width: of a line.
    """
    made = read_all(results, out)
    for item in ITEMS.values():
        lines = [_filled(f"{item.name}: {item.title} ({item.source})", width, "")]
        lines += [_filled(f"printed: {item.printed}", width)]
        for scale in SCALES:
            text = _scale_line(item, scale, made)
            if text:
                lines.append(_filled(text, width))
        yield "\n".join(lines)


def _scale_line(item: Item, scale: Scale, made: Collection[str]) -> str:
    """Returns what an item needs, costs and has at a scale; nothing if it has no such scale."""
    jobs = jobs_of(item, scale)
    same = same_at_both_scales(item)
    if not jobs or (same and scale == "paper"):
        return ""
    done = sum(job.key in made for job in jobs)
    cost = sum((job.cost for job in with_needed(jobs)), Cost())
    there = "nothing done yet" if not done else f"{done} of {len(jobs)} jobs done"
    if done == len(jobs):
        there = "all jobs done"
    name = "any scale" if same else f"--scale {scale}"
    return f"{name}: {cost}; needs {item.needs[scale]}; {there}"


def _filled(text: str, width: int, indent: str = _INDENT) -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=_INDENT * 2,
        break_on_hyphens=False,
        break_long_words=False,
    )
