"""The private names of Lightning Fabric that `comixup._lightning` uses, and what they do.

If an update of Lightning breaks the package, this test fails first: adapt `_lightning.py`, then
raise the upper bounds in pyproject.toml.
"""

import os
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric, wrappers
from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from torch import nn

from batches import CLASSES, batch, net
from comixup import CoMixup, _lightning, training_step
from comixup._lightning import delay_kill, in_fabric_backward, set_timeout

PRIVATE = ("_FabricModule", "_forward_module", "_in_fabric_backward", "_ChildProcessObserver")
SOURCE = Path(_lightning.__file__).parent


@pytest.fixture
def model():
    # Fabric watches over backward passes where precision or strategy has one of its own.
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    fabric.launch()
    return fabric.setup(nn.Linear(2, 3))


def test_a_wrapped_model_is_known_by_its_class_and_attribute(model):
    assert type(model).__name__ == _lightning.FABRIC_MODULE
    assert isinstance(getattr(model, _lightning.FORWARD_MODULE), nn.Linear)


def test_gradients_can_be_taken_past_fabric_within_the_context_alone(model):
    with pytest.raises(RuntimeError, match=r"fabric\.backward"):
        model(torch.ones(1, 2)).sum().backward()
    with in_fabric_backward([model]):
        assert wrappers._in_fabric_backward is True
        model(torch.ones(1, 2)).sum().backward()
    assert wrappers._in_fabric_backward is False
    assert model.weight.grad is not None


def test_a_lightning_module_in_a_loop_of_fabric_may_keep_gradients():
    # Its `automatic_optimization` is True there too, but nothing zeroes between the two passes.
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.mixup = net(), CoMixup(CLASSES)

        def training_step(self, *examples):
            return training_step(self.net, self.mixup, *examples, backward=self.fabric.backward)

    fabric = Fabric(accelerator="cpu", devices=1)
    module = Module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    wrapped, optimizer = fabric.setup(module, optimizer)
    for _ in range(2):  # warnings are errors
        optimizer.zero_grad()
        fabric.backward(wrapped.training_step(*batch(8)[:2]).loss)
        optimizer.step()


def test_the_timeout_is_that_of_the_process_group():
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    assert fabric.strategy._timeout != timedelta(minutes=7)
    set_timeout(fabric, 7)
    assert fabric.strategy._timeout == timedelta(minutes=7)
    set_timeout(Fabric(accelerator="cpu", devices=1), 7)  # one process waits for nobody


def test_processes_have_time_to_say_why_they_stop(monkeypatch):
    # A real observer of no process, whose kill would be this process's own.
    order, own_period = [], 60
    observer = _ChildProcessObserver(os.getpid(), [], own_period)
    assert observer._child_processes == []
    observer._terminate_all = lambda: order.append("kill")
    observer.start()
    monkeypatch.setattr(_lightning, "_LAST_WORDS_SECONDS", 12.5)
    monkeypatch.setattr(_lightning.time, "sleep", order.append)
    delay_kill()
    observer._terminate_all()
    assert [entry for entry in order if entry != own_period] == [12.5, "kill"]


def test_no_other_file_uses_the_private_names():
    files = [path for path in SOURCE.rglob("*.py") if path.name != "_lightning.py"]
    assert len(files) > 100
    used = {path.name for path in files for name in PRIVATE if name in path.read_text()}
    assert used == set()
