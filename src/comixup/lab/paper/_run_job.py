"""From a job's description to its rows and pictures: the only place that knows every kind."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from comixup.lab import data as data_sets
from comixup.lab import evaluation, training
from comixup.lab._cluster import Cluster
from comixup.lab._locks import locked
from comixup.lab._progress import Tell
from comixup.lab._source_commit import source_commit
from comixup.lab._tasks import Done, Task
from comixup.lab.paper._jobs import Job, with_needed
from comixup.lab.paper._store import JobResult, Row, is_done, job_folder, write_result
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
        tell: is told the progress of a run where there is no console.
    """

    out: Path
    data_root: Path | None = None
    console: Console | None = None
    tell: Tell | None = None

    def run_folder(self, run: Run) -> Path:
        """Returns the folder of a trained run: that of its own settings, if there are several."""
        from comixup.lab.training._folder import run_folder  # noqa: PLC0415 - not for lists
        from comixup.lab.training._run import Run as Trained  # noqa: PLC0415 - not for lists

        trained = Trained(recipe_named(run.recipe), run.method, run.seed)
        return run_folder(self.out / "runs", trained)[0].path


def run_jobs(
    jobs: Sequence[Job], workspace: Workspace, cluster: Cluster | None = None
) -> list[Done]:
    """Runs the jobs that are not done yet; returns what became of them, in the order they ended.

    Whoever runs a job holds the lock of its folder meanwhile, and writes its result as a whole at
    the end: any number of calls may work on the same output folder.

    Args:
        jobs: what to run; what they need is run too.
        workspace: where to.
        cluster: what runs them; None means this process, one by one.
    """
    cluster = cluster or Cluster()
    pending = [job for job in with_needed(jobs) if not is_done(workspace.out, job.key)]
    left = {job.key for job in pending}
    inside = workspace
    if not cluster.inline:  # other processes may have another folder as their own
        root = data_sets.data_root(workspace.data_root)
        inside = Workspace(workspace.out.absolute(), root)
    tasks = [
        Task(
            job.key,
            finish_job,
            (job, inside),
            needs=tuple(needed.key for needed in job.needs if needed.key in left),
            trains=job.maker == "run",
        )
        for job in pending
    ]
    return list(cluster.run(tasks, workspace.console, workspace.out))


def finish_job(tell: Tell, job: Job, workspace: Workspace) -> None:
    """Runs a job and writes its result, unless another process has done so."""
    with locked(job_folder(workspace.out, job.key)):
        if not is_done(workspace.out, job.key):
            write_result(workspace.out, job.key, run_job(job, replace(workspace, tell=tell)))


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

    With boxes, localization and errors on corrupted backgrounds are measured too.
    """
    trained = training.train(
        recipe,
        method=method,
        seeds=(seed,),
        out=workspace.out / "runs",
        data_root=workspace.data_root,
        console=workspace.console,
        tell=workspace.tell,
    )
    folder = trained[seed].folder or Path()
    run = evaluation.measure_run(folder)
    return replace(run, metrics={**_boxed(folder, workspace), **run.metrics}) if boxes else run


def _boxed(folder: Path, workspace: Workspace) -> dict[str, float]:
    """Returns what a run's network localizes, and its errors on corrupted backgrounds.

    Beside it, what boxes localize that know nothing of the image: the whole of it, and its centre.
    """
    from torch.cuda import is_available  # noqa: PLC0415 - not for lists

    from comixup.lab.evaluation._evaluate import write_evaluation  # noqa: PLC0415
    from comixup.lab.paper._images import load_run  # noqa: PLC0415

    trained, data, _ = load_run(folder, workspace.data_root)
    boxes, device = _boxes_of(data, workspace), "cuda" if is_available() else "cpu"
    found = evaluation.evaluate(trained, data, boxes, device=device, console=workspace.console)
    write_evaluation(found, folder)
    summary = dict(found.summary)
    for box in () if found.localization is None else found.localization.baselines:
        summary |= {f"{box.name.split()[0]}_{name}": value for name, value in box.summary.items()}
    return summary


def _boxes_of(data: DataSet, workspace: Workspace) -> Tensor | None:
    root = data_sets.data_root(workspace.data_root)
    folders = sorted(root.glob(_ANNOTATIONS)) if data.name == "imagenet" else []
    from comixup.lab.evaluation._boxes import find_boxes  # noqa: PLC0415 - not for lists

    return find_boxes(data, folders[0] if folders else None)


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
