"""Training a recipe: the function behind `comixup train`."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from lightning_fabric import Fabric
from rich.console import Console

from comixup._checks import check_count
from comixup.lab._limits import MAX_SEED
from comixup.lab._locks import locked, sole_training
from comixup.lab.data import DataSet
from comixup.lab.data import data_root as find_root
from comixup.lab.training._export import Logits, export, final_logits, measures
from comixup.lab.training._folder import (
    RunFolder,
    State,
    check_identity,
    load_state,
    note_variant,
    run_folder,
    write_metadata,
)
from comixup.lab.training._hardware import Hardware
from comixup.lab.training._processes import explaining_lost_processes, from_first_process
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._report import Reporter
from comixup.lab.training._results import Result, result_of
from comixup.lab.training._run import Run
from comixup.lab.training._setup import Loaders, build_setup
from comixup.lab.training._stop import TrainingStopped
from comixup.lab.training._trainer import Trainer

MAX_STEPS = 10**9
"""From one checkpoint to the next: no epoch has as many."""


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
    method = method or recipe.method
    hardware = (hardware or Hardware()).resolved()
    check_run_options(recipe, seeds, hardware, checkpoint_steps)
    runs = [Run(recipe, method, seed) for seed in seeds]
    results = {}
    with sole_training():
        fabric = fabric or hardware.launch()
        for run in runs:
            with explaining_lost_processes(fabric, hardware.timeout_minutes):
                found = functools.partial(run_folder, out, run)
                files, differs = from_first_process(fabric, found)
                results[run.seed] = _train_run(
                    run,
                    files,
                    differs,
                    fabric,
                    hardware,
                    data_root,
                    download,
                    checkpoint_steps,
                    console,
                    (data or {}).get(run.seed),
                )
    return results


def check_run_options(
    recipe: Recipe, seeds: Sequence[int], hardware: Hardware, checkpoint_steps: int | None = None
) -> None:
    """Raises `ValueError` for numbers that no run can have; see `train`."""
    for seed in seeds:
        check_count("seeds", seed, low=0, high=MAX_SEED)
    if not seeds or len(set(seeds)) < len(seeds):
        given = " ".join(map(str, seeds)) or "none"
        raise ValueError(f"`seeds` must be different integers, one at least, got {given}.")
    if checkpoint_steps is not None:
        check_count("checkpoint_steps", checkpoint_steps, high=MAX_STEPS)
    smallest = min(phase.batch_size for phase in recipe.phases)
    if hardware.accumulate > smallest:
        raise ValueError(
            f"`accumulate` must be at most the batch size, {smallest}, got {hardware.accumulate}. "
            "A micro-batch has one image at least."
        )


def _train_run(
    run: Run,
    folder: RunFolder,
    differs: str,
    fabric: Fabric,
    hardware: Hardware,
    data_root: Path | None,
    download: bool,
    checkpoint_steps: int | None,
    console: Console | None,
    loaded: DataSet | None,
) -> Result:
    """Returns the result of a run, after training what remains of it in its folder."""
    path = folder.path
    with contextlib.ExitStack() as stack:

        def lock_and_load() -> State:
            stack.enter_context(locked(path))
            identity = run.identity()
            return load_state(folder.checkpoint, identity) or State(identity)

        state = from_first_process(fabric, lock_and_load)
        complete = state.finished and folder.result.exists()
        data = _data_of(run, data_root, download, complete, console, loaded)
        if data is not None:
            identity = run.identity(data)
            from_first_process(fabric, lambda: check_identity(state, identity, path))
            state.identity = identity
        if data is None or complete:
            return result_of(state.history, run.trained, state.final, path)

        reports = fabric.is_global_zero and not state.finished
        note = data.missing_note
        if reports and console is not None and note is not None:
            console.print(note, highlight=False, markup=False, soft_wrap=True)
        reporter = stack.enter_context(
            Reporter(
                console if reports else None,
                run.title,
                run.trained.epochs,
                state.epoch,
                folder.events if reports else None,
            )
        )
        if differs and reports:
            reporter.tell(
                f"Its folder is {path}, since earlier runs have other settings: {differs}."
            )
        setup = build_setup(run, data, fabric, begun=bool(state.model))
        setup.restore(state, path)
        if reports and console is not None and run.recipe.weights and not state.model:
            new = ", ".join(setup.new_weights) or "none"
            line = f"{run.title} begins with the weights of {run.recipe.weights}; new: {new}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
        if setup.average is not None:
            decay = run.recipe.choose(run.method).ema
            reporter.tell(f"Averaged weights (EMA, decay {decay:g}) are evaluated and saved.")
        loaders = Loaders(
            run, data, fabric.global_rank, fabric.world_size, fabric.device, hardware.workers
        )
        trainer = Trainer(
            run,
            data,
            setup,
            state,
            loaders,
            folder,
            reporter,
            accumulate=hardware.accumulate,
            checkpoint_steps=checkpoint_steps,
        )
        # Not before all that may be rejected has been read.
        from_first_process(
            fabric, lambda: _write_metadata(run, data, state, hardware, data_root, path)
        )
        if differs and fabric.is_global_zero:
            note_variant(path, differs)
        if not state.finished:
            trainer.fit()
        if fabric.is_global_zero:
            setup.take_best(state)
            logits = final_logits(setup, data, loaders)
            _check_finite(logits)
            if not state.finished:
                state.final = {name: measures(*pair) for name, pair in logits.items()}
                state.finished = True
                trainer.save({})
            # Also where a kill came between the last checkpoint and these files.
            export(run, data, setup, state, logits, folder)
        fabric.barrier()
        state.final = fabric.broadcast(state.final)
        return result_of(state.history, run.trained, state.final, path)


def _check_finite(logits: Mapping[str, Logits]) -> None:
    """Stops a run whose network gives no numbers, though its weights are some."""
    for name, (values, _) in logits.items():
        if not values.isfinite().all():
            raise TrainingStopped(
                f"The trained network's outputs for the {name} images are infinite or not a "
                "number, so there is nothing to measure. A lower learning rate (--lr) or another "
                "--precision, with another folder by --out, may help."
            )


def _write_metadata(
    run: Run, data: DataSet, state: State, hardware: Hardware, root: Path | None, path: Path
) -> None:
    if not state.finished:
        settings = {
            "method": run.method,
            "seed": run.seed,
            "variant": run.variant,
            "hardware": vars(hardware),
            "data_root": str(
                find_root(root, or_csv=True)
            ),  # where `comixup evaluate` looks for the data
            "test_digest": data.test.digest(),  # by which it knows the test images again
            "left_out": list(data.left_out),
        }
        write_metadata(path, run.trained.as_dict(), settings)


def _data_of(
    run: Run,
    root: Path | None,
    download: bool,
    complete: bool,
    console: Console | None,
    loaded: DataSet | None,
) -> DataSet | None:
    """Returns a run's data; None if they are gone but the run is complete and needs none."""
    try:
        return run.load_data(root, download=download, loaded=loaded)
    except FileNotFoundError as why:
        if not complete:
            raise
        if console is not None:
            console.print(
                f"{run.title} is finished; its data or initial weights were not found, so that "
                f"nothing could compare them with those it had ({str(why).split('. ')[0]}).",
                highlight=False,
                markup=False,
            )
        return None
