"""The decoupled loss: each class of a mixture against those that are not in it."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from batches import CLASSES, METHODS, batch, net, over
from comixup import training_step
from comixup.mixers import decoupled_cross_entropy
from problems import generator


def by_hand(logits, targets, eta):
    """The loss by sums over outputs and classes."""
    total = 0.0
    for z, w in zip(logits.tolist(), targets.tolist(), strict=True):
        everything = math.log(sum(math.exp(value) for value in z))
        total += sum(share * (everything - value) for share, value in zip(w, z, strict=True))
        outside = [value for value, share in zip(z, w, strict=True) if share == 0]
        for share, value in zip(w, z, strict=True):
            if share > 0:
                rest = sum(math.exp(other) for other in outside)
                total += eta * share * (math.log(math.exp(value) + rest) - value)
    return total / len(logits)


def shares(rows):
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("eta", [0.0, 0.1, 1.0])
def test_is_the_sum_over_classes_with_each_outputs_own_shares(eta):
    targets = shares(
        [[1, 0, 0, 0, 0], [0.3, 0.7, 0, 0, 0], [0.2, 0, 0.5, 0.3, 0], [0.1, 0.2, 0.3, 0.2, 0.2]]
    )
    for seed in range(5):
        logits = 3 * torch.randn(4, 5, generator=generator(seed), dtype=torch.float64)
        found = decoupled_cross_entropy(logits, targets, eta)
        assert float(found) == pytest.approx(by_hand(logits, targets, eta), rel=1e-9)


def test_one_class_has_its_cross_entropy_once_more_as_indices_too():
    logits, classes = torch.randn(6, 5, generator=generator(0)), torch.arange(6) % 5
    expected = 1.1 * F.cross_entropy(logits, classes)
    assert_close(decoupled_cross_entropy(logits, classes), expected)
    assert_close(decoupled_cross_entropy(logits, F.one_hot(classes, 5)), expected)


@pytest.mark.parametrize("size", [1.0, 1e4])
def test_gradients_are_finite_where_every_class_is_in_the_mixture_and_for_large_logits(size):
    logits = (size * torch.randn(3, 4, generator=generator(1))).requires_grad_()
    even = torch.full((3, 4), 0.25)
    loss = decoupled_cross_entropy(logits, even)
    loss.backward()
    assert bool(logits.grad.isfinite().all())
    assert_close(loss.detach(), F.cross_entropy(logits.detach(), even))
    half = logits.detach().bfloat16()
    assert decoupled_cross_entropy(half, torch.eye(4)[:3]).dtype == torch.float32


@over({name: method for name, method in METHODS.items() if "inside" not in name})
def test_trains_with_every_method(method):
    images, targets, _ = batch(8)
    mixer, model = method(CLASSES, generator=generator(0)), net()
    loss = functools.partial(decoupled_cross_entropy, eta=0.5)
    step = training_step(model, mixer, images, targets, loss_fn=loss)
    step.loss.backward()
    assert all(bool(p.grad.isfinite().all()) for p in model.parameters())
    assert_close(step.mixed_loss, loss(step.outputs, step.targets).detach())
