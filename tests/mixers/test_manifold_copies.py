"""Copies of models with manifold mixup's hooks never mix; copies of mixers know no model."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.testing import assert_close

from batches import CLASSES, METHODS, batch, net, over, run
from comixup import ManifoldMixup
from problems import generator
from rejections import rejects


def saved(model):
    """A whole model, as torch.save writes it."""
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "AveragedModel": AveragedModel,
    "torch.save": saved,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "a copy of a copy": lambda model: copy.deepcopy(saved(model)),
}
COPY = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES.keys())


def active():
    """A model whose layer is mixed in its next pass, its mixer and the batch."""
    model, (images, targets, _) = net(norm=False), batch(5)
    mixer = ManifoldMixup(CLASSES, layers=["0", "2"], generator=generator(0)).attach(model)
    mixed, _ = mixer(images, targets)
    return model, mixer, mixed


@COPY
def test_a_copy_of_an_active_model_does_not_mix(copied):
    model, mixer, images = active()
    other, plain = copied(model).train(), net(norm=False)
    assert_close(other(images), plain(images))
    assert_close(other(images[:2]), plain(images[:2]))  # and takes batches of any size
    assert not torch.equal(model(images), plain(images))  # the model itself stays active
    mixer(*batch(5)[:2])
    assert_close(other(images), plain(images))


MIXER_COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda mixer: pickle.loads(pickle.dumps(mixer)),
}
COPY_MIXER = pytest.mark.parametrize("copied", MIXER_COPIES.values(), ids=MIXER_COPIES.keys())


@COPY_MIXER
def test_a_copy_of_a_mixer_knows_no_model(copied):
    model, mixer, images = active()
    other = copied(mixer)
    assert other.layers == mixer.layers
    assert other.last.layer == mixer.last.layer
    other.cancel()
    other.detach()
    assert not torch.equal(model(images), net(norm=False)(images))  # the mixer itself stays active
    with rejects(RuntimeError, r"must know the model whose layers it mixes"):
        other(*batch(5)[:2])
    other.attach(net())


@over(METHODS)
@pytest.mark.parametrize("copied", [copy.deepcopy, MIXER_COPIES["pickle"]], ids=["deep", "pickle"])
def test_a_copied_mixer_draws_the_same_and_by_itself(method, copied):
    given = batch(6)
    mixer = method(CLASSES, generator=generator(3))
    run(mixer, *given)
    other = copied(mixer)
    if isinstance(mixer, ManifoldMixup):
        other.attach(other.identity if hasattr(other, "identity") else nn.Identity())
    expected = [run(mixer, *given) for _ in range(2)]
    for mixed, soft in expected:
        again, same = run(other, *given)
        assert_close(again, mixed, rtol=0, atol=0)
        assert_close(same, soft, rtol=0, atol=0)
