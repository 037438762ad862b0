"""8-bit floats and torch.func's transforms: they work, or get an error message of ours."""

import copy
import re

import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.testing import assert_close

from batches import CLASSES, METHODS, batch, net, over, run
from comixup import (
    CoMixup,
    CutMix,
    ManifoldMixup,
    saliency,
    spectral_residual,
)
from comixup.lab.training._vat import vat_loss
from problems import generator
from rejections import rejects

EIGHT_BITS = pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
COPIES = re.compile("cutmix|saliencymix")
"""Methods that copy pixels, and add none up."""
TOO_FEW = r"`images` must have at least 16 bits.* got torch\.float8"


@EIGHT_BITS
@over({name: method for name, method in METHODS.items() if not COPIES.search(name)})
def test_methods_that_average_reject_8_bit_floats(method, dtype):
    images, targets, maps = batch(6)
    with rejects(TypeError, TOO_FEW):
        run(method(CLASSES), images.to(dtype), targets, maps)


@EIGHT_BITS
def test_what_needs_no_sum_takes_8_bit_floats(dtype):
    images, targets, maps = batch(6)
    narrow = images.to(dtype)
    mixed, _ = CutMix(CLASSES, generator=generator(0))(narrow, targets)
    same, _ = CutMix(CLASSES, generator=generator(0))(narrow.float(), targets)
    assert_close(mixed.float(), same, rtol=0, atol=0)
    assert_close(spectral_residual(narrow), spectral_residual(narrow.float()))
    mixup = CoMixup(CLASSES, generator=generator(0))
    assert mixup(images, targets, maps.to(dtype))[0].dtype == torch.float32


@EIGHT_BITS
def test_gradients_of_8_bit_floats_are_an_error(dtype):
    model, (images, targets, _) = net(), batch(5)
    with rejects(TypeError, TOO_FEW):
        saliency(model, images.to(dtype), targets)
    with rejects(TypeError, TOO_FEW):
        vat_loss(model, images.to(dtype), epsilon=0.1)


def two_of(*tensors):
    return [torch.stack([one, one]) for one in tensors]


@over(METHODS)
def test_mixing_inside_a_transform_is_an_error(method):
    images, targets, maps = batch(4)
    mixer = method(CLASSES)
    with rejects(RuntimeError, r"must run outside of torch\.func's transforms"):
        vmap(lambda *given: mixer(*given)[0])(*two_of(images, targets, maps))
    with rejects(RuntimeError, r"must run outside of torch\.func's transforms"):
        grad(lambda x: mixer(x, targets, maps)[0].sum())(images)
    with rejects(RuntimeError, r"must run outside of torch\.func's transforms"):
        vmap(lambda x: method(CLASSES))(images)
    run(mixer, images, targets, maps)  # outside it works


def test_saliency_inside_a_transform_is_an_error():
    model, (images, targets, _) = net(norm=False), batch(4)
    calls = [
        lambda x, t: saliency(model, x, t),
        lambda x, t: CutMix(CLASSES, clean_weight=1.0).clean_pass(model, x, t).outputs,
        lambda x, t: vat_loss(model, x, epsilon=0.1),
    ]
    for call in calls:
        with rejects(RuntimeError, r"must run outside of torch\.func's transforms"):
            vmap(call)(*two_of(images, targets))


def test_a_model_mixed_inside_may_be_transformed():
    """Hooks only compute, so that an ensemble and a functional call are mixed as ever."""
    pair, (images, targets, _) = [net(norm=False, seed=k) for k in range(2)], batch(5)
    base = copy.deepcopy(pair[0])
    mixer = ManifoldMixup(CLASSES, layers=["0"], generator=generator(0)).attach(base)
    mixed, soft = mixer(images, targets)
    blend = mixer.last.plan
    expected = [one[1:](blend.mix_images(one[0](images))) for one in pair]
    weights, buffers = stack_module_state(pair)
    both = vmap(lambda w: functional_call(base, (w, buffers), (mixed,)))(weights)
    assert_close(both, torch.stack(expected))

    def loss_of(weights):
        return F.cross_entropy(functional_call(base, weights, (mixed,)), soft)

    gradients = grad(loss_of)(dict(pair[0].named_parameters()))
    F.cross_entropy(expected[0], soft).backward()
    for name, p in pair[0].named_parameters():
        assert_close(gradients[name], p.grad)


# ---- Views that hold other signs than their memory ----------------------------------------------


def negative_view(values):
    """Returns equal values, contiguous, whose memory holds the negative ones."""
    view = (-values)._neg_view()
    assert view.is_neg()
    assert view.is_contiguous()
    return view


@over(METHODS)
def test_negative_views_are_mixed_as_the_values_that_they_are(method):
    images, targets, maps = batch(6)
    plain = run(method(CLASSES, generator=generator(0)), images, targets, maps)
    views = [negative_view(one) for one in (images, maps)]
    viewed = run(method(CLASSES, generator=generator(0)), views[0], targets, views[1])
    assert_close(viewed, plain, rtol=0, atol=0)
