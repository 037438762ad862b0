"""The mixin for Lightning's automatic optimization: the gradients are those of the paper's sum."""

import copy
import subprocess
import sys
import warnings
from pathlib import Path

import lightning
import pytest
import torch
from torch.testing import assert_close
from torch.utils.data import DataLoader

from batches import CLASSES, batch, gradients, net
from comixup import CoMixup, training_step
from comixup.adapters.lightning import KeepCleanGradient
from problems import generator

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning:lightning"),
    pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec:FutureWarning:lightning"),
]


class Module(KeepCleanGradient, lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net(norm=False)
        self.mixup = CoMixup(CLASSES, generator=generator(5))
        self.found = []

    def training_step(self, index, batch_idx):
        examples = batch(8, seed=int(index))[:2]
        step = training_step(self.net, self.mixup, *examples, backward=self.clean_backward)
        return step.loss

    def on_before_optimizer_step(self, optimizer):
        self.found.append(gradients(self.net))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def fit(module, batches, **settings):
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        log_every_n_steps=1,
        **settings,
    )
    trainer.fit(module, DataLoader(range(batches)))
    return module


def by_hand(batches, accumulate):
    """Gradients before each step, and weights, of a plain loop that zeroes at the right time."""
    model, mixup, found = net(norm=False), CoMixup(CLASSES, generator=generator(5)), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for index in range(batches):

        def backward(loss):
            (loss / accumulate).backward()

        examples = batch(8, seed=index)[:2]
        backward(training_step(model, mixup, *examples, backward=backward).loss)
        if (index + 1) % accumulate == 0 or index + 1 == batches:
            found.append(gradients(model))
            optimizer.step()
            optimizer.zero_grad()
    return model, found


@pytest.mark.parametrize(("batches", "accumulate"), [(3, 1), (4, 2), (5, 2)])
def test_gradients_and_weights_are_those_of_a_plain_loop(batches, accumulate):
    module = fit(Module(), batches, accumulate_grad_batches=accumulate)  # warnings are errors
    model, found = by_hand(batches, accumulate)
    assert_close(module.found, found)
    assert_close(list(module.net.parameters()), list(model.parameters()))


def test_without_the_mixin_the_clean_gradient_is_lost():
    class Plain(Module):
        keeps_clean_gradient = False

        def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
            optimizer.zero_grad()

    with warnings.catch_warnings(record=True) as caught:  # pytest.warns would repeat Lightning's
        warnings.simplefilter("always")
        module = fit(Plain(), 1)
    ours = [str(warning.message) for warning in caught if "clean" in str(warning.message)]
    assert len(ours) == 1
    assert "Use comixup.adapters.lightning.KeepCleanGradient" in ours[0]
    _, found = by_hand(1, 1)
    with pytest.raises(AssertionError, match="not close"):
        assert_close(module.found, found)


class InTwoProcesses(Module):
    """Compares, in each of two processes, what is stepped by with the mean over both."""

    def training_step(self, index, batch_idx):
        examples = batch(8, seed=10 * int(index) + self.global_rank)[:2]
        twin = copy.deepcopy(self.net)
        twin.zero_grad()
        training_step(twin, copy.deepcopy(self.mixup), *examples).loss.backward()
        self.expected = gradients(twin)
        step = training_step(self.net, self.mixup, *examples, backward=self.clean_backward)
        return step.loss

    def on_before_optimizer_step(self, optimizer):
        for found, own in zip(gradients(self.net), self.expected, strict=True):
            mean = own / 2
            torch.distributed.all_reduce(mean)
            assert_close(found, mean, rtol=1e-4, atol=1e-7)
            assert not torch.equal(mean, own)
        print(f"rank {self.global_rank} agrees", flush=True)


@pytest.mark.slow
def test_two_processes_exchange_the_sum():
    here = Path(__file__)
    code = (
        f"import sys; sys.path[:0] = [{str(here.parent)!r}, {str(here.parents[1])!r}]\n"
        f"from {here.stem} import InTwoProcesses, fit\n"
        "fit(InTwoProcesses(), 3, devices=2, strategy='ddp_fork', use_distributed_sampler=False)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stderr
    for rank in (0, 1):
        assert run.stdout.count(f"rank {rank} agrees") == 3, run.stdout
