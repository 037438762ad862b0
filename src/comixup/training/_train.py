"""Training a recipe: the function behind `comixup train`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypedDict, TypeVar

from lightning_fabric import Fabric
from rich.console import Console

from comixup._checks import check_count
from comixup._locks import locked, sole_training
from comixup.data import MAX_SEED, DataSet
from comixup.training import _folder
from comixup.training._checkpoint import State, check_identity, load_state
from comixup.training._hardware import Hardware
from comixup.training._recipe import Recipe
from comixup.training._report import Reporter
from comixup.training._results import Result, summarise
from comixup.training._run import Run, Training, title_of
from comixup.training._stop import TrainingStopped

T = TypeVar("T")

MAX_STEPS = 10**9
"""From one checkpoint to the next: no epoch has as many."""

_LOST = ("connection", "gloo", "nccl", "peer", "socket", "recv", "broken pipe")
"""Words in the errors of torch.distributed when another process has gone."""
_LATE = ("timed out", "timeout")
"""The same when another process has not answered."""


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
) -> dict[int, Result]:
    """Returns the result of each seed, training what is not yet trained.

    Each run has the folder OUT/RECIPE/METHOD/seed-N, and goes on from where that stands.

    Args:
        recipe: what to train, with all changes made.
        method: the name of one of its methods; None means the recipe's own.
        seeds: one run each.
        out: the folder of all runs.
        hardware: what to train on.
        fabric: launched already by the caller, to be used again; None launches one.
        data_root: see `comixup.data.load`.
        download: see `comixup.data.load`.
        checkpoint_steps: save every so many steps too, not only after each epoch.
        console: where to report; None is silent.
    """
    method = method or recipe.method
    hardware = hardware or Hardware()
    check_run_options(recipe, seeds, hardware, checkpoint_steps)
    runs = [Run(recipe, method, seed) for seed in seeds]
    results = {}
    with sole_training():
        fabric = fabric or hardware.launch()
        for run in runs:
            folder = out / recipe.name / method / f"seed-{run.seed}"
            with _explained(fabric, hardware.timeout_minutes):
                results[run.seed] = _train_one(
                    run, folder, fabric, hardware, data_root, download, checkpoint_steps, console
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


def _train_one(
    run: Run,
    folder: Path,
    fabric: Fabric,
    hardware: Hardware,
    data_root: Path | None,
    download: bool,
    checkpoint_steps: int | None,
    console: Console | None,
) -> Result:
    with contextlib.ExitStack() as stack:

        def prepare() -> State:
            stack.enter_context(locked(folder))
            identity = run.identity()
            return load_state(folder / _folder.CHECKPOINT, identity) or State(identity)

        def begin() -> None:
            if not state.finished:
                settings = {"method": run.method, "seed": run.seed, "hardware": vars(hardware)}
                _folder.write_metadata(folder, run.trained.as_dict(), settings)

        state = _agreed(fabric, prepare)
        complete = state.finished and (folder / _folder.RESULT).exists()
        data = _data_of(run, data_root, download, complete, console)
        if data is not None:
            identity = run.identity(data)
            _agreed(fabric, lambda: check_identity(state, identity, folder))
            state.identity = identity
        if data is None or complete:
            return summarise(state.history, run.trained, state.final)
        first = fabric.is_global_zero
        reporter = stack.enter_context(
            Reporter(
                console if first and not state.finished else None,
                title_of(run),
                run.trained.epochs,
                state.epoch,
                folder / _folder.EVENTS if first and not state.finished else None,
            )
        )
        training = Training(
            run, state, data, folder, fabric, hardware, reporter, checkpoint_steps=checkpoint_steps
        )
        _agreed(fabric, begin)  # not before all that may be rejected has been read
        return training.fit()


def _data_of(
    run: Run, root: Path | None, download: bool, complete: bool, console: Console | None
) -> DataSet | None:
    """Returns a run's data; None if they are gone but the run is complete and needs none."""
    try:
        return run.load_data(root, download=download)
    except FileNotFoundError as why:
        if not complete:
            raise
        if console is not None:
            console.print(
                f"{title_of(run)} is finished; its data were not found, so that nothing could "
                f"compare them with those it was trained on ({str(why).split('. ')[0]}).",
                highlight=False,
                markup=False,
            )
        return None


def _agreed(fabric: Fabric, make: Callable[[], T]) -> T:
    """Returns in every process what the first one makes; its error is everyone's error."""
    outcome: tuple[T | None, Exception | None] = (None, None)
    if fabric.is_global_zero:
        try:
            outcome = (make(), None)
        except Exception as error:  # whatever it is, the other processes are waiting
            outcome = (None, error)
    made, failure = fabric.broadcast(outcome)
    if failure is not None:
        raise failure
    return made  # type: ignore[return-value]


@contextlib.contextmanager
def _explained(fabric: Fabric, minutes: float) -> Iterator[None]:
    """Turns the errors of torch.distributed for lost or stopped processes into messages."""
    try:
        yield
    except RuntimeError as error:
        text = str(error).lower()
        if fabric.world_size == 1 or isinstance(error, TrainingStopped):
            raise
        if any(word in text for word in _LATE):
            why = (
                f"Another process of this run has not answered for {minutes:g} minutes "
                "(--timeout-minutes): it is stopped, hangs or is far behind"
            )
        elif any(word in text for word in _LOST):
            why = "Another process of this run has gone"
        else:
            raise
        raise TrainingStopped(
            f"{why}, so process {fabric.global_rank} stops too. The same command resumes from the "
            "last checkpoint."
        ) from error
