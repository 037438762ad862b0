"""The clean loss beside the mixed one: its weight, by sum and by mean, for every method."""

import copy
import functools

import pytest
import torch.nn.functional as F
from torch.testing import assert_close

from batches import CLASSES, batch, gradients, net, over
from cases import each_case
from comixup import CoMixup, CutMix, InputMixup, ManifoldMixup, PuzzleMix, training_step
from problems import generator
from rejections import rejects

ALL = {
    "co-mixup": CoMixup,
    "puzzle mix": functools.partial(PuzzleMix, grid=4),
    "cutmix": CutMix,
    "input mixup": InputMixup,
    "manifold mixup, images": functools.partial(ManifoldMixup, layers=["input"]),
    "manifold mixup, inside": functools.partial(ManifoldMixup, layers=["2"]),
}
WITHOUT_SALIENCY = {k: v for k, v in ALL.items() if k not in ("co-mixup", "puzzle mix")}
WEIGHTS = {
    # clean_weight, clean_reduction: weights of clean and mixed loss, written down by hand
    (0.0, "sum"): (0.0, 1.0),
    (0.0, "mean"): (0.0, 1.0),
    (0.25, "sum"): (0.25, 1.0),
    (0.25, "mean"): (0.2, 0.8),
    (1.0, "sum"): (1.0, 1.0),
    (1.0, "mean"): (0.5, 0.5),
    (3.0, "sum"): (3.0, 1.0),
    (3.0, "mean"): (0.75, 0.25),
}
RULE = pytest.mark.parametrize(("rule", "weights"), WEIGHTS.items(), ids=str)


def mixed_outputs(model, mixer, images):
    """What a Sequential without hooks makes of the last batch."""
    last = mixer.last
    if last.layer is None:
        return model(last.plan.mix_images(images))
    cut = int(last.layer) + 1
    return model[cut:](last.plan.mix_images(model[:cut](images)))


@over(ALL)
@RULE
def test_gradients_are_those_of_the_two_losses_weighted_by_hand(method, rule, weights):
    weight, reduction = rule
    model, (images, targets, _) = net(norm=False), batch(8)
    plain = copy.deepcopy(model)
    mixer = method(CLASSES, clean_weight=weight, clean_reduction=reduction, generator=generator(0))
    for _ in range(2):  # the second time a hook of the first is still in place
        model.zero_grad()
        plain.zero_grad()
        step = training_step(model, mixer, images, targets)
        kept = gradients(model)
        step.loss.backward()

        clean = F.cross_entropy(plain(images), targets)
        if weight > 0:
            (clean * weights[0]).backward()
            assert_close(kept, gradients(plain), rtol=0, atol=0)
        else:
            assert kept == [None] * len(kept)
        mixed = F.cross_entropy(mixed_outputs(plain, mixer, images), step.targets)
        (mixed if weights[1] == 1 else mixed * weights[1]).backward()
        assert_close(gradients(model), gradients(plain), rtol=0, atol=0)

        assert_close(step.loss, weights[1] * mixed)
        assert_close(step.mixed_loss, mixed.detach())
        assert not step.mixed_loss.requires_grad
        assert mixer.mixed_weight == weights[1]
        assert mixer.last.loss_weight == weights[1]
        if mixer.needs_saliency or weight > 0:
            assert_close(step.clean_loss, clean.detach())
            assert_close(step.clean_outputs, plain(images).detach())
            assert not step.clean_loss.requires_grad
            assert not step.clean_outputs.requires_grad
        else:
            assert step.clean_loss is None
            assert step.clean_outputs is None


@over(ALL)
@each_case("how", ["p", "enabled"])
def test_a_batch_that_is_not_mixed_has_its_own_loss_alone(method, how):
    model, (images, targets, _) = net(norm=False), batch(8)
    plain = copy.deepcopy(model)
    mixer = method(CLASSES, p=float(how != "p"), clean_weight=1.0, clean_reduction="mean")
    mixer.enabled = how != "enabled"
    step = training_step(model, mixer, images, targets)
    assert step.clean_loss is None
    step.loss.backward()
    F.cross_entropy(plain(images), F.one_hot(targets, CLASSES).float()).backward()
    assert_close(gradients(model), gradients(plain), rtol=0, atol=0)
    assert mixer.mixed_weight == 1.0
    assert_close(step.mixed_loss, step.loss.detach())


@each_case("method", [CoMixup, PuzzleMix])
@each_case("reduction", ["sum", "mean"])
def test_a_clean_pass_that_trains_nothing_leaves_the_mixed_loss_its_weight(method, reduction):
    model, (images, targets, _) = net(norm=False), batch(8)
    mixer = method(CLASSES, keep_gradients=False, clean_reduction=reduction)
    step = training_step(model, mixer, images, targets)
    assert gradients(model) == [None] * 4
    assert mixer.mixed_weight == 1.0
    assert_close(step.loss.detach(), step.mixed_loss, rtol=0, atol=0)


@over(ALL)
@each_case("ask", ["saliency", "clean_pass"])
@each_case("reduction", ["sum", "mean"])
def test_a_loop_of_ones_own_is_the_training_step(method, ask, reduction):
    model, (images, targets, _) = net(norm=False), batch(8)
    other = copy.deepcopy(model)

    def make():
        return method(CLASSES, clean_weight=0.5, clean_reduction=reduction, generator=generator(1))

    training_step(model, make(), images, targets).loss.backward()
    mixer = make()
    if isinstance(mixer, ManifoldMixup):
        mixer.attach(other)
    if ask == "saliency":
        saliency = mixer.saliency(other, images, targets)
    else:
        saliency = mixer.clean_pass(other, images, targets).saliency
    assert (saliency is not None) == mixer.needs_saliency
    mixed, soft = mixer(images, targets, saliency)
    (mixer.mixed_weight * F.cross_entropy(other(mixed), soft)).backward()
    assert_close(gradients(model), gradients(other))


@over(WITHOUT_SALIENCY)
def test_a_forgotten_clean_pass_is_noticed(method):
    model, (images, targets, _) = net(norm=False), batch(8)
    mixer = method(CLASSES, clean_weight=0.5)
    if isinstance(mixer, ManifoldMixup):
        mixer.attach(model)
    message = r"`clean_weight` = 0\.5 must have a clean pass .*mixer\.clean_pass"
    with rejects(RuntimeError, message):
        mixer(images, targets)
    mixer.clean_pass(model, images, targets)
    model(mixer(images, targets)[0])
    with rejects(RuntimeError, message):  # each batch has its own
        mixer(images, targets)
    mixer.clean_pass(model, images, targets)
    mixer.enabled = False
    mixer(images, targets)
    mixer.enabled = True
    with rejects(RuntimeError, message):  # that pass was for the batch that was left
        mixer(images, targets)


@over(ALL)
def test_the_users_backward_and_losses_are_used_for_both(method):
    model, (images, targets, _) = net(norm=False), batch(8)
    other = copy.deepcopy(model)
    calls = []

    def backward(loss):
        calls.append(loss.detach())
        (loss * 512).backward()

    def smoothed(outputs, labels):
        return F.cross_entropy(outputs, labels, label_smoothing=0.1)

    def make():
        return method(CLASSES, clean_weight=1.0, clean_reduction="mean", generator=generator(3))

    step = training_step(model, make(), images, targets, clean_loss_fn=smoothed, backward=backward)
    backward(step.loss)
    assert_close(calls[0], 0.5 * smoothed(other(images), targets).detach())
    assert_close(calls[1], step.loss.detach())
    training_step(other, make(), images, targets, clean_loss_fn=smoothed).loss.backward()
    assert_close(gradients(model), [512 * g for g in gradients(other)])
