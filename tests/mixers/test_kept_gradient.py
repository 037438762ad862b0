"""Loops that drop the kept clean gradient are warned of, once; correct ones are not."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F

from batches import CLASSES, batch, net
from comixup import CoMixup, CutMix

ZEROED = "Gradients must not be zeroed between the clean pass"


def loss_of_mixed(model, mixer, images, targets):
    """Returns the mixed loss, after the clean pass."""
    saliency = mixer.saliency(model, images, targets)
    mixed, soft = mixer(images, targets, saliency)
    return mixer.mixed_weight * F.cross_entropy(model(mixed), soft)


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("make", [CoMixup, partial(CutMix, clean_weight=1.0)])
def test_gradients_zeroed_before_the_backward_pass_are_warned_of_once(make, to_none):
    mixer = make(CLASSES)
    model, (images, targets, _) = net(), batch(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = loss_of_mixed(model, mixer, images, targets)
    optimizer.zero_grad(set_to_none=to_none)
    with pytest.warns(UserWarning, match=ZEROED) as caught:
        loss.backward()
    assert caught[0].filename == __file__
    optimizer.step()
    loss = loss_of_mixed(model, mixer, images, targets)
    optimizer.zero_grad(set_to_none=to_none)
    loss.backward()  # warnings are errors: this is silent


def test_gradients_zeroed_before_the_mixer_are_warned_of_too():
    model, (images, targets, _), mixer = net(), batch(8), CoMixup(CLASSES)
    saliency = mixer.saliency(model, images, targets)
    model.zero_grad()
    mixed, soft = mixer(images, targets, saliency)
    with pytest.warns(UserWarning, match=ZEROED):
        F.cross_entropy(model(mixed), soft).backward()


@pytest.mark.parametrize("settings", [{"keep_gradients": False}, {"clean_weight": 0.0}])
def test_loops_without_a_clean_term_may_zero_where_they_like(settings):
    model, (images, targets, _) = net(), batch(8)
    loss = loss_of_mixed(model, CoMixup(CLASSES, **settings), images, targets)
    model.zero_grad()
    loss.backward()


def test_correct_loops_are_silent():
    model, (images, targets, _), mixer = net(), batch(8), CoMixup(CLASSES, p=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(8):
        loss_of_mixed(model, mixer, images, targets).backward()
        if step % 2:  # gradients of two batches are accumulated
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
            optimizer.zero_grad(set_to_none=step % 4 == 1)


def test_a_gradient_that_is_zero_by_itself_is_not_taken_for_zeroed():
    model, (images, targets, _), mixer = net(), batch(8), CoMixup(CLASSES)
    loss_of_mixed(model, mixer, 0 * images, targets).backward()
    assert not model[0].weight.grad.any()


def test_a_batch_that_is_given_up_is_forgotten():
    model, (images, targets, _), mixer = net(), batch(8), CoMixup(CLASSES)
    loss_of_mixed(model, mixer, images, targets)  # not finite, say
    model.zero_grad()
    loss_of_mixed(model, mixer, images, targets).backward()
