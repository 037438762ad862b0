"""From a job's description to its rows and pictures: the only place that knows every kind."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from comixup.lab import data as data_sets
from comixup.lab import evaluation, training
from comixup.lab._source_commit import source_commit
from comixup.lab.paper._jobs import Job
from comixup.lab.paper._store import JobResult, Row
from comixup.lab.paper._trained_tables import Run, recipe_named

if TYPE_CHECKING:
    from torch import Tensor

    from comixup.lab.data import DataSet
    from comixup.lab.evaluation import RunRecord
    from comixup.lab.training import Recipe

_ANNOTATIONS = "**/Annotations/CLS-LOC/val"
"""ImageNet's boxes, as they are unpacked."""


@dataclass(frozen=True)
class Workspace:
    """Where jobs are run.

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


def run_job(job: Job, workspace: Workspace) -> JobResult:
    """Returns what a job measures, after running it; pictures go to the folder of figures."""
    begin = time.perf_counter()
    rows = _MAKERS[job.maker](workspace, **job.arguments)
    about: dict[str, float | str] = {"seconds": round(time.perf_counter() - begin, 1), **_about()}
    return JobResult(tuple(rows), about)


def _run(workspace: Workspace, *, recipe: Any, method: str, seed: int, boxes: bool) -> list[Row]:
    return [measured_run(workspace, recipe, method, seed, boxes=boxes).as_row()]


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
    """Draws images of a recipe's data set with corrupted backgrounds (Figure 10)."""
    name = recipe_named(recipe).data
    data = data_sets.load(name, workspace.data_root)
    boxes = _boxes_of(data, data_sets.data_root(workspace.data_root))
    if boxes is None:
        raise FileNotFoundError(
            f"Boxes of {name} were not found. Put ImageNet's Annotations/CLS-LOC/val into its "
            "folder."
        )
    evaluation.draw_corruptions(
        data,
        data.test,
        boxes,
        workspace.figures / f"corruption-{recipe}.png",
        f"Background corruption of {name}",
    )
    return []


# ---- Trained runs --------------------------------------------------------------------------------


def measured_run(
    workspace: Workspace, recipe: Recipe, method: str, seed: int, *, boxes: bool
) -> RunRecord:
    """Returns the record of a run, training it as far as it is not trained.

    Args:
        workspace: where to train.
        recipe: what to train.
        method: one of its methods.
        seed: of the run.
        boxes: measure localisation and background corruption too.
    """
    trained = training.train(
        recipe,
        method=method,
        seeds=(seed,),
        out=workspace.out / "runs",
        data_root=workspace.data_root,
        console=workspace.console,
    )
    folder = trained[seed].folder or workspace.run_folder(Run(recipe.name, method, seed))
    run = evaluation.measure_run(folder)
    if not boxes:
        return run
    found = _evaluated(workspace, folder)
    return replace(run, metrics={**found.summary, **_baselines(found), **run.metrics})


def _baselines(found: evaluation.Evaluation) -> dict[str, float]:
    """Returns what boxes localise that know nothing of the image: the whole of it, its centre."""
    boxes = () if found.localisation is None else found.localisation.baselines
    return {
        f"{box.name.split()[0]}_{name}": value
        for box in boxes
        for name, value in box.summary.items()
    }


def _boxes_of(data: DataSet, root: Path) -> Tensor | None:
    """Returns the boxes of a data set's test images; None where there are none."""
    folders = sorted(root.glob(_ANNOTATIONS)) if data.name == "imagenet" else []
    return evaluation.find_boxes(data, root, folders[0] if folders else None)


def _evaluated(workspace: Workspace, run: Path) -> evaluation.Evaluation:
    """Returns the evaluation of a finished run, with boxes where there are any; writes its file."""
    from torch.cuda import is_available  # noqa: PLC0415 - not for lists

    from comixup.lab.training._setup import shape_of  # noqa: PLC0415

    origin = evaluation.trained_on(run)
    data = origin.load_data(workspace.data_root)
    trained = evaluation.load_trained(
        run, num_classes=data.num_classes, shape=shape_of(data, origin.image_size)
    )
    boxes = _boxes_of(data, data_sets.data_root(workspace.data_root))
    found = evaluation.evaluate(
        trained, data, boxes, device="cuda" if is_available() else "cpu", console=workspace.console
    )
    evaluation.write_evaluation(found, run)
    return found


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
    """Returns when, on what and with what a job was run."""
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
