"""Trains recipes: the functions behind `comixup train`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from lightning_fabric import Fabric
from rich.console import Console

from comixup.lab._cluster import Cluster
from comixup.lab._locks import locked, sole_training
from comixup.lab._progress import Tell, print_line
from comixup.lab._runs import RunRecord
from comixup.lab._tasks import Done, Task
from comixup.lab.data import DataSet
from comixup.lab.data import data_root as find_root
from comixup.lab.training._folder import (
    RunFolder,
    State,
    check_identity,
    load_state,
    note_variant,
    run_folder,
    write_metadata,
)
from comixup.lab.training._hardware import Hardware, check_run_options
from comixup.lab.training._processes import (
    check_alone,
    explaining_lost_processes,
    from_first_process,
    load_once,
)
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._report import Reporter
from comixup.lab.training._results import paused_record, record_of
from comixup.lab.training._run import Run
from comixup.lab.training._trainer import Trainer

if TYPE_CHECKING:
    from typing_extensions import Unpack


class TrainOptions(TypedDict, total=False):
    """Keywords of `train` other than the method."""

    seeds: Sequence[int]
    out: Path
    hardware: Hardware | None
    fabric: Fabric | None
    data_root: Path | None
    download: bool
    checkpoint_steps: int | None
    console: Console | None
    data: Mapping[int, DataSet] | None
    tell: Tell | None
    pause_after: int | None


def train_all(
    recipe: Recipe,
    methods: Sequence[str],
    cluster: Cluster | None = None,
    *,
    each: Callable[[str, int, RunRecord], None] | None = None,
    **options: Unpack[TrainOptions],
) -> tuple[dict[str, dict[int, RunRecord]], list[Done]]:
    """Returns the result of each method and seed, and the status of all runs.

    If one fails the others continue.

    Args:
        recipe: the recipe to train, with all changes made.
        methods: names of its methods.
        cluster: executor of the runs; None trains them in this process, one by one. Weights and
            folders do not depend on it.
        each: called with method, seed and result of each finished run.
        **options: keywords of `train`. Runs in other processes load their data themselves.
    """
    cluster, hardware = cluster or Cluster(), options.get("hardware") or Hardware()
    seeds, out = options.get("seeds", (0,)), options.get("out", Path("runs"))
    check_run_options(seeds, hardware, options.get("checkpoint_steps"), recipe)
    console, several, together = options.get("console"), False, (1, 1)
    if cluster.inline:
        options["fabric"] = fabric = options.get("fabric") or hardware.launch()
        console, several = console if fabric.is_global_zero else None, fabric.world_size > 1
    else:
        check_alone(f"--cluster {cluster.cluster}")
        together = hardware.devices or 1, hardware.num_nodes or 1
        if together != (1, 1) and cluster.processes:
            raise ValueError(
                f"`devices` and `num_nodes` must be 1 with --cluster {cluster.cluster}, got "
                f"{together[0]} and {together[1]}: its processes train a run each. Use --cluster "
                "ray, or leave --cluster out."
            )
        root = find_root(options.get("data_root"), or_csv=True)
        options = {**options, "out": out.absolute(), "data_root": root}
        options |= {"console": None, "fabric": None, "data": None}
    runs = {
        f"{recipe.name}: {method}, seed {seed}": (method, seed)
        for method in methods
        for seed in seeds
    }
    tasks = [
        Task(key, _train_one, (recipe, *run, options), trains=True) for key, run in runs.items()
    ]
    if together != (1, 1):  # one run at a time, each in many processes
        for task in tasks:
            cluster.train_together(
                task, *together, hardware.timeout_minutes, out.absolute(), console
            )
        # All are finished now: read their results.
        finished: TrainOptions = {**options, "hardware": Hardware(accelerator="cpu")}
        tasks = [replace(task, arguments=(*task.arguments[:3], finished)) for task in tasks]
        cluster, console = Cluster(), None
    found: dict[tuple[str, int], RunRecord] = {}
    everything = []
    for done in cluster.run(tasks, console, out):
        everything.append(done)
        if done.error is None:
            found[runs[done.key]] = done.result
            if each is not None:
                each(*runs[done.key], done.result)
        elif several or len(tasks) == 1:  # the processes of a run lost their connection
            raise done.error
    results: dict[str, dict[int, RunRecord]] = {}
    for method, seed in runs.values():
        if (method, seed) in found:
            results.setdefault(method, {})[seed] = found[method, seed]
    return results, everything


def _train_one(
    tell: Tell, recipe: Recipe, method: str, seed: int, options: TrainOptions
) -> RunRecord:
    """Returns the result of one run, a task of `train_all`."""
    keywords: TrainOptions = {**options, "seeds": (seed,), "tell": tell}
    return train(recipe, method=method, **keywords)[seed]


def train(
    recipe: Recipe,
    *,
    method: str | None = None,
    seeds: Sequence[int] = (0,),
    out: Path = Path("runs"),
    hardware: Hardware | None = None,
    fabric: Fabric | None = None,
    data_root: Path | None = None,
    download: bool = False,
    checkpoint_steps: int | None = None,
    console: Console | None = None,
    data: Mapping[int, DataSet] | None = None,
    tell: Tell | None = None,
    pause_after: int | None = None,
) -> dict[int, RunRecord]:
    """Returns the record of each seed's run, training missing ones.

    A run resumes from the last checkpoint in its folder, OUT/RECIPE/METHOD/seed-N. If that has runs
    with other settings, the folder is OUT/RECIPE/METHOD-HASH/seed-N, and OUT/RECIPE/variants.txt
    lists the differences. `RunRecord.folder` is the folder.

    Args:
        recipe: the recipe to train, with all changes made.
        method: name of one of its methods; None means the recipe's default method.
        seeds: the seeds, one run each.
        out: the folder of all runs.
        hardware: the hardware options.
        fabric: a Fabric already launched by the caller; None launches one.
        data_root: see `comixup.lab.data.load`.
        download: see `comixup.lab.data.load`.
        checkpoint_steps: save a checkpoint every so many steps, in addition to each epoch.
        console: console to report to; None is silent.
        data: loaded data sets, by seed.
        tell: called with the console's reports if there is no console.
        pause_after: number of epochs after which a run pauses, to be resumed by another call; its
            record covers these epochs alone, even if it has been trained further. None trains all.
    """
    hardware = (hardware or Hardware()).resolved()
    check_run_options(seeds, hardware, checkpoint_steps, recipe)
    runs = [Run(recipe, method or recipe.method, seed) for seed in seeds]
    results = {}
    with sole_training():
        fabric = fabric or hardware.launch()
        for run in runs:
            load = functools.partial(
                run.load_data, data_root, download=download, loaded=(data or {}).get(run.seed)
            )
            # For `comixup evaluate` to locate the data.
            about = {
                "hardware": vars(hardware),
                "data_root": str(find_root(data_root, or_csv=True)),
            }
            with explaining_lost_processes(fabric, hardware.timeout_minutes):
                results[run.seed] = _train_run(
                    *(run, out, load, about, fabric, hardware, checkpoint_steps, console, tell),
                    pause_after,
                )
    return results


def _train_run(
    run: Run,
    out: Path,
    load: Callable[[], DataSet],
    about: Mapping[str, Any],
    fabric: Fabric,
    hardware: Hardware,
    checkpoint_steps: int | None,
    console: Console | None,
    tell: Tell | None,
    pause_after: int | None,
) -> RunRecord:
    """Returns the record of a run, after training its remaining epochs."""

    def record(test_digest: str | None = None) -> RunRecord:
        if pause_after is None:
            return record_of(run, state, folder.path, test_digest)
        return paused_record(run, state.history[:pause_after], folder.path)

    with contextlib.ExitStack() as stack:

        def lock_and_load() -> tuple[RunFolder, str, State]:
            folder, differs = run_folder(out, run)
            stack.enter_context(locked(folder.path))
            identity = run.identity()
            return folder, differs, load_state(folder.checkpoint, identity) or State(identity)

        folder, differs, state = from_first_process(fabric, lock_and_load)
        paused = pause_after is not None and state.epoch >= pause_after
        complete = paused or (state.finished and folder.result.exists())
        try:
            data = load_once(fabric, load)
        except FileNotFoundError as why:
            if not complete:  # a complete run needs no data
                raise
            print_line(
                console,
                f"{run.title} is finished; its data or initial weights were not found, so that "
                f"nothing could compare them with those it had ({str(why).split('. ')[0]}).",
            )
            return record()
        identity = run.identity(data)
        from_first_process(fabric, lambda: check_identity(state, identity, folder.path))
        state.identity = identity
        if complete:
            return record(data.test.digest())

        first, begun = fabric.is_global_zero, bool(state.model)
        told = console if first and not state.finished else None
        if data.missing_note is not None:
            print_line(told, data.missing_note)
        events = folder.events if first and not state.finished else None
        reporter = Reporter(told, run.title, run.trained.epochs, state.epoch, events, tell)
        stack.enter_context(reporter)
        if differs:
            reporter.tell(
                f"Its folder is {folder.path}, since earlier runs have other settings: {differs}."
            )
        trainer = Trainer(run, data, fabric, state, folder, reporter, hardware, checkpoint_steps)
        if run.recipe.weights and not begun:
            new = ", ".join(trainer.new_weights) or "none"
            start = f"{run.title} begins with the weights of {run.recipe.weights}"
            reporter.tell(f"{start}; new: {new}")
        if run.recipe.ema:
            decay = f"EMA, decay {run.recipe.ema:g}"
            reporter.tell(f"Averaged weights ({decay}) are evaluated and saved.")

        def write_about() -> None:
            if not state.finished:
                settings = {
                    "method": run.method,
                    "seed": run.seed,
                    "variant": run.variant,
                    **about,
                    "test_digest": data.test.digest(),  # for `evaluate` to identify the images
                    "left_out": list(data.left_out),
                }
                write_metadata(folder.path, run.trained.as_dict(), settings)
            if differs:
                note_variant(folder.path, differs)

        from_first_process(fabric, write_about)  # after everything has been validated
        if state.finished or trainer.fit(pause_after):
            trainer.finish()
            fabric.barrier()
            state.final = fabric.broadcast(state.final)
        return record(data.test.digest())
