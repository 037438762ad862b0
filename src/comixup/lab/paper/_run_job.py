"""From a job's description to its rows and pictures: the only place that knows every kind."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

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
        """Returns the folder of a trained run: that of its own settings, if there are several."""
        from comixup.lab.training._folder import run_folder  # noqa: PLC0415 - not for lists
        from comixup.lab.training._run import Run as Trained  # noqa: PLC0415 - not for lists

        trained = Trained(recipe_named(run.recipe), run.method, run.seed)
        return run_folder(self.out / "runs", trained)[0].path


def run_job(job: Job, workspace: Workspace) -> JobResult:
    """Returns what a job measures, after running it; pictures go to the folder of figures."""
    begin = time.perf_counter()
    rows = _rows(job, workspace)
    return JobResult(tuple(rows), {"seconds": round(time.perf_counter() - begin, 1), **_about()})


def _rows(job: Job, workspace: Workspace) -> list[Row]:
    # Here, so that a list does not wait for torch.
    from comixup.lab.paper import _analyses, _pictures  # noqa: PLC0415
    from comixup.lab.paper._images import Images, Photographs  # noqa: PLC0415

    given, figures = dict(job.arguments), workspace.out / "figures"
    if job.maker == "run":
        return [measured_run(workspace, **given).as_row()]
    if job.maker == "compatibility":
        return _pictures.draw_compatibility(figures / "compatibility")
    if job.maker == "corruption":
        return _draw_corruption(workspace, figures, **given)
    if job.maker in _analyses.OF_THE_SOLVER:
        return _analyses.OF_THE_SOLVER[job.maker](**given)
    run: Run | None = given.pop("run")
    root = workspace.data_root
    images = Photographs(root) if run is None else Images(workspace.run_folder(run), root)
    if job.maker == "mixed-batches":
        return _analyses.mixed_batches_rows(images=images, **given)
    of = "photographs" if run is None else run.recipe
    return _pictures.DRAWN[job.maker](images, figures / f"{job.maker}-{of}")


def _draw_corruption(workspace: Workspace, figures: Path, recipe: str) -> list[Row]:
    name = recipe_named(recipe).data
    data = data_sets.load(name, workspace.data_root)
    boxes = _boxes_of(data, workspace)
    if boxes is None:
        raise FileNotFoundError(
            f"Boxes of {name} were not found. Put ImageNet's Annotations/CLS-LOC/val into its "
            "folder."
        )
    from comixup.lab.evaluation._pictures import draw_corruptions  # noqa: PLC0415 - not for lists

    draw_corruptions(data, boxes, figures / f"corruption-{recipe}.png")
    return []


def measured_run(
    workspace: Workspace, recipe: Recipe, method: str, seed: int, *, boxes: bool
) -> RunRecord:
    """Returns the record of a run, training it as far as it is not trained.

    With boxes, localisation and errors on corrupted backgrounds are measured too.
    """
    trained = training.train(
        recipe,
        method=method,
        seeds=(seed,),
        out=workspace.out / "runs",
        data_root=workspace.data_root,
        console=workspace.console,
    )
    folder = trained[seed].folder or Path()
    run = evaluation.measure_run(folder)
    return replace(run, metrics={**_boxed(folder, workspace), **run.metrics}) if boxes else run


def _boxed(folder: Path, workspace: Workspace) -> dict[str, float]:
    """Returns what a run's network localises, and its errors on corrupted backgrounds.

    Beside it, what boxes localise that know nothing of the image: the whole of it, and its centre.
    """
    from torch.cuda import is_available  # noqa: PLC0415 - not for lists

    from comixup.lab.paper._images import load_run  # noqa: PLC0415

    trained, data, _ = load_run(folder, workspace.data_root)
    boxes, device = _boxes_of(data, workspace), "cuda" if is_available() else "cpu"
    found = evaluation.evaluate(trained, data, boxes, device=device, console=workspace.console)
    evaluation.write_evaluation(found, folder)
    summary = dict(found.summary)
    for box in () if found.localisation is None else found.localisation.baselines:
        summary |= {f"{box.name.split()[0]}_{name}": value for name, value in box.summary.items()}
    return summary


def _boxes_of(data: DataSet, workspace: Workspace) -> Tensor | None:
    root = data_sets.data_root(workspace.data_root)
    folders = sorted(root.glob(_ANNOTATIONS)) if data.name == "imagenet" else []
    from comixup.lab.evaluation._boxes import find_boxes  # noqa: PLC0415 - not for lists

    return find_boxes(data, root, folders[0] if folders else None)


def _about() -> dict[str, float | str]:
    """Returns when, on what and with what a job was run."""
    versions = [f"{name} {metadata.version(name)}" for name in ("torch", "numpy", "comixup")]
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": f"{_processor()}, {os.cpu_count()} cores",
        "versions": ", ".join([f"Python {platform.python_version()}", *versions]),
        "commit": source_commit() or "unknown",
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
