"""One run: a recipe, a method and a seed, trained in a folder from wherever it stands."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from safetensors.torch import save as safetensors_bytes

from comixup import models
from comixup._wrappers import unwrapped
from comixup.data import DataSet, Loader, load, seed_for
from comixup.mixers import ManifoldMixup
from comixup.training import _folder
from comixup.training._checkpoint import State, load_optimizer, load_weights, save_state
from comixup.training._files import write_whole
from comixup.training._first_batch import draw_first_batch
from comixup.training._hardware import Hardware, StopRequest, TrainingStopped
from comixup.training._loop import FORMAT, Stepper, Totals, evaluate, train_epoch
from comixup.training._losses import losses
from comixup.training._methods import make_mixer
from comixup.training._optimizer import make_optimizer
from comixup.training._pictures import draw_curves
from comixup.training._recipe import Recipe
from comixup.training._report import Reporter
from comixup.training._results import Result, summarise

COLOUR_LEVELS = 255
"""The radius of VAT's ball is given in levels of 8-bit colours."""
_EVALUATION_BATCH = 250
_INITIAL_WEIGHTS = 1
"""Counts that seed the initial weights; those of steps have more members."""


@dataclass(frozen=True)
class Run:
    """What is trained: a recipe (with all changes made), the name of a method in it, and a seed."""

    recipe: Recipe
    method: str
    seed: int = 0

    def __post_init__(self) -> None:
        self.recipe.choose(self.method)

    @property
    def identity(self) -> str:
        """What makes two runs the same, a line each: all that the resulting weights depend on."""
        recipe = self.recipe.as_dict()
        method = recipe.pop("methods")[self.method]
        for name in ("title", "source", "method", "reported", "tunes", "notes"):
            del recipe[name]
        method.pop("paper")
        lines = {**recipe, "method": self.method, **method, "seed": self.seed}
        return "\n".join(f"{name}: {json.dumps(value)}" for name, value in lines.items())


class Training:
    """A run under way in one process (of several, perhaps)."""

    def __init__(
        self,
        run: Run,
        state: State,
        folder: Path,
        fabric: Fabric,
        hardware: Hardware,
        reporter: Reporter,
        *,
        data_root: Path | None = None,
        download: bool = False,
        checkpoint_steps: int | None = None,
    ) -> None:
        self.run, self.folder, self.fabric, self.hardware = run, folder, fabric, hardware
        self.reporter, self.checkpoint_steps = reporter, checkpoint_steps
        recipe, method = run.recipe, run.recipe.choose(run.method)
        self.state = state
        self.data: DataSet = load(
            recipe.data,
            data_root,
            labels_per_class=recipe.labels_per_class,
            validation=recipe.validation,
            seed=run.seed,
            download=download,
        )
        torch.manual_seed(seed_for(run.seed, _INITIAL_WEIGHTS))
        model = models.build(recipe.model, self.data.num_classes, shape=self.data.shape)
        channels, *own = self.data.shape
        for side in {phase.image_size for phase in recipe.phases}:
            height, width = (side, side) if side else own
            shape = (channels, height, width)
            models.check_fit(model, recipe.model, shape, self.data.num_classes)
        model.to(memory_format=FORMAT)
        self.mixer = make_mixer(method, self.data.num_classes, torch.Generator())
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
        )

    def fit(self) -> Result:
        """Trains until the recipe's end, or its patience's; returns how it went."""
        recipe, state = self.run.recipe, self.state
        if not state.finished:
            with StopRequest().listening() as stop:
                while state.epoch < recipe.epochs and not self._out_of_patience():
                    self._epoch(stop)
        result = summarise(state.history, recipe)
        if self.fabric.is_global_zero:
            self._write_ending(result)
        self.fabric.barrier()
        return result

    def _epoch(self, stop: StopRequest) -> None:
        recipe, state = self.run.recipe, self.state
        phase = recipe.phase_at(state.epoch)
        loader = self._train_loader()
        self.mixer.enabled = (
            recipe.plain_epochs <= state.epoch < recipe.epochs - recipe.last_plain_epochs
        )
        # A resumed epoch's sums belong to all processes: the first one carries them on.
        mine = state.totals if self.fabric.is_global_zero else {}
        sums = Totals.begin(self.fabric.device, mine)
        begin = time.perf_counter()
        spent = state.totals.get("seconds", 0.0)

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
                self._save({**totals, "seconds": spent + time.perf_counter() - begin})
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
        seconds = spent + time.perf_counter() - begin
        self._end_epoch(sums.read(self.fabric), seconds)
        if stop.made:
            self._stop()

    def _end_epoch(self, totals: dict[str, float], seconds: float) -> None:
        """Evaluates, notes the epoch in the history, and saves."""
        self._check_numbers(totals)
        state, images = self.state, max(totals["images"], 1)
        row = {
            "epoch": float(state.epoch + 1),
            "lr": self.optimizer.param_groups[0]["lr"],
            "train_loss": totals["loss"] / images,
        }
        if totals["answers"]:
            row["train_error"] = 100 * (1 - totals["right"] / totals["answers"])
        recipe, done = self.run.recipe, state.epoch + 1
        if done % recipe.evaluate_every == 0 or done == recipe.epochs:
            row |= self._evaluate()
        row |= {"seconds": seconds, "images_per_second": images / max(seconds, 1e-9)}
        state.history.append(row)
        state.seconds += seconds
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
        patience, errors = self.run.recipe.patience, self._validation_errors()
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
        raise TrainingStopped(f"Stopped. The same command goes on from {where}.")

    def _write_ending(self, result: Result) -> None:
        if not self.state.finished:
            self.state.finished = True
            self._save({})
        # A kill may have come between the checkpoint and these.
        _folder.write_metrics(self.folder, self.state.history)
        weights = {
            name: tensor.detach().cpu().contiguous().clone()
            for name, tensor in unwrapped(self.model).state_dict().items()
        }
        about = {
            "model": self.run.recipe.model,
            "num_classes": str(self.data.num_classes),
            "shape": json.dumps(self.data.shape),
            "data": self.run.recipe.data,
            "classes": json.dumps(self.data.classes),
        }
        write_whole(self.folder / _folder.WEIGHTS, safetensors_bytes(weights, metadata=about))
        write_whole(self.folder / _folder.RESULT, json.dumps(result.as_dict(), indent=2) + "\n")
        draw_curves(self.state.history, self.folder / _folder.CURVES, title_of(self.run))

    def _train_loader(self) -> Loader:
        phase = self.run.recipe.phase_at(self.state.epoch)
        return self.data.train.loader(
            phase.batch_size,
            seed=self.run.seed,
            augment=True,
            image_size=phase.image_size,
            min_scale=phase.min_scale,
            **self._place(),
        )

    def _loader(self, split: Any) -> Loader:
        size = self.run.recipe.phases[-1].image_size
        loader: Loader = split.loader(_EVALUATION_BATCH, image_size=size, **self._place())
        return loader

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
