"""Averaged weights: against averages by hand; evaluated and kept, in any number of processes."""

import io
import json

import pytest
import torch
import torch.nn.functional as F
from rich.console import Console
from torch import nn
from torch.testing import assert_close

from cases import each_case
from comixup._passes import unwrapped
from comixup.lab import models
from comixup.lab.data import load
from comixup.lab.training import Hardware, TrainingStopped
from comixup.lab.training._folder import RESULT
from comixup.lab.training._setup import WeightAverage
from comixup.lab.training._trainer import Trainer
from small_runs import (
    commands,
    folder_of,
    metrics,
    recipe,
    saved,
    train_here,
    weights_of,
    words,
)

DECAY = 0.3
"""Reached in the fourth step: those before it have 1 / 10, 2 / 11 and 3 / 12."""
CHANGES = {"model": "small", "width": 4, "epochs": 2}


def by_hand(moments, decay):
    """Returns the averages of state dicts, one per step after the initial one; counts are last."""
    first, *later = moments
    averages = {name: tensor.double() for name, tensor in first.items()}
    for step, state in enumerate(later):
        share = min(decay, (1 + step) / (10 + step))
        for name, tensor in state.items():
            averages[name] = share * averages[name] + (1 - share) * tensor.double()
            if not tensor.is_floating_point():
                averages[name] = tensor
    return averages


@pytest.fixture
def moments(monkeypatch):
    """The state dicts of a run's network: before its first step, and after each."""
    found, run_step = [], Trainer.step

    def copied(model):
        return {name: tensor.clone() for name, tensor in unwrapped(model).state_dict().items()}

    def step(self, *details):
        if not found:
            found.append(copied(self.model))
        run_step(self, *details)
        found.append(copied(self.model))

    monkeypatch.setattr(Trainer, "step", step)
    return found


def test_a_run_keeps_the_averages_of_its_steps(data, tmp_path, moments):
    method, hardware = "manifold", Hardware(accelerator="cpu", accumulate=2)
    folder = train_here(data, tmp_path, method, recipe(ema=DECAY, **CHANGES), hardware)
    assert len(moments) == 1 + 6
    expected = by_hand(moments, DECAY)
    assert_close(weights_of(folder), expected, check_dtype=False)
    assert_close(dict(saved(folder)["model"]), weights_of(folder), rtol=0, atol=0)
    plain = train_here(data, tmp_path / "plain", method, recipe(**CHANGES), hardware)
    assert (saved(plain)["trained"], saved(plain)["averaged_steps"]) == ({}, 0)
    for raw in (moments[6], dict(saved(folder)["trained"])):  # trained as if nothing were averaged
        assert_close(raw, weights_of(plain), rtol=0, atol=0)


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """The folder of a run whose weights and averages are far apart."""
    out = tmp_path_factory.mktemp("averaged")
    console = Console(file=io.StringIO(), width=80)
    folder = train_here(data, out, chosen=recipe(ema=0.9, lr=0.1, **CHANGES), console=console)
    (folder / "printed").write_text(console.file.getvalue())
    return folder


def test_averaged_weights_are_evaluated(data, folder):
    images, targets = next(iter(load("cifar100", data).test.loader(99).epoch(0)))
    classifier = models.load(folder)

    def loss():
        with torch.no_grad():
            return F.cross_entropy(classifier.model(images), targets).item()

    averaged = loss()
    assert float(metrics(folder)[-1]["test_loss"]) == pytest.approx(averaged, rel=1e-4)
    result = json.loads((folder / RESULT).read_text())
    assert result["nll"] == pytest.approx(averaged, rel=1e-4)
    classifier.model.load_state_dict(saved(folder)["trained"])
    assert loss() != pytest.approx(averaged, rel=1e-2)


def test_a_run_says_that_averages_are_evaluated(folder):
    text = (folder / "printed").read_text()
    assert text.count("Averaged weights (EMA, decay 0.9) are evaluated and saved.") == 1
    # The decay that comes next, after 3 and 6 steps.
    assert [float(row["ema_decay"]) for row in metrics(folder)] == pytest.approx([4 / 13, 7 / 16])
    recorded = json.loads((folder / "run.json").read_text())["recipe"]
    assert recorded["ema"] == 0.9


def test_two_processes_have_the_averages_of_one_that_cuts_its_batches_in_two(data, tmp_path):
    arguments = words(data, tmp_path / "both", method="cutmix", ema=DECAY, **CHANGES)
    both = commands(2, arguments, tmp_path / "log")
    assert [command.end() for command in both] == [0, 0], [command.text for command in both]
    together = folder_of(tmp_path / "both", "cutmix")
    halves = Hardware(accelerator="cpu", accumulate=2)
    alone = train_here(data, tmp_path, "cutmix", recipe(ema=DECAY, **CHANGES), halves)
    weights, expected = weights_of(together), weights_of(alone)
    for name in weights:  # statistics of batch norm are the first process's
        if "running" not in name and "tracked" not in name:
            assert_close(weights[name], expected[name], rtol=1e-4, atol=1e-5)
    # The first was measured by both, the second by the first process alone.
    nll = json.loads((together / RESULT).read_text())["nll"]
    assert float(metrics(together)[-1]["test_loss"]) == pytest.approx(nll, rel=1e-4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_averages_of_weights_in_half_precision_move(dtype):
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).to(dtype)
    average = WeightAverage(model, 0.999)
    average.steps = 10**6
    expected = 1.0
    nn.init.ones_(average.model[0].bias)
    nn.init.constant_(model[0].bias, 0.5)
    for _ in range(100):
        average.update()
        expected = 0.999 * expected + 0.001 * 0.5
    assert average.model[0].bias.dtype == torch.promote_types(dtype, torch.float32)
    assert_close(average.model[0].bias.double(), torch.full((2,), expected).double())


@each_case("ema", [-0.1, 1, float("nan"), "0.9", True])
def test_decays_outside_of_the_interval_are_rejected(ema):
    with pytest.raises((ValueError, TypeError), match="`ema` must be"):
        recipe(ema=ema)


@pytest.mark.parametrize("ema", [None, 0.999])
def test_a_run_that_diverges_stops_and_keeps_the_last_good_checkpoint(data, tmp_path, ema):
    for _ in range(2):
        with pytest.raises(TrainingStopped, match="became infinite or not a number in epoch"):
            train_here(data, tmp_path, chosen=recipe(ema=ema, lr=1e12), checkpoint_steps=1)
        state = saved(folder_of(tmp_path))
        for weights in (state["model"], state["trained"]):
            assert all(weight.isfinite().all() for weight in weights.values())
