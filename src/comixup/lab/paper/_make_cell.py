"""From a cell's description to its rows and pictures: the only place that knows every kind."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console

from comixup.lab._source_commit import source_commit
from comixup.lab.paper._jobs import Job
from comixup.lab.paper._store import Made, Row
from comixup.lab.paper._trained_tables import Run


@dataclass(frozen=True)
class Workspace:
    """Where cells are made.

    Attributes:
        out: the output folder.
        data_root: see `comixup.lab.data.load`.
        console: shows the progress of a run; None is silent.
    """

    out: Path
    data_root: Path | None = None
    console: Console | None = None

    def run_folder(self, run: Run) -> Path:
        """Returns the folder of a trained run."""
        return self.out / "runs" / run.recipe / run.method / f"seed-{run.seed}"

    @property
    def figures(self) -> Path:
        """The folder of pictures."""
        return self.out / "figures"


def make_cell(job: Job, workspace: Workspace) -> Made:
    """Returns what a cell measures, after making it; pictures go to the folder of figures."""
    begin = time.perf_counter()
    rows = _MAKERS[job.maker](workspace, **job.arguments)
    about: dict[str, float | str] = {"seconds": round(time.perf_counter() - begin, 1), **_about()}
    return Made(tuple(rows), about)


def _run(workspace: Workspace, *, recipe: Any, method: str, seed: int, boxes: bool) -> list[Row]:
    from comixup.lab.paper._trained_runs import measured_run  # noqa: PLC0415 - slow to import

    return [measured_run(workspace, recipe, method, seed, boxes=boxes)]


def _exhaustive(_: Workspace, **arguments: Any) -> list[Row]:
    from comixup.lab.paper._solver_analyses import exhaustive_rows  # noqa: PLC0415

    return exhaustive_rows(**arguments)


def _narasimhan_bilmes(_: Workspace, **arguments: Any) -> list[Row]:
    from comixup.lab.paper._solver_analyses import narasimhan_bilmes_rows  # noqa: PLC0415

    return narasimhan_bilmes_rows(**arguments)


def _run_time(_: Workspace, **arguments: Any) -> list[Row]:
    from comixup.lab.paper._solver_analyses import run_time_rows  # noqa: PLC0415

    return run_time_rows(**arguments)


def _images(workspace: Workspace, run: Run | None) -> Any:
    """Returns a run's images, or photographs where there is no run."""
    from comixup.lab.paper._images import Images, Photographs  # noqa: PLC0415

    if run is None:
        return Photographs(workspace.data_root)
    return Images(workspace.run_folder(run), workspace.data_root)


def _mixed_batches(
    workspace: Workspace, *, run: Run | None, seeds: range, size: int, grids: tuple[int, ...] = ()
) -> list[Row]:
    from comixup.lab.paper._mixed_batches import mixed_batches_rows  # noqa: PLC0415

    return mixed_batches_rows(seeds, _images(workspace, run), size, grids)


def _picture(workspace: Workspace, *, name: str, run: Run | None) -> list[Row]:
    from comixup.lab.paper._illustrations import DRAWN  # noqa: PLC0415

    of = "photographs" if run is None else run.recipe
    return DRAWN[name](_images(workspace, run), workspace.figures / f"{name}-{of}")


def _compatibility(workspace: Workspace) -> list[Row]:
    from comixup.lab.paper._compatibility_picture import draw_compatibility  # noqa: PLC0415

    return draw_compatibility(workspace.figures / "compatibility")


def _corruption(workspace: Workspace, *, recipe: str) -> list[Row]:
    from comixup.lab.paper._trained_runs import draw_corruption  # noqa: PLC0415

    draw_corruption(workspace, recipe)
    return []


_MAKERS: Mapping[str, Callable[..., list[Row]]] = {
    "run": _run,
    "exhaustive": _exhaustive,
    "narasimhan-bilmes": _narasimhan_bilmes,
    "run-time": _run_time,
    "mixed-batches": _mixed_batches,
    "picture": _picture,
    "compatibility": _compatibility,
    "corruption": _corruption,
}


def _about() -> dict[str, float | str]:
    """Returns when, on what and with what a cell was made."""
    versions = [f"Python {platform.python_version()}"]
    versions += [f"{name} {metadata.version(name)}" for name in ("torch", "numpy", "comixup")]
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "versions": ", ".join(versions),
        "commit": source_commit() or "unknown",
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
