"""Gradients that are recorded inside other modes of torch, and for models that work in place."""

import copy

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from batches import CLASSES, batch, net
from comixup import (
    CoMixup,
    CutMix,
    ManifoldMixup,
    NoMix,
    OnePass,
    Origin,
    SaliencyMemory,
    saliency,
    training_step,
)
from comixup.lab.training._vat import vat_loss
from problems import generator
from rejections import rejects

KEEP = pytest.mark.parametrize("keep", [True, False], ids=["keep", "drop"])


class Subtracts(nn.Module):
    def forward(self, x):
        return x.sub_(0.5)


class SubtractsACopy(nn.Module):
    def forward(self, x):
        return x - 0.5


IN_PLACE = {"ReLU": (lambda: nn.ReLU(inplace=True), nn.ReLU), "sub_": (Subtracts, SubtractsACopy)}
FIRST = pytest.mark.parametrize(("in_place", "twin"), IN_PLACE.values(), ids=IN_PLACE.keys())


def models(in_place, twin):
    """A model that changes its images, and one with the same weights that does not."""
    rest = net(norm=False)
    return nn.Sequential(in_place(), rest), nn.Sequential(twin(), copy.deepcopy(rest))


def centred(m=6):
    images, targets, _ = batch(m)
    return images - 0.5, targets


@KEEP
@FIRST
def test_models_that_work_in_place_on_their_images(in_place, twin, keep):
    model, other = models(in_place, twin)
    images, targets = centred()
    before, version = images.clone(), images._version
    maps = saliency(model, images, targets, keep_gradients=keep)
    assert images._version == version
    assert_close(images, before, rtol=0, atol=0)
    assert_close(maps, saliency(other, images, targets, keep_gradients=keep))


def one_pass():
    return OnePass(CoMixup(CLASSES, generator=generator(0)), SaliencyMemory(6), rate=0.5)


STEPS = {
    "no mixer": lambda: None,
    "no mixing": lambda: NoMix(CLASSES),
    "clean loss": lambda: CutMix(CLASSES, clean_weight=1.0, generator=generator(0)),
    "co-mixup": lambda: CoMixup(CLASSES, generator=generator(0)),
    "manifold": lambda: ManifoldMixup(CLASSES, layers=["1.0"], generator=generator(0)),
    "one pass": one_pass,
}


@FIRST
@pytest.mark.parametrize("make", STEPS.values(), ids=STEPS.keys())
def test_training_steps_of_models_that_work_in_place(make, in_place, twin):
    pair = models(in_place, twin)
    images, targets = centred()
    before, version = images.clone(), images._version
    for model in pair:
        mixer = make()
        for _ in range(2):
            origin = Origin(torch.arange(6)) if isinstance(mixer, OnePass) else None
            training_step(model, mixer, images, targets, origin=origin).loss.backward()
    assert images._version == version
    assert_close(images, before, rtol=0, atol=0)
    for p, q in zip(pair[0].parameters(), pair[1].parameters(), strict=True):
        assert_close(p.grad, q.grad)


@KEEP
@pytest.mark.parametrize("inside", [True, False], ids=["mode on", "mode off"])
@pytest.mark.parametrize("given", ["inference tensors", "ordinary tensors"])
def test_inference_mode_does_not_keep_saliency_from_its_gradient(given, inside, keep):
    model, (images, targets, _) = net(norm=False), batch(5)
    plain = copy.deepcopy(model)
    expected = saliency(plain, images, targets, keep_gradients=keep)
    if given == "inference tensors":
        with torch.inference_mode():
            images, targets = images.clone(), targets.clone()
    with torch.inference_mode(inside):
        maps = saliency(model, images, targets, keep_gradients=keep)
        assert torch.is_inference_mode_enabled() == inside
    assert not maps.is_inference()
    assert_close(maps, expected)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert (p.grad is not None) == keep
        assert_close(p.grad, q.grad)


def test_no_step_can_be_trained_in_inference_mode():
    model, (images, targets, _) = net(), batch(5)
    with torch.inference_mode():
        with rejects(RuntimeError, r"training_step must be able to record.*Call it outside"):
            training_step(model, CoMixup(CLASSES), images, targets)
        with rejects(RuntimeError, r"vat_loss must be able to record.*Call it outside"):
            vat_loss(model, images, epsilon=0.1)
    assert all(p.grad is None for p in model.parameters())


class Checkpointed(nn.Module):
    def __init__(self, inner, reentrant):
        super().__init__()
        self.inner, self.reentrant = inner, reentrant

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=self.reentrant)


def test_models_under_reentrant_checkpointing():
    model, (images, targets, _) = net(norm=False), batch(5)
    expected = saliency(copy.deepcopy(model), images, targets)
    whole = Checkpointed(model, reentrant=True)
    assert_close(saliency(whole, images, targets), expected)
    message = r"`model` must use checkpoint\(.*use_reentrant=False"
    with rejects(RuntimeError, message):
        saliency(whole, images, targets, keep_gradients=False)
    with rejects(RuntimeError, message):
        vat_loss(whole, images, epsilon=0.1, logits=torch.zeros(5, CLASSES))
