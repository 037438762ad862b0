"""Errors and interrupts in the middle of a step: models and mixers are as they were before."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from batches import CLASSES, batch, net
from comixup import CoMixup, CutMix, InputMixup, ManifoldMixup, training_step
from problems import generator
from rejections import rejects

KEEP = pytest.mark.parametrize("keep", [True, False], ids=["keep", "drop"])


class Interrupts(nn.Module):
    """A network that is interrupted in its forward pass, or in its backward pass."""

    def __init__(self, where):
        super().__init__()
        self.inner, self.where, self.off = net(), where, False

    def forward(self, x):
        y = self.inner(x)
        if self.where == "forward" and not self.off:
            raise KeyboardInterrupt
        if self.where == "backward" and not self.off:
            y.register_hook(self.interrupt)
        return y

    def interrupt(self, gradient):
        raise KeyboardInterrupt


class DistributedDataParallel(nn.Module):
    """Named like torch's; counts whether it is to exchange gradients."""

    def __init__(self, module):
        super().__init__()
        self.module, self.quiet = module, 0

    def no_sync(self):
        return self

    def __enter__(self):
        self.quiet += 1

    def __exit__(self, *_):
        self.quiet -= 1

    def forward(self, x):
        return self.module(x)


@KEEP
@pytest.mark.parametrize("where", ["forward", "backward"])
def test_an_interrupted_clean_pass_leaves_nothing_behind(where, keep):
    images, targets, maps = batch(6)
    model = Interrupts(where)
    wrapped = DistributedDataParallel(model)
    mixer = CoMixup(CLASSES, p=0.5, keep_gradients=keep, generator=generator(4))
    state = {name: value.clone() for name, value in model.state_dict().items()}
    hooks = [len(module._forward_pre_hooks) for module in model.modules()]
    times = 0
    while times < 3:
        try:
            mixer.saliency(wrapped, images, targets)
        except KeyboardInterrupt:
            times += 1
    assert wrapped.quiet == 0
    assert torch.is_grad_enabled()
    assert [len(module._forward_pre_hooks) for module in model.modules()] == hooks
    assert all(p.requires_grad for p in model.parameters())
    if not keep:
        assert_close(dict(model.state_dict()), state, rtol=0, atol=0)
    decided = set()  # the next batches are drawn by themselves
    for _ in range(20):
        mixer(images, targets, maps)
        decided.add(mixer.last.mixed)
    assert decided == {True, False}


@pytest.mark.parametrize("make", [CutMix, InputMixup, ManifoldMixup], ids=lambda c: c.__name__)
def test_a_clean_pass_belongs_to_its_batch_even_if_that_is_rejected(make):
    model, (images, targets, _) = net(), batch(6)
    settings = {"layers": ["0"]} if make is ManifoldMixup else {}
    mixer = make(CLASSES, clean_weight=1.0, **settings)
    if make is ManifoldMixup:
        mixer.attach(model)
    mixer.clean_pass(model, images, targets)
    with rejects(ValueError, r"`targets` must lie in"):
        mixer(images, targets + CLASSES)
    with rejects(RuntimeError, r"must have a clean pass before every batch"):
        mixer(images, targets)


class Fails(nn.Module):
    """Fails before its layer runs, as where memory runs out."""

    def __init__(self):
        super().__init__()
        self.layer, self.head, self.off = nn.Tanh(), nn.Linear(192, CLASSES), False

    def forward(self, x):
        if not self.off:
            raise MemoryError("on purpose")
        return self.head(self.layer(x).flatten(1))


def fails(outputs, targets):
    raise ArithmeticError("on purpose")


def test_a_failed_step_leaves_no_layer_active():
    model, (images, targets, _) = Fails(), batch(6)
    mixer = ManifoldMixup(CLASSES, layers=["layer"], generator=generator(0))
    with pytest.raises(MemoryError):
        training_step(model, mixer, images, targets)
    model.off = True
    training_step(model, mixer, images, targets)  # would complain of a layer that has not run
    with pytest.raises(ArithmeticError):
        training_step(model, mixer, images, targets, loss_fn=fails)
    assert_close(model(images), model.head(images.tanh().flatten(1)))
