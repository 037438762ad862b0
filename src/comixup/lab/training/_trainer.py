"""The training loop: steps and epochs, with an evaluation and a checkpoint after each."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from comixup import Origin, Plan, training_step
from comixup._passes import unwrapped
from comixup.lab._networks import load_weights, memory_format
from comixup.lab._seeds import Purpose, seed_for
from comixup.lab.data import DataSet, Loader, Split
from comixup.lab.data._split import Order
from comixup.lab.training._export import export
from comixup.lab.training._folder import RunFolder, State, load_optimizer, save_state, write_metrics
from comixup.lab.training._hardware import Hardware
from comixup.lab.training._losses import balanced_weights, losses
from comixup.lab.training._measures import Logits, logits_of, measures, validate
from comixup.lab.training._mixers import make_method
from comixup.lab.training._processes import summed
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._report import Reporter, draw_mixed_batch, is_mixture
from comixup.lab.training._run import Run
from comixup.lab.training._setup import (
    LR_FACTOR,
    WeightAverage,
    build_network,
    make_optimizer,
    with_sync_batch_norm,
)
from comixup.lab.training._stop import StopRequest, TrainingStopped
from comixup.lab.training._vat import vat_loss

COLOUR_LEVELS = 255
"""VAT's radius is in levels of 8-bit colors."""
EVALUATION_BATCH = 250
"""Images per process in evaluation."""
MOSTLY = 0.5
"""Least fraction of unmixed outputs in the first batch for a message on the reason."""


class Totals:
    """Sums over an epoch and its duration, including those before an interruption.

    Args:
        device: device of the sums: reading them would synchronize.
        before: result of `read` before an interruption; empty at an epoch's start.

    Attributes:
        sums: loss times images, images, correct predictions on unmixed images, and the number of
            predictions.
        counts: the mixer's outputs, their inputs, and outputs with a single input, on the host like
            the plans.
    """

    NAMES = ("loss", "images", "correct", "predictions", "outputs", "inputs", "unmixed")

    def __init__(self, device: torch.device, before: Mapping[str, float]) -> None:
        values = [before.get(name, 0.0) for name in self.NAMES]
        self.sums, self.counts = torch.tensor(values[:4], device=device), torch.tensor(values[4:])
        self._wall = time.perf_counter() - before.get("seconds", 0.0)
        self._cpu = time.process_time() - before.get("cpu_seconds", 0.0)

    def add(self, loss: Tensor, images: int, logits: Tensor | None, targets: Tensor) -> None:
        """Adds a micro-batch; `logits` are those of unmixed images, if any."""
        self.sums[0] += loss.detach() * images
        self.sums[1] += images
        if logits is not None and targets.ndim == 1:
            self.sums[2] += (logits.argmax(1) == targets).sum()
            self.sums[3] += len(targets)

    def count(self, plan: Plan) -> None:
        """Adds the numbers of outputs and inputs of a micro-batch."""
        inputs = (plan.source_ratio() > 0).sum(1)
        self.counts.add_(torch.tensor([len(inputs), inputs.sum(), (inputs == 1).sum()]))

    @property
    def unmixed(self) -> float:
        """The fraction of this process's outputs with a single input."""
        outputs, _, single = self.counts.tolist()
        return single / outputs if outputs else 0.0

    def read(self, fabric: Fabric) -> dict[str, float]:
        """Returns the sums and CPU-seconds over all processes (without workers), and seconds."""
        cpu = self.sums.new_tensor([time.process_time() - self._cpu])
        values = summed(fabric, torch.cat([self.sums, self.counts.to(cpu.device), cpu]))
        read = dict(zip((*self.NAMES, "cpu_seconds"), values, strict=True))
        return read | {"seconds": time.perf_counter() - self._wall}  # the device has synchronized


class Trainer:
    """Trains one run; with several processes, one `Trainer` in each.

    Args:
        run: the run to train.
        data: the data set.
        fabric: Fabric of the processes.
        state: state of the run, updated in place. A mismatched checkpoint raises `ValueError`.
        folder: folder of checkpoints and results.
        reporter: reporter of progress.
        hardware: hardware options.
        checkpoint_steps: save a checkpoint every so many steps, in addition to each epoch.

    Attributes:
        model: the network, set up by Fabric.
        new_weights: names of weights missing in the file of initial weights.
        optimizer: the optimizer.
        mixer: the mixer, with a saliency memory for one-pass methods.
        average: average of the network's weights; None without `ema`.
        vat: keywords of `vat_loss`, which is added to the loss of unmixed batches, and its
            `weight`; None without VAT.
    """

    def __init__(
        self,
        run: Run,
        data: DataSet,
        fabric: Fabric,
        state: State,
        folder: RunFolder,
        reporter: Reporter,
        hardware: Hardware,
        checkpoint_steps: int | None = None,
    ) -> None:
        self.run, self.recipe, self.data, self.fabric = run, run.trained, data, fabric
        self.state, self.folder, self.reporter = state, folder, reporter
        self.hardware, self.checkpoint_steps = hardware, checkpoint_steps
        recipe, method = run.trained, run.chosen
        for phase in recipe.phases:  # shares too small are told of before training, not in it
            Order(len(data.train), phase.batch_size, shuffled=True, world_size=fabric.world_size)
        model, self.new_weights = build_network(run, data, begun=bool(state.model))
        if hardware.sync_batch_norm:
            model = with_sync_batch_norm(model, run, fabric)
        self.memory_format = memory_format(model, fabric.device)
        model.to(memory_format=self.memory_format)
        self.mixer = make_method(method, data.num_classes, len(data.train), torch.Generator())
        optimizer = make_optimizer(recipe, model, data.num_classes)
        self.model, self.optimizer = fabric.setup(model, optimizer)
        # With the device and precision set by `setup`.
        self.average = WeightAverage(model, recipe.ema) if recipe.ema else None
        self.mixer.attach(model)
        weights = None
        if recipe.class_weights is not None:
            weights = balanced_weights(data.train.targets, data.num_classes).to(fabric.device)
        self.loss_fn, self.clean_loss_fn = losses(
            recipe.loss, data.num_classes, weights, recipe.label_smoothing
        )
        # The scale is one 8-bit level in normalized images.
        scale = tuple(1 / (COLOUR_LEVELS * std) for std in data.std)
        self.vat = None if method.vat is None else {**method.vat, "scale": scale}
        self.schedule = run.schedule
        mixing = [epoch for epoch in range(recipe.epochs) if self.schedule(epoch) > 0]
        self._last_mixed_epoch = max(mixing, default=-1)
        if state.model:  # empty before the first checkpoint
            self._restore()

    @property
    def evaluated(self) -> nn.Module:
        """The network to evaluate and export: with averaged weights if there are any."""
        return unwrapped(self.model) if self.average is None else self.average.model

    # ---- Steps ----------------------------------------------------------------------------------

    def step(
        self, images: Tensor, targets: Tensor, origin: Origin | None, steps: int, sums: Totals
    ) -> None:
        """Runs the next optimizer step, on this process's share of a batch.

        Args:
            images: images of the share.
            targets: their targets.
            origin: their origin, for one-pass mixing.
            steps: number of steps of the epoch.
            sums: sums to update.
        """
        epoch, step, accumulate = self.state.epoch, self.state.step, self.hardware.accumulate
        size = self.recipe.phase_at(epoch).batch_size
        batch = min(size, len(self.data.train) - step * size)  # over all processes
        lr = self.recipe.lr_at(epoch + step / steps)
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group.get(LR_FACTOR, 1.0)
        self.optimizer.zero_grad()
        split = _micro_batches(images, targets, origin, accumulate)
        micro_batches = [micro for micro in split if len(micro[0])]
        for k, (micro_images, micro_targets, micro_origin) in enumerate(micro_batches):
            self.mixer.step = epoch * steps + step
            self._seed(epoch, step, self.fabric.global_rank * accumulate + k)
            # Gradients are averaged over processes: weight a micro-batch by its images.
            weight = len(micro_images) * self.fabric.world_size / batch
            last = k == len(micro_batches) - 1
            with self.fabric.no_backward_sync(self.model, enabled=not last):
                self._backward(micro_images, micro_targets, micro_origin, weight, sums)
        self.optimizer.step()
        if self.average is not None:
            self.average.update()

    def _backward(
        self, images: Tensor, targets: Tensor, origin: Origin | None, weight: float, sums: Totals
    ) -> None:
        """Adds the weighted gradient of a micro-batch's loss."""

        def backward(loss: Tensor) -> None:
            self.fabric.backward(loss * weight)

        step = training_step(
            self.model,
            self.mixer,
            images.contiguous(memory_format=self.memory_format),
            targets,
            origin=origin,
            loss_fn=self.loss_fn,
            clean_loss_fn=self.clean_loss_fn,
            backward=backward,
        )
        loss, reported = step.loss, step.mixed_loss
        if self.vat is not None:  # without mixing: these are the outputs of the images themselves
            settings = dict(self.vat)
            smoothness = settings.pop("weight") * vat_loss(
                self.model,
                images,
                logits=step.outputs,
                generator=self.mixer.generator,
                **settings,
            )
            loss, reported = loss + smoothness, reported + smoothness
        backward(loss)
        logits = step.clean_outputs
        if logits is None and not self.mixer.last.mixed:
            logits = step.outputs
        sums.add(reported, len(images), None if logits is None else logits.detach(), targets)
        if not self.mixer.mixes_nothing:
            sums.count(self.mixer.last.plan)

    def _seed(self, *counts: int) -> None:
        """Seeds every generator from the run's seed and the counters, their whole state."""
        # Dropout, and all other draws of a model.
        torch.manual_seed(seed_for(self.run.seed, *counts, Purpose.MODEL))
        if self.mixer.generator is not None:
            self.mixer.generator.manual_seed(seed_for(self.run.seed, *counts, Purpose.MIXER))

    def steps(self, loader: Loader, sums: Totals) -> Generator[None, None, None]:
        """Trains the rest of an epoch; yields after each step."""
        epoch, first, memory = self.state.epoch, self.state.step, self.mixer.memory
        self.model.train()
        batches: Iterator[tuple[Tensor, Tensor, Origin | None]]
        if memory is not None:
            batches = loader.epoch_with_origins(epoch, memory, first)
        else:
            batches = ((images, targets, None) for images, targets in loader.epoch(epoch, first))
        for images, targets, origin in batches:
            self.step(images, targets, origin, len(loader), sums)
            self.state.step += 1
            yield
        self.mixer.cancel()
        self.mixer.end_epoch()

    # ---- Epochs ---------------------------------------------------------------------------------

    def fit(self, pause_after: int | None = None) -> bool:
        """Trains until the recipe's last epoch, or stops early (`patience`).

        Returns whether training is complete; with `pause_after`, it pauses after so many epochs.
        """
        with StopRequest().listening() as stop:
            while self.state.epoch < self.recipe.epochs and not out_of_patience(
                self.recipe, self.state.history
            ):
                if pause_after is not None and self.state.epoch >= pause_after:
                    return False
                if self.state.step == 0 and self.state.epoch <= self._last_mixed_epoch:
                    self.folder.last_batch.unlink(missing_ok=True)  # not of the last mixed epoch
                self._epoch(stop)
        return True

    def _epoch(self, stop: StopRequest) -> None:
        """Trains the rest of an epoch, evaluates, and saves a checkpoint."""
        row = self._row(self._train(stop))
        self.state.history.append(row)
        self.state.epoch, self.state.step = self.state.epoch + 1, 0
        if self.recipe.reported == "validation" and self.state.is_best:
            self.state.best = {
                name: tensor.detach().cpu().clone()
                for name, tensor in self.evaluated.state_dict().items()
            }
        self.save({})
        self.reporter.epoch(row)
        if stop.made:
            raise self._stopped(stop)

    def _train(self, stop: StopRequest) -> dict[str, float]:
        """Trains an epoch; returns its sums over all processes, and its durations."""
        state, phase = self.state, self.recipe.phase_at(self.state.epoch)
        loader = self.data.train.loader(
            phase.batch_size,
            seed=self.run.seed,
            augment=self.recipe.augment,
            image_size=phase.image_size,
            min_scale=phase.min_scale,
            rank=self.fabric.global_rank,
            world_size=self.fabric.world_size,
            device=self.fabric.device,
            workers=self.hardware.workers,
        )
        self.mixer.fraction = self.schedule(state.epoch)
        # A resumed epoch's sums are those of all processes: only rank 0 continues them.
        sums = Totals(self.fabric.device, state.totals if self.fabric.is_global_zero else {})
        steps = self.steps(loader, sums)
        with contextlib.closing(steps):  # end worker processes on an exception
            for _ in steps:
                self.reporter.step(state.epoch, state.step, len(loader), sums.sums)
                self._draw_batch(loader)
                self._tell_of_flat_maps(sums)
                if state.step < len(loader):  # the epoch's checkpoint follows its last step
                    self._save_within_epoch(sums, stop)
        totals = sums.read(self.fabric)
        self._check_finite(totals)
        return totals

    def _save_within_epoch(self, sums: Totals, stop: StopRequest) -> None:
        """Saves after a step if due; on a stop request, saves and stops."""
        due = self.checkpoint_steps and self.state.step % self.checkpoint_steps == 0
        if due or (stop.made and self.fabric.world_size == 1):
            totals = sums.read(self.fabric)
            self._check_finite(totals)
            if self.mixer.memory is not None:
                self.mixer.memory.merge()  # include maps written by other processes
            self.save(totals)
        if stop.made:
            raise self._stopped(stop)

    def _row(self, totals: Mapping[str, float]) -> dict[str, float]:
        """Returns the metrics of an epoch: a row of the history."""
        done, images = self.state.epoch + 1, max(totals["images"], 1)
        row = {
            "epoch": float(done),
            "lr": self.optimizer.param_groups[0]["lr"],
            "train_loss": totals["loss"] / images,
        }
        if self.average is not None:
            row["ema_decay"] = self.average.decay
        if totals["predictions"]:
            row["train_error"] = 100 * (1 - totals["correct"] / totals["predictions"])
        if totals["outputs"]:
            row["inputs_per_output"] = totals["inputs"] / totals["outputs"]
            row["unmixed_outputs"] = 100 * totals["unmixed"] / totals["outputs"]
        if done % self.recipe.evaluate_every == 0 or done == self.recipe.epochs:
            row |= self._evaluate()
        row |= {name: totals[name] for name in ("seconds", "cpu_seconds")}
        return row | {"images_per_second": images / max(totals["seconds"], 1e-9)}

    def _evaluate(self) -> dict[str, float]:
        """Returns errors and losses on the test images, and on validation images if any."""
        metrics: dict[str, float] = {}
        for name, split in self._held_out().items():
            measured = validate(self.fabric, self.evaluated, self._loader(split))
            metrics |= {f"{name}_{key}": value for key, value in measured.items()}
        return metrics

    def _held_out(self) -> dict[str, Split]:
        return {name: split for name, split in self.data.splits.items() if name != "train"}

    def _loader(self, split: Split) -> Loader:
        """Returns this process's shares of the unaugmented batches of a split."""
        return split.loader(
            EVALUATION_BATCH * self.fabric.world_size,
            image_size=self.run.final_image_size,
            rank=self.fabric.global_rank,
            world_size=self.fabric.world_size,
            device=self.fabric.device,
            workers=self.hardware.workers,
        )

    def _draw_batch(self, loader: Loader) -> None:
        """Draws the first batch with mixtures, and one of the last mixed epoch.

        With flat saliency maps Co-Mixup leaves early batches unmixed. Figures are drawn before the
        batch's checkpoint: a killed run draws them again.
        """
        mixer, epoch = self.mixer, self.state.epoch
        if not self.fabric.is_global_zero or not (mixer.last.mixed or mixer.mixes_nothing):
            return
        if mixer.recalls:  # the previous batch, part of the figure, is no longer available
            return
        no_better = {"validation_error": math.inf}
        may_be_last = out_of_patience(self.recipe, [*self.state.history, no_better])
        late = not mixer.mixes_nothing and (epoch == self._last_mixed_epoch or may_be_last)
        if late or mixer.mixes_nothing or is_mixture(mixer.last.plan):
            paths = [self.folder.first_batch, *([self.folder.last_batch] if late else [])]
            when = epoch, self.state.step
            for path in paths:
                if not path.exists():
                    title = self.run.title
                    draw_mixed_batch(path, mixer.last, self.data, loader, when, title)

    def _tell_of_flat_maps(self, sums: Totals) -> None:
        """Reports, after the first mixed batch, why most of its outputs are unmixed, if so."""
        first = self.state.epoch == self.recipe.unmixed_epochs and self.state.step == 1
        if first and self.mixer.needs_saliency and sums.unmixed > MOSTLY:
            self.reporter.tell(
                f"{100 * sums.unmixed:.0f} % of the first outputs are unmixed: the saliency maps "
                "of an untrained network are flat, and images stay whole. The share falls as it "
                "learns: metrics.csv has that of each epoch."
            )

    def _check_finite(self, totals: Mapping[str, float]) -> None:
        """Stops a diverged run in all processes; its last checkpoint stays valid."""
        weights = [w.detach().isfinite().all() for w in unwrapped(self.model).parameters()]
        if math.isfinite(totals["loss"]) and bool(torch.stack(weights).all()):
            return
        raise TrainingStopped(
            "The training loss or the weights became infinite or not a number in epoch "
            f"{self.state.epoch + 1}, so nothing was saved since the last checkpoint. A lower "
            "learning rate (--lr, with another folder by --out) may help."
        )

    def _stopped(self, stop: StopRequest) -> TrainingStopped:
        where = f"epoch {self.state.epoch + 1}, step {self.state.step}"
        if self.fabric.world_size > 1:
            where = "its last checkpoint"
        message = f"Stopped. The same command resumes from {where}."
        return TrainingStopped(message, stop.signal_number)

    # ---- Checkpoint and end ---------------------------------------------------------------------

    def save(self, totals: dict[str, float]) -> None:
        """Writes the checkpoint and its history as a table, from rank 0.

        Args:
            totals: sums and durations of the current epoch; empty between epochs.
        """
        state = self.state
        state.totals = totals
        if not self.fabric.is_global_zero:
            return
        if self.mixer.memory is not None:
            state.memory = self.mixer.memory.state_dict()
        elif self.mixer.recalls:
            state.memory = dict(self.mixer.previous)
        state.model = self.evaluated.state_dict()
        if self.average is not None:
            state.trained = unwrapped(self.model).state_dict()
            state.averaged_steps = self.average.steps
        state.optimizer = self.optimizer.state_dict()
        state.precision = self.fabric.strategy.precision.state_dict()
        save_state(state, self.folder.checkpoint)
        write_metrics(self.folder.path, state.history)

    def _restore(self) -> None:
        """Restores from the state what `save` stored."""
        state = self.state
        try:
            load_weights(self.evaluated, state.model)
            if self.average is not None:
                load_weights(unwrapped(self.model), state.trained)
                self.average.steps = state.averaged_steps
            load_optimizer(self.optimizer.optimizer, state.optimizer)
            self.fabric.strategy.precision.load_state_dict(state.precision)
            if self.mixer.memory is not None:
                self.mixer.memory.load_state_dict(state.memory)
            elif self.mixer.recalls:
                kept = {**self.mixer.state_dict(), "previous": state.memory}
                self.mixer.load_state_dict(kept)
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError) as why:
            raise ValueError(
                f"`checkpoint` must fit this run's network and optimizer, but that of "
                f"{self.folder.path} does not ({str(why).strip().splitlines()[0][:200]}). Nothing "
                "was changed: use the previous versions, or choose another folder with --out."
            ) from None

    def final_logits(self) -> dict[str, Logits]:
        """Returns the logits and classes of all held-out images, by split."""
        fabric, classes = self.fabric, self.data.num_classes
        return {
            name: logits_of(fabric, self.evaluated, self._loader(split), split.targets, classes)
            for name, split in self._held_out().items()
        }

    def finish(self) -> None:
        """Evaluates the final weights, and writes all files of a finished run."""
        if self.state.best:
            load_weights(self.evaluated, self.state.best)
        logits = self.final_logits()
        for name, (values, _) in logits.items():
            if not values.isfinite().all():
                raise TrainingStopped(
                    f"The trained network's outputs for the {name} images are infinite or not a "
                    "number, so there is nothing to measure. A lower learning rate (--lr) or "
                    "another --precision, with another folder by --out, may help."
                )
        if not self.state.finished:
            self.state.final = {name: measures(*pair) for name, pair in logits.items()}
            self.state.finished = True
            self.save({})
        # Also after a kill between the last checkpoint and these files.
        if self.fabric.is_global_zero:
            export(self.run, self.data, self.evaluated, self.state, logits, self.folder)


def out_of_patience(recipe: Recipe, history: Sequence[Mapping[str, float]]) -> bool:
    """Whether validation accuracy has not risen for `patience` epochs."""
    errors = [row["validation_error"] for row in history if "validation_error" in row]
    if recipe.patience is None or len(errors) <= recipe.patience:
        return False
    return min(errors[: -recipe.patience]) <= min(errors[-recipe.patience :])


def _micro_batches(
    images: Tensor, targets: Tensor, origin: Origin | None, count: int
) -> Iterator[tuple[Tensor, Tensor, Origin | None]]:
    """Returns a process's share of a batch, split into micro-batches."""
    origins: Sequence[Origin | None] = [None] * count
    if origin is not None:
        cells = [None] * count if origin.cells is None else origin.cells.tensor_split(count)
        indices = origin.indices.tensor_split(count)
        origins = [Origin(*pair) for pair in zip(indices, cells, strict=True)]
    return zip(images.tensor_split(count), targets.tensor_split(count), origins, strict=True)
