"""One run: a recipe, a method and a seed, trained in a folder from wherever it stands."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from comixup import OnePass, models
from comixup._atomic_write import atomic_write
from comixup._wrappers import unwrapped
from comixup.data import DataSet, Loader, Purpose, Split, load, seed_for
from comixup.mixers import ManifoldMixup
from comixup.training import _folder
from comixup.training._checkpoint import State, load_optimizer, load_weights, save_state
from comixup.training._first_batch import draw_first_batch
from comixup.training._hardware import Hardware
from comixup.training._identity import data_fields, identity_of
from comixup.training._logits import logits_bytes, measures
from comixup.training._loop import Stepper, Totals, evaluate, logits_of, summed, train_epoch
from comixup.training._losses import losses
from comixup.training._methods import make_method
from comixup.training._optimizer import make_optimizer
from comixup.training._pictures import draw_curves
from comixup.training._recipe import Recipe
from comixup.training._report import Reporter
from comixup.training._results import Result, summarise
from comixup.training._stop import StopRequest, TrainingStopped
from comixup.training._tensors import safetensors_bytes

COLOUR_LEVELS = 255
"""The radius of VAT's ball is given in levels of 8-bit colours."""
_EVALUATION_BATCH = 250


@dataclass(frozen=True)
class Run:
    """What is trained: a recipe (with all changes made), the name of a method in it, and a seed."""

    recipe: Recipe
    method: str
    seed: int = 0

    def __post_init__(self) -> None:
        self.recipe.choose(self.method)

    @property
    def trained(self) -> Recipe:
        """The recipe with the epochs and the learning rates of this method."""
        return self.recipe.for_method(self.method)

    def identity(self, data: DataSet | None = None) -> str:
        """Returns what makes two runs the same: all that the resulting weights depend on.

        Args:
            data: what it is trained on; None leaves that open.
        """
        fields = None if data is None else data_fields(data)
        return identity_of(self.trained, self.method, self.seed, fields)

    def load_data(self, root: Path | None = None, *, download: bool = False) -> DataSet:
        """Returns the data set that the recipe names, with its classes and images chosen."""
        recipe = self.recipe
        return load(
            recipe.data,
            root,
            classes=recipe.classes,
            images_per_class=recipe.images_per_class,
            validation=recipe.validation,
            validation_seed=recipe.validation_seed,
            seed=self.seed,
            download=download,
        )


class _Clock:
    """Time spent in an epoch, by the wall and by the CPU, over pauses too."""

    def __init__(self, before: Mapping[str, float]) -> None:
        self._wall = time.perf_counter() - before.get("seconds", 0.0)
        self._cpu = time.process_time() - before.get("cpu_seconds", 0.0)

    def read(self, fabric: Fabric) -> dict[str, float]:
        """Returns seconds, and CPU-seconds of all processes (not of workers that read images)."""
        seconds = time.perf_counter() - self._wall
        cpu = torch.tensor([time.process_time() - self._cpu], device=fabric.device)
        return {"seconds": seconds, "cpu_seconds": summed(fabric, cpu)[0]}


class Training:
    """A run under way in one process (of several, perhaps)."""

    def __init__(
        self,
        run: Run,
        state: State,
        data: DataSet,
        folder: Path,
        fabric: Fabric,
        hardware: Hardware,
        reporter: Reporter,
        *,
        checkpoint_steps: int | None = None,
    ) -> None:
        self.run, self.folder, self.fabric, self.hardware = run, folder, fabric, hardware
        self.reporter, self.checkpoint_steps = reporter, checkpoint_steps
        recipe, method = run.trained, run.recipe.choose(run.method)
        self.recipe, self.state, self.data = recipe, state, data
        torch.manual_seed(seed_for(run.seed, Purpose.INITIAL_WEIGHTS))
        model = models.build(
            recipe.model, self.data.num_classes, shape=self.data.shape, width=recipe.width
        )
        channels, *own = self.data.shape
        for side in {phase.image_size for phase in recipe.phases}:
            height, width = (side, side) if side else own
            shape = (channels, height, width)
            models.check_fit(model, recipe.model, shape, self.data.num_classes)
        layout = models.memory_format(model, fabric.device)
        model.to(memory_format=layout)
        self.mixer = make_method(
            method, self.data.num_classes, len(self.data.train), torch.Generator()
        )
        if isinstance(self.mixer, ManifoldMixup):
            self.mixer.attach(model)
        optimizer = make_optimizer(recipe, model)
        self.model, self.optimizer = fabric.setup(model, optimizer)
        self._restore()
        loss_fn, clean_loss_fn = losses(recipe.loss, self.data.num_classes)
        self.stepper = Stepper(
            fabric=fabric,
            model=self.model,
            optimizer=self.optimizer,
            mixer=self.mixer,
            loss_fn=loss_fn,
            clean_loss_fn=clean_loss_fn,
            vat=None if method.vat is None else {**method.vat, "scale": _level(self.data)},
            recipe=recipe,
            seed=run.seed,
            accumulate=hardware.accumulate,
            memory_format=layout,
        )

    def fit(self) -> Result:
        """Trains until the recipe's end, or its patience's; returns how it went."""
        recipe, state = self.recipe, self.state
        if not state.finished:
            with StopRequest().listening() as stop:
                while state.epoch < recipe.epochs and not self._out_of_patience():
                    self._epoch(stop)
        if self.fabric.is_global_zero:
            self._write_ending()
        self.fabric.barrier()
        state.final = self.fabric.broadcast(state.final)
        return summarise(state.history, recipe, state.final)

    def _epoch(self, stop: StopRequest) -> None:
        recipe, state = self.recipe, self.state
        phase = recipe.phase_at(state.epoch)
        loader = self._train_loader()
        self.mixer.enabled = (
            recipe.unmixed_epochs <= state.epoch < recipe.epochs - recipe.last_unmixed_epochs
        )
        # A resumed epoch's sums belong to all processes: the first one carries them on.
        mine = state.totals if self.fabric.is_global_zero else {}
        sums = Totals.begin(self.fabric.device, mine)
        clock = _Clock(state.totals if self.fabric.is_global_zero else {})

        def after(done: int) -> None:
            state.step = done
            self.reporter.step(state.epoch, done, len(loader), sums.sums)
            if self.fabric.is_global_zero:
                self._show_first_batch(loader)
            due = self.checkpoint_steps and done % self.checkpoint_steps == 0
            alone = self.fabric.world_size == 1
            if done == len(loader):  # what remains of the epoch is short: it is done first
                return
            if due or (stop.made and alone):
                totals = sums.read(self.fabric)
                self._check_numbers(totals)
                if isinstance(self.mixer, OnePass):
                    self.mixer.memory.merge()  # what the other processes wrote is saved too
                self._save({**totals, **clock.read(self.fabric)})
            if stop.made:
                self._stop()

        train_epoch(
            self.stepper,
            loader,
            epoch=state.epoch,
            first=state.step,
            batch_size=phase.batch_size,
            size=len(self.data.train),
            sums=sums,
            after=after,
        )
        if self.fabric.device.type == "cuda":
            torch.cuda.synchronize(self.fabric.device)
        times = clock.read(self.fabric)
        self._end_epoch(sums.read(self.fabric), times)
        if stop.made:
            self._stop()

    def _end_epoch(self, totals: dict[str, float], times: dict[str, float]) -> None:
        """Evaluates, adds the epoch to the history, and saves."""
        self._check_numbers(totals)
        state, images = self.state, max(totals["images"], 1)
        row = {
            "epoch": float(state.epoch + 1),
            "lr": self.optimizer.param_groups[0]["lr"],
            "train_loss": totals["loss"] / images,
        }
        if totals["predictions"]:
            row["train_error"] = 100 * (1 - totals["correct"] / totals["predictions"])
        recipe, done = self.recipe, state.epoch + 1
        if done % recipe.evaluate_every == 0 or done == recipe.epochs:
            row |= self._evaluate()
        row |= {**times, "images_per_second": images / max(times["seconds"], 1e-9)}
        state.history.append(row)
        state.seconds += times["seconds"]
        state.epoch, state.step = state.epoch + 1, 0
        self._save({})
        self.reporter.epoch(row)

    def _check_numbers(self, totals: dict[str, float]) -> None:
        """Stops a run whose numbers are no use, in all processes: its checkpoint stays good."""
        weights = [w.detach().isfinite().all() for w in unwrapped(self.model).parameters()]
        if math.isfinite(totals["loss"]) and bool(torch.stack(weights).all()):
            return
        raise TrainingStopped(
            "The training loss or the weights became infinite or not a number in epoch "
            f"{self.state.epoch + 1}, so nothing was saved since the last checkpoint. A lower "
            "learning rate (--lr, with another folder by --out) may help."
        )

    def _evaluate(self) -> dict[str, float]:
        """Returns errors and losses on the validation part, if there is one, and the test part."""
        figures: dict[str, float] = {}
        for name in ("validation", "test"):
            split = getattr(self.data, name)
            if split is not None:
                found = evaluate(self.fabric, self.model, self._loader(split))
                figures |= {f"{name}_{key}": value for key, value in found.items()}
        return figures

    def _out_of_patience(self) -> bool:
        patience, errors = self.recipe.patience, self._validation_errors()
        if patience is None or len(errors) <= patience:
            return False
        return min(errors[:-patience]) <= min(errors[-patience:])

    def _validation_errors(self) -> list[float]:
        return [row["validation_error"] for row in self.state.history if "validation_error" in row]

    def _save(self, totals: dict[str, float]) -> None:
        """Writes the checkpoint, and the history that it holds, from the first process."""
        state = self.state
        state.totals = totals
        if self.fabric.is_global_zero:
            if isinstance(self.mixer, OnePass):
                state.memory = self.mixer.memory.state_dict()
            state.model = unwrapped(self.model).state_dict()
            state.optimizer = self.optimizer.state_dict()
            state.precision = self.fabric.strategy.precision.state_dict()
            save_state(state, self.folder / _folder.CHECKPOINT)
            _folder.write_metrics(self.folder, state.history)

    def _restore(self) -> None:
        """Puts the model and the optimiser where the state says."""
        if not self.state.model:
            return
        try:
            load_weights(unwrapped(self.model), self.state.model)
            load_optimizer(self.optimizer.optimizer, self.state.optimizer)
            self.fabric.strategy.precision.load_state_dict(self.state.precision)
            if isinstance(self.mixer, OnePass):
                self.mixer.memory.load_state_dict(self.state.memory)
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as why:
            raise ValueError(
                f"`checkpoint` must fit this run's network and optimiser, but that of "
                f"{self.folder} does not ({str(why).strip().splitlines()[0][:200]}). Nothing was "
                "changed: use the versions of before, or choose another folder with --out."
            ) from None

    def _stop(self) -> None:
        where = f"epoch {self.state.epoch + 1}, step {self.state.step}"
        if self.fabric.world_size > 1:
            where = "its last checkpoint"
        raise TrainingStopped(f"Stopped. The same command resumes from {where}.")

    def _write_ending(self) -> None:
        """Writes what a finished run leaves: weights, logits, results and curves."""
        state = self.state
        logits = self._final_logits()
        if not state.finished:
            state.final = {name: measures(*found) for name, found in logits.items()}
            state.finished = True
            self._save({})
        # A kill may have come between the checkpoint and these.
        _folder.write_metrics(self.folder, state.history)
        weights = {
            name: tensor.detach().cpu().contiguous().clone()
            for name, tensor in unwrapped(self.model).state_dict().items()
        }
        about = {
            "model": self.recipe.model,
            "num_classes": str(self.data.num_classes),
            "shape": json.dumps(self.data.shape),
            "data": self.recipe.data,
            "classes": json.dumps(self.data.classes),
        }
        if self.recipe.width is not None:
            about["width"] = str(self.recipe.width)
        atomic_write(self.folder / _folder.WEIGHTS, safetensors_bytes(weights, about))
        atomic_write(self.folder / _folder.LOGITS, logits_bytes(logits))
        draw_curves(state.history, self.folder / _folder.CURVES, title_of(self.run))
        result = summarise(state.history, self.recipe, state.final)
        # Last: where this file is, everything is.
        atomic_write(self.folder / _folder.RESULT, json.dumps(result.as_dict(), indent=2) + "\n")

    def _final_logits(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Returns the last weights' logits on all images not trained on, with their classes."""
        return {
            name: logits_of(self.fabric, self.model, self._loader(split, alone=True))
            for name, split in self.data.splits.items()
            if name != "train"
        }

    def _train_loader(self) -> Loader:
        phase = self.recipe.phase_at(self.state.epoch)
        return self.data.train.loader(
            phase.batch_size,
            seed=self.run.seed,
            augment=True,
            image_size=phase.image_size,
            min_scale=phase.min_scale,
            **self._place(),
        )

    def _loader(self, split: Split, alone: bool = False) -> Loader:
        """Returns batches to evaluate: this process's share of them, or the whole."""
        size = self.recipe.phases[-1].image_size
        share = {"part": 0, "parts": 1} if alone else {}
        return split.loader(_EVALUATION_BATCH, image_size=size, **{**self._place(), **share})

    def _show_first_batch(self, loader: Loader) -> None:
        path = self.folder / _folder.FIRST_BATCH
        if not path.exists():
            when, parts = (self.state.epoch, self.state.step), self.hardware.accumulate
            draw_first_batch(path, self.mixer, self.data, loader, when, parts, title_of(self.run))

    def _place(self) -> dict[str, Any]:
        return {
            "part": self.fabric.global_rank,
            "parts": self.fabric.world_size,
            "device": self.fabric.device,
            "workers": self.hardware.workers,
        }


def _level(data: DataSet) -> tuple[float, ...]:
    """Returns what one of 255 levels of colour comes to in normalised images, per channel."""
    return tuple(1 / (COLOUR_LEVELS * std) for std in data.std)


def title_of(run: Run) -> str:
    """Returns a run's name for people."""
    return f"{run.recipe.name}: {run.method}, seed {run.seed}"
