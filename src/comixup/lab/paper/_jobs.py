"""The jobs of each table and figure, what they cost, and the list of all of them.

A job is one run, one picture, or a chunk of an analysis's seeds.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comixup.lab.paper._items import EXHAUSTIVE, ITEMS, RUN_TIME, SIZES, Item
from comixup.lab.paper._store import read_all
from comixup.lab.paper._trained_tables import (
    BOXED,
    DIGITS,
    IMAGENET,
    SCALES,
    SMALL,
    SMALL_SPEECH,
    SMALL_TINY,
    VARIANTS,
    Run,
    Scale,
    recipe_named,
)
from comixup.lab.training import Method

SEEDS, CHUNK = 100, 25
"""Of an analysis, as in the paper, and those of one job."""
PROBLEMS: Mapping[str, tuple[tuple[int, int, int], ...]] = {
    "paper": tuple(EXHAUSTIVE),
    "hard": ((2, 2, 9), (3, 3, 4), (3, 3, 9), (2, 3, 9), (4, 4, 4)),
}
"""(m, m', n) of what exhaustive search solves: the paper's problems, and harder ones."""
_ANALYSES: Mapping[str, list[tuple[str, float, dict[str, Any]]]] = {
    "exhaustive": [
        (f"{kind}-{'-'.join(map(str, size))}", 1.0, {"kind": kind, "size": size})
        for kind, sizes in PROBLEMS.items()
        for size in sizes
    ],
    "narasimhan-bilmes": [(f"m-{m}", 0.1 + m / 5, {"m": m}) for m in SIZES],
    "run-time": [
        (f"m-{m}-levels-{levels}", 1.0, {"m": m, "levels": levels})
        for m, levels in dict.fromkeys(size for sizes in RUN_TIME.values() for size in sizes)
    ],
}
"""Of the solver: names of problems, the CPU-seconds of a chunk of seeds, and what they are."""
_BATCH, _FEW, _GRIDS = 100, 20, (7, 14)
"""Images of a mixed batch; photographs of one, of which there are fewer, and the cells per side
that are tried on them beside the 4 of all else."""
_NETWORKS: Mapping[Scale, str] = {"small": SMALL, "paper": IMAGENET}
"""Recipes whose vanilla network (seed 0) gives the saliency in pictures and of mixed batches."""
_GPU_FLOPS = 1e13
"""Floating-point operations per second that one GPU is taken to train with. The paper's vanilla
ImageNet training ran at 0.7e13 for each of its four RTX 2080 Ti (0.374 s for 448 images)."""
_PASS_FLOPS = 6.0
"""Per multiply-add of a forward pass: two operations, and twice as many again backwards."""
_GPU = {
    "cifar100-preactresnet18": (0.555, 50_000),
    "cifar100-wrn16-8": (2.00, 50_000),
    "cifar100-resnext29-4-24": (0.761, 50_000),
    **dict.fromkeys(VARIANTS, (0.555, 50_000)),
    "tiny-imagenet-preactresnet18": (0.556, 100_000),
    "imagenet-resnet50": (3.68, 1_281_167),
    "speech-vgg11": (2.33, 51_088),
    "speech-lenet": (0.056, 51_088),
}
"""Giga multiply-adds of a forward pass, counted (ImageNet: mean over its phases), and images."""
_CPU_SECONDS = {
    **dict.fromkeys((SMALL, *VARIANTS.values()), 2.2),
    SMALL_TINY: 3.0,
    SMALL_SPEECH: 25.0,
    DIGITS: 4.0,
}
"""Of one core for a pass over the training images, as measured; with 3,000 clips."""
_INDENT = "    "


@dataclass(frozen=True)
class Cost:
    """An estimate of compute time: seconds of one core, and of one GPU."""

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
            hours = seconds / 3600
            if hours >= 1:
                words.append(f"{hours:,.{1 if hours < 10 else 0}f} {kind}-hours")
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
    name = item.group
    if name in _ANALYSES:
        return [
            job
            for problems, seconds, arguments in _ANALYSES[name]
            for job in _chunks(f"{name}/{problems}", name, seconds, arguments)
        ]
    if name == "photographs":
        photographs = {"run": None, "size": _FEW, "grids": _GRIDS}
        return _chunks(name, "mixed-batches", 30.0, photographs)
    if name == "compatibility":
        return [Job(f"{name}/computed", name, cost=Cost(2.0))]
    if name == "corruption":
        recipe = SMALL_TINY if scale == "small" else IMAGENET
        return [Job(f"{name}/{recipe}", name, {"recipe": recipe}, Cost(20.0))]
    return _jobs_of_networks(name, scale)


def _jobs_of_networks(name: str, scale: Scale) -> list[Job]:
    """Returns the jobs of mixed batches or of a picture, which need a network for the saliency."""
    digits, network = (Run(recipe, "vanilla", 0) for recipe in (DIGITS, _NETWORKS[scale]))
    if name == "mixed-batches":
        batches = {"run": network, "size": _BATCH}
        return _chunks(f"{name}/{network.recipe}", name, 30.0, batches, (training_job(network),))
    return [
        *(
            Job(f"{name}/{run.recipe}", name, {"run": run}, Cost(5.0), (training_job(run),))
            for run in (digits, network)
        ),
        Job(f"{name}/photographs", name, {"run": None}, Cost(20.0)),
    ]


def jobs_by_scale(item: Item) -> dict[Scale, list[Job]]:
    """Returns an item's jobs by scale: the small one's alone if they are the same at both."""
    found = {scale: jobs_of(item, scale) for scale in SCALES}
    small, paper = ([job.key for job in jobs] for jobs in found.values())
    return {"small": found["small"]} if small == paper else found


def with_needed(jobs: Iterable[Job]) -> list[Job]:
    """Returns jobs with those that they need before them, each once."""
    found: dict[str, Job] = {}
    for job in jobs:
        for needed in with_needed(job.needs):
            found.setdefault(needed.key, needed)
        found.setdefault(job.key, job)
    return list(found.values())


def total_cost(jobs: Iterable[Job]) -> Cost:
    """Returns what all jobs cost."""
    return sum((job.cost for job in jobs), Cost())


def training_job(run: Run) -> Job:
    """Returns the job that trains and measures a run."""
    arguments = {
        "recipe": recipe_named(run.recipe),
        "method": run.method,
        "seed": run.seed,
        "boxes": run.recipe in BOXED,
    }
    return Job(run.key, "run", arguments, run_cost(run.recipe, run.method))


def _chunks(
    name: str,
    maker: str,
    cpu_seconds: float,
    arguments: Mapping[str, Any],
    needs: tuple[Job, ...] = (),
) -> list[Job]:
    """Returns a job for each chunk of the seeds."""
    return [
        Job(
            f"{name}/seeds-{first}-{first + CHUNK - 1}",
            maker,
            {**arguments, "seeds": range(first, first + CHUNK)},
            Cost(cpu_seconds),
            needs,
        )
        for first in range(0, SEEDS, CHUNK)
    ]


def run_cost(recipe: str, method: str) -> Cost:
    """Returns an estimate for training one run of a recipe."""
    whole = recipe_named(recipe)
    chosen = whole.choose(method)
    passes = whole.epochs * chosen.epoch_multiplier * passes_of(chosen)
    if recipe in _GPU:
        giga, images = _GPU[recipe]
        return Cost(gpu_seconds=passes * images * giga * 1e9 * _PASS_FLOPS / _GPU_FLOPS)
    return Cost(cpu_seconds=passes * _CPU_SECONDS[recipe])


def passes_of(method: Method) -> float:
    """Returns the passes over a training image that a method of the paper's tables makes.

    `passes_per_image` counts them for any method, but needs torch, which a list is not to
    wait for.
    """
    if method.vat is not None:  # the perturbed images, and a pass for each update of the noise
        return 2.0 + float(method.vat["updates"])
    return 2.0 if method.mixer in ("puzzlemix", "comixup") else 1.0


def listing(results: Path, out: Path, width: int = 100) -> Iterable[str]:
    """Yields paragraphs about each item: what it is, needs and costs, and what is there.

    Args:
        results: folder of the committed results.
        out: the output folder.
        width: of a line.
    """
    filled = functools.partial(
        textwrap.fill,
        width=width,
        subsequent_indent=_INDENT * 2,
        break_on_hyphens=False,
        break_long_words=False,
    )
    made = read_all(results, out)
    for item in ITEMS.values():
        lines = [filled(f"{item.name}: {item.title} ({item.source})")]
        facts = [f"printed: {item.printed}"]
        scales = jobs_by_scale(item)
        for scale, jobs in scales.items():
            done = sum(job.key in made for job in jobs)
            there = f"{done} of {len(jobs)} jobs done" if done else "nothing done yet"
            there = "all jobs done" if done == len(jobs) else there
            needs = item.paper_needs or item.needs if scale == "paper" else item.needs
            name = "any scale" if len(scales) == 1 else f"--scale {scale}"
            facts.append(f"{name}: {total_cost(with_needed(jobs))}; needs {needs}; {there}")
        yield "\n".join(lines + [filled(text, initial_indent=_INDENT) for text in facts])
