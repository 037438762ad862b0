"""Gradient saliency: the right numbers, and nothing else of the caller's touched."""

import copy
import functools
import types

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from batches import CLASSES, batch, gradients, net, one_hot
from cases import each_case
from comixup import saliency
from rejections import rejects

KEEP = pytest.mark.parametrize("keep", [True, False], ids=["keep", "drop"])


def expected(model, images, targets, loss_fn=F.cross_entropy):
    """The l2 norm over channels of the loss's gradient, image by image, by a copy of the model."""
    model = copy.deepcopy(model)  # without batch norm, so that images can be taken one by one
    norms = []
    for i in range(len(images)):
        image = images[i : i + 1].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss_fn(model(image), targets[i : i + 1]), image)
        norms.append(gradient[0].square().sum(0).sqrt() / len(images))
    return torch.stack(norms)


@KEEP
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_is_the_norm_over_channels_of_the_gradient(keep, training):
    model = net(norm=False).train(training)
    images, targets, _ = batch(5)
    answer = saliency(model, images, targets, keep_gradients=keep)
    assert answer.dtype == torch.float32
    assert not answer.requires_grad
    assert_close(answer, expected(model, images, targets))


TARGETS = {
    "class indices": (lambda t: t, F.cross_entropy),
    "soft": (lambda t: 0.9 * one_hot(t) + 0.1 / CLASSES, F.cross_entropy),
    "multi-label": (
        lambda t: one_hot(t) + one_hot((t + 1) % CLASSES),
        F.binary_cross_entropy_with_logits,
    ),
}


@KEEP
@pytest.mark.parametrize(("make", "loss_fn"), TARGETS.values(), ids=TARGETS.keys())
def test_takes_every_kind_of_target(make, loss_fn, keep):
    model, (images, targets, _) = net(norm=False), batch(5)
    answer = saliency(model, images, make(targets), loss_fn=loss_fn, keep_gradients=keep)
    assert_close(answer, expected(model, images, make(targets), loss_fn))


@pytest.mark.parametrize("clean_weight", [1.0, 0.25, 3])
def test_kept_gradient_is_added_to_what_was_there(clean_weight):
    model, (images, targets, _) = net(), batch(6)
    other = copy.deepcopy(model)
    F.cross_entropy(other(images), targets).backward()
    before = []
    for p in model.parameters():
        p.grad = torch.rand_like(p)
        before.append(p.grad.clone())
    answer = saliency(model, images, targets, clean_weight=clean_weight)
    for p, q, old in zip(model.parameters(), other.parameters(), before, strict=True):
        assert_close(p.grad, old + clean_weight * q.grad)
    # The map is of the bare loss, whatever its weight.
    assert_close(answer, saliency(other, images, targets, keep_gradients=False))


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("off", [{"keep_gradients": False}, {"clean_weight": 0}], ids=str)
@pytest.mark.parametrize("had", [True, False], ids=["some grad", "no grad"])
def test_without_keeping_the_model_stays_as_it_was(training, off, had):
    model, (images, targets, _) = net().train(training), batch(6)
    for p in model.parameters():
        p.grad = torch.rand_like(p) if had else None
    grads, state = gradients(model), copy.deepcopy(model.state_dict())
    answer = saliency(model, images, targets, **off)
    assert bool((answer > 0).any())
    for old, p in zip(grads, model.parameters(), strict=True):
        assert (p.grad is None) == (old is None)
        if old is not None:
            assert_close(p.grad, old, rtol=0, atol=0)
    assert "1.num_batches_tracked" in state
    for name, value in model.state_dict().items():
        assert_close(value, state[name], rtol=0, atol=0)
    assert model.training == training


@KEEP
@pytest.mark.parametrize("frozen", [[0], [0, 1, 4]], ids=["first layer", "all layers"])
def test_frozen_layers_get_no_gradient_and_do_not_hide_the_images(frozen, keep):
    model, (images, targets, _) = net(), batch(6)
    whole = saliency(copy.deepcopy(model), images, targets)
    for layer in frozen:
        model[layer].requires_grad_(False)
    assert_close(saliency(model, images, targets, keep_gradients=keep), whole)
    for p in model.parameters():
        assert (p.grad is not None) == (keep and p.requires_grad)


@KEEP
def test_under_autocast(keep):
    model, (images, targets, _) = net(norm=False), batch(5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        answer = saliency(model, images, targets, keep_gradients=keep)
    assert answer.dtype == torch.float32
    assert_close(answer, expected(model, images, targets), rtol=0.1, atol=1e-3)
    assert (model[0].weight.grad is not None) == keep


def test_half_precision_keeps_small_gradients():
    # PEERS B, NaN/AMP: a mean over a large batch vanishes in float16 before it is normalized.
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 2, bias=False)).half()
    nn.init.constant_(model[1].weight, 1e-3)
    model[1].weight.data[1] = 0
    images = torch.ones(4096, 1, 1, dtype=torch.float16)
    answer = saliency(model, images, torch.zeros(4096, dtype=torch.long), keep_gradients=False)
    assert float(answer.min()) > 0


def test_a_grad_scalers_scale_is_in_the_kept_gradient_and_not_in_the_map():
    model, (images, targets, _) = net(norm=False), batch(5)
    plain = copy.deepcopy(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def backward(loss):
        scaler.scale(loss).backward()

    answer = saliency(model, images, targets, clean_weight=0.5, backward=backward)
    bare = saliency(plain, images, targets, clean_weight=0.5)
    assert_close(answer, bare, rtol=1e-5, atol=0)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert_close(p.grad, 1024 * q.grad)
    # The mixed loss goes through the same scaler: unscaling once gives the plain sum.
    backward(F.cross_entropy(model(images.flip(0)), targets))
    F.cross_entropy(plain(images.flip(0)), targets).backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scaler.unscale_(optimizer)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        assert_close(p.grad, q.grad)


class Elsewhere(nn.Module):
    """A model whose loss does not depend on its images."""

    def __init__(self, how):
        super().__init__()
        self.how, self.inner = how, net(norm=False)

    def forward(self, x):
        if self.how == "detaches":
            return self.inner(x.detach())
        with torch.no_grad():
            return self.inner(x)


@pytest.mark.parametrize(
    ("how", "keep"),
    [("detaches", True), ("detaches", False), ("no_grad", True), ("no_grad", False)],
)
def test_a_model_that_cuts_the_gradient_is_named(how, keep):
    images, targets, _ = batch(5)
    with rejects(ValueError, r"`model` must pass a gradient on to its images.*detach\(\)"):
        saliency(Elsewhere(how), images, targets, keep_gradients=keep)


BAD = [
    ({"backward": lambda loss: None}, ValueError, r"`backward` must run the .*scaler\.scale"),
    (
        {"loss_fn": functools.partial(F.cross_entropy, reduction="none")},
        TypeError,
        r"`loss_fn` must return a scalar tensor, got \(5,\)\. Take its mean",
    ),
    ({"loss_fn": lambda o, t: 1.5}, TypeError, r"`loss_fn` must return a scalar .* got float"),
    (
        {"images": torch.ones(5, 3, 8, 8, dtype=torch.uint8)},
        TypeError,
        r"`images` must be floating point.* got torch\.uint8",
    ),
    ({"images": torch.rand(3, 8)}, ValueError, r"`images` must have shape \(batch"),
    ({"images": [1, 2]}, TypeError, r"`images` must be a torch tensor, got list"),
    ({"clean_weight": -1}, ValueError, r"`clean_weight` must be a number from"),
]


@each_case(("change", "error", "message"), BAD, ids=lambda case: case[2])
def test_rejects(change, error, message):
    images, targets, _ = batch(5)
    arguments = {"images": images, "targets": targets} | change
    with rejects(error, message):
        saliency(net(), **arguments)


@KEEP
@pytest.mark.parametrize("kind", ["plain", "leaf that requires grad", "not a leaf"])
def test_the_callers_images_are_untouched(kind, keep):
    images, targets, _ = batch(5)
    leaf = images.clone().requires_grad_(kind != "plain")
    given = leaf * 1 if kind == "not a leaf" else leaf
    version = given._version
    saliency(net(), given, targets, keep_gradients=keep)
    assert given._version == version
    assert given.requires_grad == (kind != "plain")
    assert leaf.grad is None
    assert_close(given.detach(), images, rtol=0, atol=0)


@pytest.mark.parametrize("size", [(9,), (1, 1), (3, 5), (2, 3, 4)], ids=str)
def test_any_number_of_dimensions(size):
    images, targets, _ = batch(3, size)
    model = nn.Sequential(nn.Flatten(), nn.Linear(images[0].numel(), CLASSES))
    answer = saliency(model, images, targets)
    assert answer.shape == (3, *size)
    assert_close(answer, expected(model, images, targets))


def test_backward_is_not_called_where_nothing_is_kept():
    images, targets, _ = batch(5)
    called = types.SimpleNamespace(times=0)

    def backward(loss):
        called.times += 1
        loss.backward()

    saliency(net(), images, targets, keep_gradients=False, backward=backward)
    assert called.times == 0
    saliency(net(), images, targets, backward=backward)
    assert called.times == 1
