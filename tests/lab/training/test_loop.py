"""The loops: steps by hand, parts of batches, resumed epochs, odd numbers of test images."""

import dataclasses
import io
import re
import signal
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from rich.console import Console
from torch import nn
from torch.testing import assert_close

from comixup import Labelling
from comixup.lab import _seeds
from comixup.lab._seeds import Purpose, seed_for
from comixup.lab.data import DataSet
from comixup.lab.data._in_memory import MemorySplit
from comixup.lab.training import Hardware, Method, TrainingStopped, _setup, _trainer
from comixup.lab.training._folder import RunFolder, State, read_metrics
from comixup.lab.training._measures import validate
from comixup.lab.training._report import Reporter
from comixup.lab.training._run import Run
from comixup.lab.training._trainer import Totals, Trainer
from small_runs import (
    STEPS,
    assert_same_run,
    folder_of,
    recipe,
    saved,
    train_here,
)

COUNT, BATCH, SIZE, NUM_CLASSES = 13, 5, 6, 3
"""Batches of 5, 5 and 3: none can be halved."""


def split(count=COUNT):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (count, 1, SIZE, SIZE), dtype=torch.uint8, generator=generator)
    return MemorySplit(images, torch.arange(count) % NUM_CLASSES, (0.5,), (0.25,), pad=1)


def network(dropout=0.0):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Dropout(dropout), nn.Flatten(), nn.Linear(64, NUM_CLASSES)
    )


def trainer(model, accumulate=1, vat=None):
    """Returns the trainer of a network that no recipe has, in its third epoch."""
    colours = (0.5,), (0.25,)
    data = DataSet("any", ("a", "b", "c"), (1, SIZE, SIZE), *colours, split(), test=split())
    chosen = dataclasses.replace(
        recipe(batch_size=BATCH),
        nesterov=False,
        weight_decay=0.0,
        methods={"vanilla": Method("vanilla", vat=vat)},
    )
    hardware = Hardware(accumulate=accumulate)
    fabric, reporter = Fabric(accelerator="cpu", devices=1), Reporter(None, "", 3)
    with mock.patch.object(_trainer, "build_network", return_value=(model, [])):
        run, state, folder = Run(chosen, "vanilla"), State({}, epoch=2), RunFolder(Path())
        return Trainer(run, data, fabric, state, folder, reporter, hardware)


def train_some(way, first=0, stop=None, sums=None):
    """Trains on an epoch from one step to another; returns the sums."""
    loader = split().loader(BATCH, augment="crop-flip")
    sums = sums or Totals(torch.device("cpu"), {})
    way.state.step = first
    for _ in way.steps(loader, sums):
        if way.state.step == stop:
            break
    return sums


def test_an_epoch_is_what_it_would_be_by_hand():
    model, by_hand = network(), network()
    sums = train_some(trainer(model)).read(Fabric(accelerator="cpu", devices=1))
    optimizer = torch.optim.SGD(by_hand.parameters(), momentum=0.9)
    loss_sum = right = 0
    for step, (images, targets) in enumerate(split().loader(BATCH, augment="crop-flip").epoch(2)):
        optimizer.param_groups[0]["lr"] = recipe().lr_at(2 + step / 3)
        optimizer.zero_grad()
        logits = by_hand(images)
        loss = F.cross_entropy(logits, targets)
        loss.backward()
        optimizer.step()
        loss_sum += loss.item() * len(images)
        right += (logits.argmax(1) == targets).sum().item()
    assert_close(model.state_dict(), by_hand.state_dict())
    assert sums["cpu_seconds"] > 0
    assert {name: sums[name] for name in Totals.NAMES} == pytest.approx(
        {"loss": loss_sum, "images": COUNT, "correct": right, "predictions": COUNT}
        | dict.fromkeys(("outputs", "inputs", "unmixed"), 0)  # nothing to be mixed
    )


@pytest.mark.parametrize("parts", [2, 9])
def test_parts_weigh_as_many_images_as_they_have(parts):
    whole, parted = network(), network()
    sums = [train_some(trainer(whole)), train_some(trainer(parted, accumulate=parts))]
    assert_close(parted.state_dict(), whole.state_dict())
    assert_close(sums[1].sums, sums[0].sums)


def test_an_epoch_goes_on_in_its_midst_with_dropout_and_directions_drawn():
    stop = 2
    vat = {"weight": 0.1, "epsilon": 1, "updates": 1}
    whole, broken = network(dropout=0.5), network(dropout=0.5)
    expected = train_some(trainer(whole, vat=vat))
    way = trainer(broken, vat=vat)
    sums = train_some(way, stop=stop)
    torch.rand(7)  # whatever else is drawn in between
    sums = train_some(way, first=stop, sums=sums)
    assert_close(broken.state_dict(), whole.state_dict(), rtol=0, atol=0)
    assert_close(sums.sums, expected.sums, rtol=0, atol=0)


def test_evaluation_counts_every_image_once():
    count, batch = COUNT, 4
    model, fabric = network(dropout=0.5), Fabric(accelerator="cpu", devices=1)
    found = validate(fabric, fabric.setup(model), split(count).loader(batch))
    images, targets = next(iter(split(count).loader(count).epoch(0)))
    with torch.no_grad():
        logits = model.eval()(images)
    errors = (logits.argmax(1) != targets).float().mean().item()
    assert found["error"] == pytest.approx(100 * errors)
    assert found["top5_error"] == pytest.approx(0)
    assert found["loss"] == pytest.approx(F.cross_entropy(logits, targets).item(), rel=1e-5)


def test_inputs_of_outputs_are_counted():
    sums = Totals(torch.device("cpu"), {})
    sources = torch.tensor([[[0, 0]], [[0, 1]], [[2, 2]]])
    sums.count(Labelling(sources, num_inputs=3))
    sums.count(Labelling(sources[1:2], num_inputs=3))
    assert sums.counts.tolist() == [4.0, 6.0, 2.0]
    assert sums.unmixed == 0.5


# ---- Every method, stopped in the midst of an epoch ---------------------------------------------


class StoppedError(BaseException):
    """Like a kill: nothing in the trainer catches it."""


def with_vat():
    vat = Method("vanilla", vat={"weight": 0.1, "epsilon": 1, "updates": 1})
    return dataclasses.replace(recipe(epochs=2), methods={"vat": vat})


CASES = {name: ({}, name) for name in ("comixup", "recursivemix")} | {
    "batch norm": ({"model": "small"}, "puzzlemix"),
    "averaged weights": ({"model": "small", "ema": 0.3}, "puzzlemix"),
    "layers": ({"model": "small"}, "manifold"),
    "vat": ({}, "vat"),
}
QUICK = ("batch norm", "averaged weights")


@pytest.mark.parametrize(
    "case",
    [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in QUICK)],
)
def test_stopped_after_any_step_a_run_ends_as_if_unbroken(data, tmp_path, monkeypatch, case):
    changes, method = CASES[case]
    chosen = with_vat() if method == "vat" else recipe(epochs=2, **changes)
    unbroken = train_here(data, tmp_path / "unbroken", method, chosen)
    steps, seen = Reporter.step, 0

    def step(self, epoch, done, *rest):
        nonlocal seen
        seen += 1
        steps(self, epoch, done, *rest)
        if seen in (2, 4):  # in the first epoch, behind its first checkpoint; then in the second
            raise StoppedError

    monkeypatch.setattr(Reporter, "step", step)
    for _ in range(2):
        with pytest.raises(StoppedError):
            train_here(data, tmp_path, method, chosen, checkpoint_steps=1)
    train_here(data, tmp_path, method, chosen, checkpoint_steps=1)
    # Steps 1, 2 | 2, 3 | 3, 4, 5, 6: those stopped in were not saved, so were made again.
    assert seen == 2 * STEPS + 2
    assert_same_run(folder_of(tmp_path, method), unbroken)


@pytest.mark.parametrize(("step", "place"), [(2, (0, 2)), (STEPS, (1, 0))])
def test_a_request_to_stop_loses_no_step(data, tmp_path, monkeypatch, step, place):
    # After the last step, what remains of the epoch comes first: else it would all be lost.
    def ask(self, epoch, done, *_):
        if done == step:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Reporter, "step", ask)
    epoch, done = place
    where = f"Stopped. The same command resumes from epoch {epoch + 1}, step {done}."
    with pytest.raises(TrainingStopped, match=re.escape(where)):
        train_here(data, tmp_path)
    state = saved(folder_of(tmp_path))
    assert (state["epoch"], state["step"]) == place


def test_a_run_shows_how_its_batches_are_mixed(data, tmp_path):
    console = Console(file=io.StringIO(), width=80)
    folder = train_here(data, tmp_path, "comixup", console=console)
    for row in read_metrics(folder):
        assert 1 <= row["inputs_per_output"] <= 8  # of a batch
        assert 0 <= row["unmixed_outputs"] <= 100
    assert console.file.getvalue().count(" inputs per output (") == 3  # epochs
    told = "of the first outputs are unmixed: the saliency maps of an untrained network are flat"
    assert console.file.getvalue().count(told) == 1
    assert "inputs_per_output" not in read_metrics(train_here(data, tmp_path, "vanilla"))[0]


# ---- Draws --------------------------------------------------------------------------------------


def test_every_draw_of_a_run_has_random_numbers_of_its_own(data, tmp_path, monkeypatch):
    asked = []

    def recorded(*numbers):
        asked.append(tuple(map(int, numbers)))
        return seed_for(*numbers)

    for module in (_seeds, _trainer, _setup):
        monkeypatch.setattr(module, "seed_for", recorded)
    accumulated = Hardware(accelerator="cpu", accumulate=3)
    train_here(data, tmp_path, "comixup", hardware=accumulated)
    purposes = {numbers[-1] for numbers in asked}
    assert purposes == {
        Purpose.ORDER,
        Purpose.CROPS,
        Purpose.LABELS,
        Purpose.INITIAL_WEIGHTS,
        Purpose.MODEL,
        Purpose.MIXER,
    }
    again = [n for n, count in Counter(asked).items() if count > 1]
    # An epoch's order and crops are asked for again by the picture of the first batch.
    assert {n[-1] for n in again} <= {Purpose.ORDER, Purpose.CROPS}
    assert len({seed_for(*numbers) for numbers in asked}) == len(set(asked))
    draws = [numbers for numbers in asked if numbers[-1] in (Purpose.MODEL, Purpose.MIXER)]
    assert len(draws) == 2 * 3 * STEPS * 3  # generators, epochs, steps, micro-batches
