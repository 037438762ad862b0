"""Training a recipe: the function behind `comixup train`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from lightning_fabric import Fabric
from rich.console import Console

from comixup.lab._locks import locked, sole_training
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
from comixup.lab.training._processes import explaining_lost_processes, from_first_process
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._report import Reporter
from comixup.lab.training._results import Result, result_of
from comixup.lab.training._run import Run
from comixup.lab.training._trainer import Trainer


class TrainOptions(TypedDict, total=False):
    """Keywords of `train` that do not name a method."""

    seeds: Sequence[int]
    out: Path
    hardware: Hardware | None
    fabric: Fabric | None
    data_root: Path | None
    download: bool
    checkpoint_steps: int | None
    console: Console | None
    data: Mapping[int, DataSet] | None


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
) -> dict[int, Result]:
    """Returns the result of each seed, training what is not yet trained.

    Each run has the folder OUT/RECIPE/METHOD/seed-N, and resumes from its last checkpoint. Where
    runs with other settings are there already, it is OUT/RECIPE/METHOD-HASH/seed-N, and the file
    OUT/RECIPE/variants.txt says in what they differ. `Result.folder` has it.

    Args:
        recipe: what to train, with all changes made.
        method: the name of one of its methods; None means the recipe's own.
        seeds: one run each.
        out: the folder of all runs.
        hardware: what to train on.
        fabric: launched already by the caller, to be used again; None launches one.
        data_root: see `comixup.lab.data.load`.
        download: see `comixup.lab.data.load`.
        checkpoint_steps: save every so many steps too, not only after each epoch.
        console: where to report; None is silent.
        data: data sets that are loaded already, by seed.
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
            # Where `comixup evaluate` looks for the data.
            about = {
                "hardware": vars(hardware),
                "data_root": str(find_root(data_root, or_csv=True)),
            }
            with explaining_lost_processes(fabric, hardware.timeout_minutes):
                results[run.seed] = _train_run(
                    run, out, load, about, fabric, hardware, checkpoint_steps, console
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
) -> Result:
    """Returns the result of a run, after training what remains of it in its folder."""
    with contextlib.ExitStack() as stack:

        def lock_and_load() -> tuple[RunFolder, str, State]:
            folder, differs = run_folder(out, run)
            stack.enter_context(locked(folder.path))
            identity = run.identity()
            return folder, differs, load_state(folder.checkpoint, identity) or State(identity)

        folder, differs, state = from_first_process(fabric, lock_and_load)
        complete = state.finished and folder.result.exists()
        try:
            data = load()
        except FileNotFoundError as why:
            if not complete:  # else it needs none
                raise
            if console is not None:
                console.print(
                    f"{run.title} is finished; its data or initial weights were not found, so that "
                    f"nothing could compare them with those it had ({str(why).split('. ')[0]}).",
                    highlight=False,
                    markup=False,
                )
            return result_of(state.history, run.trained, state.final, folder.path)
        identity = run.identity(data)
        from_first_process(fabric, lambda: check_identity(state, identity, folder.path))
        state.identity = identity
        if complete:
            return result_of(state.history, run.trained, state.final, folder.path)

        first, begun = fabric.is_global_zero, bool(state.model)
        told = console if first and not state.finished else None
        if told is not None and data.missing_note is not None:
            told.print(data.missing_note, highlight=False, markup=False, soft_wrap=True)
        events = folder.events if first and not state.finished else None
        reporter = Reporter(told, run.title, run.trained.epochs, state.epoch, events)
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
        if run.chosen.ema is not None:
            decay = f"EMA, decay {run.chosen.ema:g}"
            reporter.tell(f"Averaged weights ({decay}) are evaluated and saved.")

        def write_about() -> None:
            if not state.finished:
                settings = {
                    "method": run.method,
                    "seed": run.seed,
                    "variant": run.variant,
                    **about,
                    "test_digest": data.test.digest(),  # by which `evaluate` knows the images again
                    "left_out": list(data.left_out),
                }
                write_metadata(folder.path, run.trained.as_dict(), settings)
            if differs:
                note_variant(folder.path, differs)

        from_first_process(fabric, write_about)  # not before all that may be rejected has been read
        if not state.finished:
            trainer.fit()
        if first:
            trainer.finish()
        fabric.barrier()
        state.final = fabric.broadcast(state.final)
        return result_of(state.history, run.trained, state.final, folder.path)
