"""Training a run: epoch by epoch, with an evaluation and a checkpoint after each."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from comixup._passes import unwrapped
from comixup.lab._networks import MEMORY_FORMAT
from comixup.lab.data import DataSet, Loader
from comixup.lab.training._folder import RunFolder, State, save_state, write_metrics
from comixup.lab.training._loop import Totals, make_stepper, train_steps
from comixup.lab.training._pictures import draw_mixed_batch, is_mixture
from comixup.lab.training._processes import share_buffers, summed
from comixup.lab.training._recipe import Recipe
from comixup.lab.training._report import Reporter
from comixup.lab.training._run import Run
from comixup.lab.training._setup import Loaders, Setup
from comixup.lab.training._stop import StopRequest, TrainingStopped

TOP = 5


@torch.no_grad()
def validate(fabric: Fabric, model: nn.Module, loader: Loader) -> dict[str, float]:
    """Returns top-1 and top-5 error in percent and the mean cross-entropy, over all processes.

    Of images with any number of labels, the error is that of all yes-or-no answers, and the loss
    binary cross-entropy.

    Processes may have different numbers of images, so the model is run without the wrapper that
    would make them wait for each other.
    """
    inner = unwrapped(model)
    share_buffers(fabric, inner)
    inner.eval()
    sums = torch.zeros(4, device=fabric.device)
    for images, targets in loader.epoch(0):
        if len(images):
            sums += _sums_of(_logits_of_batch(fabric, inner, images), targets)
    loss, wrong, not_in_top, count = summed(fabric, sums)
    metrics = {"error": 100 * wrong / count, "loss": loss / count}
    return metrics | ({} if targets.ndim > 1 else {"top5_error": 100 * not_in_top / count})


def _sums_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Returns a batch's loss, errors, errors in the top 5, and number of images."""
    if targets.ndim > 1:
        loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(1)
        wrong = ((logits > 0) != (targets > 0)).float().mean(1)
        not_in_top = wrong
    else:
        loss = F.cross_entropy(logits, targets, reduction="none")
        top = logits.topk(min(TOP, logits.shape[1]), dim=1).indices == targets[:, None]
        wrong, not_in_top = (~top[:, 0]).float(), (~top.any(1)).float()
    return torch.stack([loss.sum(), wrong.sum(), not_in_top.sum(), loss.new_tensor(len(loss))])


@torch.no_grad()
def logits_of(fabric: Fabric, model: nn.Module, loader: Loader) -> tuple[Tensor, Tensor]:
    """Returns the logits of all images, (n, classes) float32, and their classes, in host memory.

    Args:
        fabric: of this process, which computes alone.
        model: the network, wrapped or not.
        loader: of whole batches, not of this process's share of them.
    """
    inner = unwrapped(model)
    inner.eval()
    logits, classes = [], []
    for images, targets in loader.epoch(0):
        logits.append(_logits_of_batch(fabric, inner, images))
        classes.append(targets)
    return torch.cat(logits).cpu(), torch.cat(classes).cpu()


def _logits_of_batch(fabric: Fabric, inner: nn.Module, images: Tensor) -> Tensor:
    """Returns float32 logits, computed in the run's precision as Fabric's wrapper would."""
    # Not the precision's own type: averaged weights are float32 where those in training are half.
    converted = images.to(next(inner.parameters()).dtype)
    with fabric.autocast():
        logits: Tensor = inner(converted.contiguous(memory_format=MEMORY_FORMAT))
    return logits.float()


MOSTLY = 0.5
"""Fraction of unmixed outputs in the first batch from which on a run tells why."""


class Trainer:
    """Trains a run from its state to its end, in one process of perhaps several.

    Args:
        run: what is trained.
        data: what it is trained on.
        setup: network, mixer and optimiser, restored from the state.
        state: how far the run is; kept up to date.
        loaders: of the run's batches.
        folder: where checkpoints go.
        reporter: of progress.
        accumulate: micro-batches of each process and step.
        checkpoint_steps: save every so many steps too, not only after each epoch.
    """

    def __init__(
        self,
        run: Run,
        data: DataSet,
        setup: Setup,
        state: State,
        loaders: Loaders,
        folder: RunFolder,
        reporter: Reporter,
        *,
        accumulate: int = 1,
        checkpoint_steps: int | None = None,
    ) -> None:
        self.run, self.recipe, self.data = run, run.trained, data
        self.setup, self.state = setup, state
        self.loaders, self.folder, self.reporter = loaders, folder, reporter
        self.accumulate, self.checkpoint_steps = accumulate, checkpoint_steps
        self.fabric, self.schedule = setup.fabric, run.schedule
        self.stepper = make_stepper(run, data, setup, accumulate)
        mixing = [epoch for epoch in range(run.trained.epochs) if self.schedule(epoch) > 0]
        self._last_mixed_epoch = max(mixing, default=-1)

    def fit(self) -> None:
        """Trains until the recipe's last epoch, or until its patience ends."""
        with StopRequest().listening() as stop:
            while self.state.epoch < self.recipe.epochs and not out_of_patience(
                self.recipe, self.state.history
            ):
                if self.state.step == 0 and self.state.epoch <= self._last_mixed_epoch:
                    self.folder.last_batch.unlink(missing_ok=True)  # patience did not end there
                self._epoch(stop)

    def _epoch(self, stop: StopRequest) -> None:
        """Trains for the rest of an epoch, evaluates, and saves."""
        totals, times = self._train(stop)
        row = self._row(totals, times)
        self.state.history.append(row)
        self.state.seconds += times["seconds"]
        self.state.epoch, self.state.step = self.state.epoch + 1, 0
        if self.recipe.reported == "validation" and self.state.is_best:
            self.state.best = {
                name: tensor.detach().cpu().clone()
                for name, tensor in self.setup.evaluated.state_dict().items()
            }
        self.save({})
        self.reporter.epoch(row)
        if stop.made:
            raise self._stopped(stop)

    def _train(self, stop: StopRequest) -> tuple[dict[str, float], dict[str, float]]:
        """Returns an epoch's sums over all processes, and the times that it took."""
        state, recipe = self.state, self.recipe
        loader = self.loaders.training(state.epoch)
        self.setup.mixer.fraction = self.schedule(state.epoch)
        # A resumed epoch's sums are those of all processes: the first one carries them on.
        before = state.totals if self.fabric.is_global_zero else {}
        sums, clock = Totals.begin(self.fabric.device, before), _Clock(before)
        steps = train_steps(
            self.stepper,
            loader,
            epoch=state.epoch,
            first=state.step,
            batch_size=recipe.phase_at(state.epoch).batch_size,
            size=len(self.data.train),
            sums=sums,
        )
        with contextlib.closing(steps):  # an exception would keep worker processes waiting
            for done in steps:
                state.step = done
                self.reporter.step(state.epoch, done, len(loader), sums.sums)
                self._draw_batch(loader)
                self._tell_of_flat_maps(sums)
                if done < len(loader):  # after the last step the rest of the epoch is short
                    self._save_within_epoch(sums, clock, stop)
        if self.fabric.device.type == "cuda":
            torch.cuda.synchronize(self.fabric.device)
        times = clock.read(self.fabric)
        totals = sums.read(self.fabric)
        self._check_finite(totals)
        return totals, times

    def _save_within_epoch(self, sums: Totals, clock: _Clock, stop: StopRequest) -> None:
        """Saves after a step if that is due, or if this is asked to stop, which it then does."""
        due = self.checkpoint_steps and self.state.step % self.checkpoint_steps == 0
        if due or (stop.made and self.fabric.world_size == 1):
            totals = sums.read(self.fabric)
            self._check_finite(totals)
            if self.setup.mixer.memory is not None:
                self.setup.mixer.memory.merge()  # what the other processes wrote is saved too
            self.save({**totals, **clock.read(self.fabric)})
        if stop.made:
            raise self._stopped(stop)

    def _row(self, totals: Mapping[str, float], times: Mapping[str, float]) -> dict[str, float]:
        """Returns the metrics of an epoch: a row of the history."""
        done, images = self.state.epoch + 1, max(totals["images"], 1)
        row = {
            "epoch": float(done),
            "lr": self.setup.optimizer.param_groups[0]["lr"],
            "train_loss": totals["loss"] / images,
        }
        if self.setup.average is not None:
            row["ema_decay"] = self.setup.average.decay
        if totals["predictions"]:
            row["train_error"] = 100 * (1 - totals["correct"] / totals["predictions"])
        if totals["outputs"]:
            row["inputs_per_output"] = totals["inputs"] / totals["outputs"]
            row["unmixed_outputs"] = 100 * totals["unmixed"] / totals["outputs"]
        if done % self.recipe.evaluate_every == 0 or done == self.recipe.epochs:
            row |= self._evaluate()
        return row | {**times, "images_per_second": images / max(times["seconds"], 1e-9)}

    def _evaluate(self) -> dict[str, float]:
        """Returns errors and losses on the validation images, if there are any, and test images."""
        metrics: dict[str, float] = {}
        for name, split in self.data.splits.items():
            if name != "train":
                loader = self.loaders.evaluation(split)
                measured = validate(self.fabric, self.setup.evaluated, loader)
                metrics |= {f"{name}_{key}": value for key, value in measured.items()}
        return metrics

    def save(self, totals: dict[str, float]) -> None:
        """Writes the checkpoint, and the history that it holds, from the first process.

        Args:
            totals: sums and times of the epoch in progress; empty between epochs.
        """
        self.state.totals = totals
        if self.fabric.is_global_zero:
            self.setup.store(self.state)
            save_state(self.state, self.folder.checkpoint)
            write_metrics(self.folder.path, self.state.history)

    def _check_finite(self, totals: Mapping[str, float]) -> None:
        """Stops a run that has diverged, in all processes; its last checkpoint remains good."""
        weights = [w.detach().isfinite().all() for w in unwrapped(self.setup.model).parameters()]
        if math.isfinite(totals["loss"]) and bool(torch.stack(weights).all()):
            return
        raise TrainingStopped(
            "The training loss or the weights became infinite or not a number in epoch "
            f"{self.state.epoch + 1}, so nothing was saved since the last checkpoint. A lower "
            "learning rate (--lr, with another folder by --out) may help."
        )

    def _draw_batch(self, loader: Loader) -> None:
        """Draws the first batch that shows mixtures, and one of the last epoch that mixes.

        Where nothing stands out yet Co-Mixup leaves images whole, which shows little. Pictures are
        drawn before the checkpoint that follows the batch: a run that is killed draws them again.
        """
        mixer, epoch = self.setup.mixer, self.state.epoch
        if not self.fabric.is_global_zero or not (mixer.last.mixed or mixer.mixes_nothing):
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
                    drawn = draw_mixed_batch(path, mixer.last, self.data, loader, when, title)
                    self.reporter.pictures(drawn, epoch)

    def _tell_of_flat_maps(self, sums: Totals) -> None:
        """Says, after the first mixed batch, why it is hardly mixed, if it is."""
        mixer = self.setup.mixer
        first = self.state.epoch == self.recipe.unmixed_epochs and self.state.step == 1
        if first and mixer.needs_saliency and sums.unmixed > MOSTLY:
            self.reporter.tell(
                f"{100 * sums.unmixed:.0f} % of the first outputs are unmixed: the saliency maps "
                "of an untrained network are flat, and images stay whole. The share falls as it "
                "learns: metrics.csv has that of each epoch."
            )

    def _stopped(self, stop: StopRequest) -> TrainingStopped:
        where = f"epoch {self.state.epoch + 1}, step {self.state.step}"
        if self.fabric.world_size > 1:
            where = "its last checkpoint"
        message = f"Stopped. The same command resumes from {where}."
        return TrainingStopped(message, stop.signal_number)


def out_of_patience(recipe: Recipe, history: Sequence[Mapping[str, float]]) -> bool:
    """Whether validation accuracy has not risen for as many epochs as a recipe waits."""
    errors = [row["validation_error"] for row in history if "validation_error" in row]
    if recipe.patience is None or len(errors) <= recipe.patience:
        return False
    return min(errors[: -recipe.patience]) <= min(errors[-recipe.patience :])


class _Clock:
    """Wall and CPU time spent in an epoch, including what was spent before a pause."""

    def __init__(self, before: Mapping[str, float]) -> None:
        self._wall = time.perf_counter() - before.get("seconds", 0.0)
        self._cpu = time.process_time() - before.get("cpu_seconds", 0.0)

    def read(self, fabric: Fabric) -> dict[str, float]:
        """Returns seconds, and CPU-seconds of all processes (not of workers that read images)."""
        seconds = time.perf_counter() - self._wall
        cpu = torch.tensor([time.process_time() - self._cpu], device=fabric.device)
        return {"seconds": seconds, "cpu_seconds": summed(fabric, cpu)[0]}
