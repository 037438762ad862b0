"""Models inside wrappers: found, and kept from exchanging gradients."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import nn
from torch.testing import assert_close

from batches import batch, net
from comixup import saliency
from comixup._passes import layers_of_wrapping, unwrapped, without_sync


class DistributedDataParallel(nn.Module):
    """Named and built like torch's, without a process group."""

    def __init__(self, module):
        super().__init__()
        self.module, self.quiet, self.entered = module, False, 0

    @contextlib.contextmanager
    def no_sync(self):
        self.quiet, self.entered = True, self.entered + 1
        try:
            yield
        finally:
            self.quiet = False

    def forward(self, x):
        return self.module(x)


class MyParallel(DistributedDataParallel):
    """A user's subclass."""


def compiled(model):
    return torch.compile(model, backend="eager")


WRAPPERS = {
    "nothing": [],
    "ddp": [DistributedDataParallel],
    "a subclass": [MyParallel],
    "compile": [compiled],
    "ddp, then compile": [DistributedDataParallel, compiled],
    "compile, then ddp": [compiled, DistributedDataParallel],
    "DataParallel": [nn.DataParallel],
}


def wrap(model, wrappers):
    for wrapper in wrappers:
        model = wrapper(model)
    return model


@pytest.mark.parametrize("wrappers", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_the_users_model_is_found(wrappers):
    model = nn.Linear(2, 3)
    whole = wrap(model, wrappers)
    assert unwrapped(whole) is model
    layers = list(layers_of_wrapping(whole))
    assert len(layers) == 1 + len(wrappers)
    assert layers[0] is whole


@pytest.mark.parametrize("wrappers", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_no_sync_is_entered_once_and_left(wrappers):
    whole = wrap(nn.Linear(2, 3), wrappers)
    inside = [w for w in layers_of_wrapping(whole) if isinstance(w, DistributedDataParallel)]
    with without_sync(whole):
        assert all(w.quiet for w in inside)
    assert not any(w.quiet for w in inside)
    assert [w.entered for w in inside] == [1] * len(inside)


@pytest.mark.parametrize("settings", [{"keep_gradients": False}, {"clean_weight": 0.0}], ids=str)
def test_fabric_in_mixed_precision_lets_the_images_gradient_alone_be_taken(settings):
    fabric = Fabric(accelerator="cpu", precision="bf16-mixed")
    images, targets, _ = batch(6)
    model = net()
    expected = saliency(model, images, targets, **settings)
    wrapped = fabric.setup(model)
    assert_close(saliency(wrapped, images, targets, **settings), expected, rtol=0.2, atol=1e-3)
    with pytest.raises(RuntimeError, match=r"fabric.backward"):  # its own guard still stands
        F.cross_entropy(wrapped(images), targets).backward()
