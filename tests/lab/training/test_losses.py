"""Losses: against torch's in double precision, at extreme logits, under autocast."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cases import each_case
from comixup.lab.training._losses import (
    losses,
    mean_binary_cross_entropy,
)
from comixup.mixers import decoupled_cross_entropy

CLASSES = 7


def logits_of(size, dtype=torch.float64, m=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(m, CLASSES, generator=generator, dtype=torch.float64) * size
    return logits.to(dtype).requires_grad_()


def shares_of(kind, m=5, seed=1):
    generator = torch.Generator().manual_seed(seed)
    if kind == "indices":
        return torch.randint(CLASSES, (m,), generator=generator)
    mixed = torch.rand(m, CLASSES, generator=generator, dtype=torch.float64)
    return mixed if kind == "multi-label" else mixed / mixed.sum(1, keepdim=True)


def one_hot(targets):
    return F.one_hot(targets, CLASSES).double() if targets.ndim == 1 else targets


KINDS = ["indices", "shares", "multi-label"]


@each_case("kind", KINDS)
@each_case("size", [0.0, 1.0, 4.0])
def test_is_torchs_binary_cross_entropy_of_the_probabilities(kind, size):
    logits, targets = logits_of(size), shares_of(kind)
    expected = F.binary_cross_entropy(logits.softmax(1), one_hot(targets))
    loss = mean_binary_cross_entropy(logits, targets)
    assert_close(loss, expected)
    wanted = torch.autograd.grad(expected, logits)
    assert_close(torch.autograd.grad(loss, logits), wanted)


@each_case("dtype", [torch.float32, torch.float64])
@each_case("gap", [20.0, 500.0, 1e30])
def test_a_certain_and_wrong_answer_has_its_exact_loss_and_gradient(gap, dtype):
    logits = torch.tensor([[gap, 0.0, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    loss = mean_binary_cross_entropy(logits, torch.tensor([2]))
    # Of the four questions two are answered wrong: -log p of class 2 is the gap, and
    # -log(1 - p) of class 0 is the gap less log 3, for the three classes that share the rest.
    rest = torch.tensor(3.0, dtype=torch.float64).log()
    assert_close(loss, ((2 * gap - rest) / 4).to(dtype))
    (gradient,) = torch.autograd.grad(loss, logits)
    expected = torch.tensor([[2.0, -1 / 3, -4 / 3, -1 / 3]], dtype=dtype) / 4
    assert_close(gradient, expected, rtol=1e-5, atol=1e-6)


@each_case("kind", ["indices", "shares"])
@each_case("name", ["cross-entropy", "official", "decoupled"])
@each_case("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_losses_are_in_single_precision(name, kind, dtype):
    images = torch.randn(5, 3, generator=torch.Generator().manual_seed(2))
    weight = torch.randn(CLASSES, 3, generator=torch.Generator().manual_seed(3)).requires_grad_()
    targets = shares_of(kind)
    targets = targets.float() if targets.is_floating_point() else targets
    for loss_fn in losses(name, CLASSES):
        with torch.autocast("cpu", dtype):
            logits = F.linear(images, weight)
            loss = loss_fn(logits, targets)
        assert logits.dtype == dtype
        assert loss.dtype == torch.float32
        assert_close(loss, loss_fn(logits.float(), targets))
        (gradient,) = torch.autograd.grad(loss, weight)
        whole = torch.autograd.grad(loss_fn(F.linear(images, weight), targets), weight)[0]
        assert_close(gradient, whole, rtol=0.05, atol=0.01)


def test_names_give_the_mixed_and_the_clean_loss():
    logits, targets = logits_of(2.0), shares_of("shares")
    mixed, clean = losses("cross-entropy", CLASSES)
    assert_close(mixed(logits, targets), F.cross_entropy(logits, targets))
    assert_close(clean(logits, targets), F.cross_entropy(logits, targets))
    mixed, clean = losses("decoupled", CLASSES)
    assert mixed is clean is decoupled_cross_entropy
    mixed, clean = losses("official", CLASSES)
    assert_close(mixed(logits, targets), F.binary_cross_entropy(logits.softmax(1), targets))
    assert_close(clean(logits, targets), 2 / CLASSES * F.cross_entropy(logits, targets))


def test_one_class_has_nothing_to_learn():
    with pytest.raises(ValueError, match="`num_classes` must be an integer of at least 2"):
        losses("official", 1)


@pytest.mark.parametrize("weights", [None, torch.tensor([2.0, 1.0, 0.5])])
def test_label_smoothing_spreads_a_part_of_every_target(weights):
    logits = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    classes = torch.tensor([0, 2, 1, 1, 0])
    mixed = 0.5 * F.one_hot(classes, 3) + 0.5 * F.one_hot(classes.flip(0), 3)
    for targets in (classes, mixed):
        soft = targets if targets.ndim > 1 else F.one_hot(targets, 3)
        soft = 0.9 * soft + 0.1 / 3
        each = soft * F.log_softmax(logits, 1) * (1.0 if weights is None else weights)
        for loss in losses("cross-entropy", 3, weights, label_smoothing=0.1):
            torch.testing.assert_close(loss(logits, targets), -each.sum(1).mean())
