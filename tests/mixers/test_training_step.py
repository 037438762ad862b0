"""One training step, held against the same step written by hand."""

import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from batches import CLASSES, batch, gradients, net
from comixup import (
    CoMixup,
    CutMix,
    InputMixup,
    ManifoldMixup,
    OnePass,
    Origin,
    SaliencyMemory,
    training_step,
)
from problems import generator
from rejections import rejects

MAKERS = {
    "co-mixup": lambda **k: CoMixup(CLASSES, **k),
    "co-mixup, clean weight": lambda **k: CoMixup(CLASSES, clean_weight=0.3, **k),
    "co-mixup, no clean gradient": lambda **k: CoMixup(CLASSES, keep_gradients=False, **k),
    "cutmix": lambda **k: CutMix(CLASSES, **k),
    "input mixup": lambda **k: InputMixup(CLASSES, **k),
    "manifold mixup": lambda **k: ManifoldMixup(CLASSES, layers=["input", "0", "2"], **k),
}
MAKE = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def assert_same_gradients(model, other):
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert_close(p.grad, q.grad)


def hand_written(model, mixer, images, targets, loss_fn=F.cross_entropy, clean_loss_fn=None):
    """The step as the README writes it; returns loss, clean loss and soft targets."""
    clean = None
    if mixer.needs_saliency:
        inputs = images.clone().requires_grad_()
        clean = (clean_loss_fn or loss_fn)(model(inputs), targets)
        # Gradients of the weights, kept or not, and of the images.
        keep = mixer.keep_gradients and mixer.clean_weight > 0
        weight = mixer.clean_weight if keep else 1.0
        grads = torch.autograd.grad(clean * weight, [inputs, *model.parameters()])
        if keep:
            for p, g in zip(model.parameters(), grads[1:], strict=True):
                p.grad = g
        saliency = (grads[0] / weight).square().sum(1).sqrt()
        images, targets = mixer(images, targets, saliency)
    else:
        if isinstance(mixer, ManifoldMixup):
            mixer.attach(model)
        images, targets = mixer(images, targets)
    loss = loss_fn(model(images), targets)
    loss.backward()
    return loss, clean, targets


@MAKE
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_is_the_step_written_by_hand(make, seed):
    model, (images, targets, _) = net(norm=False), batch(8)
    other = copy.deepcopy(model)
    step = training_step(model, make(generator=generator(seed)), images, targets)
    step.loss.backward()
    loss, clean, soft = hand_written(other, make(generator=generator(seed)), images, targets)
    assert_close(step.loss, loss)
    assert_close(step.targets, soft)
    assert (step.clean_loss is None) == (clean is None)
    if clean is not None:
        assert_close(step.clean_loss, clean.detach())
        assert not step.clean_loss.requires_grad
        assert step.clean_outputs.shape == (8, CLASSES)
        assert_close(F.cross_entropy(step.clean_outputs, targets), clean)
    else:
        assert step.clean_outputs is None
    assert_close(F.cross_entropy(step.outputs, step.targets), step.loss)
    assert_same_gradients(model, other)


def test_none_trains_on_the_batch_as_it_comes():
    model, (images, targets, _) = net(norm=False), batch(8)
    other = copy.deepcopy(model)
    step = training_step(model, None, images, targets)
    step.loss.backward()
    expected = F.cross_entropy(other(images), targets)
    expected.backward()
    assert_close(step.loss, expected)
    assert step.targets is targets
    assert step.clean_loss is None
    assert_same_gradients(model, other)


def weighted(outputs, targets):
    return 3 * F.cross_entropy(outputs, targets)


def smoothed(outputs, targets):
    # vision PR#4907: label smoothing belongs to the loss, not to the mixing.
    return F.cross_entropy(outputs, targets, label_smoothing=0.1)


@MAKE
@pytest.mark.parametrize("clean_loss_fn", [None, smoothed], ids=["one loss", "two losses"])
def test_losses_of_ones_own(make, clean_loss_fn):
    # composer#382/#825, focal-loss-pytorch#2: any loss; deit PR#91: the right one for each batch.
    model, (images, targets, _) = net(norm=False), batch(8)
    other = copy.deepcopy(model)
    step = training_step(
        model,
        make(generator=generator(3)),
        images,
        targets,
        loss_fn=weighted,
        clean_loss_fn=clean_loss_fn,
    )
    step.loss.backward()
    loss, clean, _ = hand_written(
        other, make(generator=generator(3)), images, targets, weighted, clean_loss_fn
    )
    assert_close(step.loss, loss)
    if clean is not None:
        assert_close(step.clean_loss, clean.detach())
    assert_same_gradients(model, other)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_no_clean_pass_for_batches_that_are_not_mixed(p):
    model, (images, targets, _) = net(), batch(8)
    step = training_step(model, CoMixup(CLASSES, p=p), images, targets)
    assert int(model[1].num_batches_tracked) == 1 + int(p)
    assert (step.clean_loss is not None) == bool(p)
    assert any(g is not None for g in gradients(model)) == bool(p)


def clean_loss(model, images, targets):
    with torch.no_grad():
        return float(F.cross_entropy(model(images), targets))


def test_swapped_arguments_are_named():
    model, mixer, (images, targets, _) = net(), CoMixup(CLASSES), batch(4)
    with rejects(
        TypeError, r"`model` must be a torch module, got CoMixup\. .*model, mixer, images"
    ):
        training_step(mixer, model, images, targets)
    with rejects(TypeError, r"`mixer` must be a mixer of comixup, or None, got Tensor\. The argum"):
        training_step(model, images, targets, mixer)
    for wrong in (mixer, images, None):
        name = type(wrong).__name__
        rule = rf"`model` must be a torch module, got {name}\. The arguments are \(model, images"
        with rejects(TypeError, rule):
            mixer.saliency(wrong, model, targets)


def test_clean_batches_of_one_pass_mixing_have_the_clean_loss():
    called = []

    def recorded(name):
        def loss(outputs, targets):
            called.append(name)
            return F.cross_entropy(outputs, targets)

        return loss

    images, targets, _ = batch(6)
    mixer = OnePass(CoMixup(CLASSES), SaliencyMemory(60))
    step = functools.partial(
        training_step,
        net(),
        mixer,
        images,
        targets,
        origin=Origin(torch.arange(6)),
        clean_loss_fn=recorded("clean"),
    )
    for _ in range(4):
        step(loss_fn=recorded("mixed"))
    assert called == ["clean", "mixed"] * 2
    mixer.enabled = False  # an epoch without mixing has no clean term
    step(loss_fn=recorded("unmixed"))
    assert called[-1] == "unmixed"
