"""What the benchmarks share: problems, timing, tables, and the line that says where they ran."""

from __future__ import annotations

import argparse
import datetime
import functools
import os
import pickle
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad

import comixup
from comixup import Problem

FIGURES = Path(os.environ.get("COMIXUP_FIGURES", Path(__file__).parent / "figures"))
CIFAR = "cifar-100-python"
console = Console(width=None if os.isatty(1) else 110)


def options(description: str | None, **defaults: int) -> argparse.Namespace:
    """Returns the command line's whole numbers, one `--name` for each default."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    for name, value in defaults.items():
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=int, default=value, help=f"default {value}")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console.print(f"[bold]{parser.description}[/bold]\n{machine()}\n")
    return arguments


def machine() -> str:
    """Returns where and with what this runs."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].split(":")[1].strip() if names else processor
    versions = f"Python {platform.python_version()}, torch {torch.__version__}"
    return (
        f"{datetime.date.today()}, {processor}, {os.cpu_count()} cores, {versions}, "
        f"numpy {np.__version__}, comixup {comixup.__version__}"
    )


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table; numbers are to come formatted."""
    output = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        output.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        output.add_row(*[str(cell) for cell in row])
    console.print(output)


def target(what: str, holds: bool) -> None:
    """Prints whether a target holds."""
    console.print(f"target: {what}: " + ("[green]holds[/green]" if holds else "[red]MISSED[/red]"))


def progress(items: Sequence, what: str) -> Iterable:
    """Returns the items, with a bar that goes away at the end."""
    hide = not console.is_terminal
    return track(items, description=what, console=console, transient=True, disable=hide)


def seeded(seed: int) -> torch.Generator:
    """Returns a generator of its own for each seed."""
    return torch.Generator().manual_seed(seed)


def seconds(
    call: Callable[[], object], repeats: int = 7, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Returns the median time of a call, after one that is not counted."""
    call()
    times = []
    for _ in range(repeats):
        begin = clock()
        call()
        times.append(clock() - begin)
    return statistics.median(times)


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean and its standard error."""
    return statistics.fmean(values), statistics.stdev(values) / len(values) ** 0.5


# ---- Problems -----------------------------------------------------------------------------------


def unit_maps(m: int, grid: Sequence[int], seed: int, power: float = 1) -> Tensor:
    """Returns s = U^power at every location, each input's map normalized to sum 1."""
    maps = torch.rand(m, *grid, generator=seeded(seed), dtype=torch.float64) ** power
    return maps / maps.flatten(1).sum(1).view(-1, *[1] * len(grid))


def noise_saliency(m: int, seed: int, power: float = 1, cells: int = 4, block: int = 8) -> Tensor:
    """Returns (m, 32, 32) maps that are s = U^power on a 4 x 4 grid of blocks."""
    maps = unit_maps(m, (cells, cells), seed, power).float()
    return maps.repeat_interleave(block, 1).repeat_interleave(block, 2)


def smooth_saliency(m: int, seed: int, size: int = 32, window: int = 13) -> Tensor:
    """Returns smooth random maps: noise averaged twice, on a scale of 0..1, squared."""
    side = size + 2 * (window - 1)
    maps = torch.rand(m, 1, side, side, generator=seeded(seed))
    for _ in range(2):
        maps = avg_pool2d(maps, window, stride=1)
    flat = maps.flatten(1)
    low, high = flat.amin(1, keepdim=True), flat.amax(1, keepdim=True)
    return ((flat - low) / (high - low)).square().view(m, size, size)


def image_saliency(m: int, seed: int) -> Tensor:
    """Returns (m, 32, 32) edge strength of CIFAR-100 images: saliency that needs no model."""
    grey = _chosen(m, seed).float().mean(1, keepdim=True)
    grey = pad(grey, (1, 1, 1, 1), mode="replicate")
    right = grey[:, :, 1:-1, 2:] - grey[:, :, 1:-1, :-2]
    down = grey[:, :, 2:, 1:-1] - grey[:, :, :-2, 1:-1]
    return (right.square() + down.square()).sqrt().squeeze(1) + 1e-3


def random_images(m: int, seed: int) -> Tensor:
    """Returns (m, 3, 32, 32) CIFAR-100 images, colours from 0 to 1."""
    return _chosen(m, seed).float() / 255


def has_images() -> bool:
    """Returns whether COMIXUP_DATA names a folder with CIFAR-100."""
    return (Path(os.environ.get("COMIXUP_DATA", "")) / CIFAR / "train").is_file()


def _chosen(m: int, seed: int) -> Tensor:
    images, _ = cifar()
    return images[torch.randperm(len(images), generator=seeded(seed))[:m]]


@functools.lru_cache(maxsize=1)
def cifar() -> tuple[Tensor, Tensor]:
    """Returns CIFAR-100's training images, (50000, 3, 32, 32) uint8, and their fine classes."""
    with (Path(os.environ["COMIXUP_DATA"]) / CIFAR / "train").open("rb") as file:
        batch = pickle.load(file, encoding="latin1")
    images = torch.from_numpy(np.asarray(batch["data"])).view(-1, 3, 32, 32)
    return images, torch.tensor(batch["fine_labels"])


MAPS = {"U": noise_saliency, "smooth": smooth_saliency, "images": image_saliency}


def realistic(kind: str, m: int, seed: int, **settings: object) -> Problem:
    """Returns a problem with the paper's settings from one of the kinds of maps above."""
    return Problem.from_saliency(MAPS[kind](m, seed), generator=seeded(seed), **settings)


def plain(maps: Tensor, num_outputs: int | None = None, **settings: object) -> Problem:
    """Returns a problem without clip, prior and distances (A = I): the setting of appendix D."""
    eye = torch.eye(len(maps), dtype=torch.float64)
    return Problem(-maps, eye, num_outputs=num_outputs, clip=None, prior=None, **settings)


def batch_saliency(problem: Problem, labelling: comixup.Labelling) -> float:
    """Returns the saliency that an output keeps on average; 1 without mixing."""
    return -comixup.objective(problem, labelling).unary / problem.num_outputs
