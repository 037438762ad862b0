"""Every boolean of the library is one: no word, number or None passes for True or False."""

import inspect

import numpy as np
import pytest
import torch

import comixup
from batches import CLASSES, batch, net
from cases import each_case
from comixup import (
    CoMixup,
    CutMix,
    Labelling,
    Mixed,
    Mixer,
    OnePass,
    SaliencyMemory,
    Schedule,
    mix,
    plot_batch,
    saliency,
    solve,
)
from comixup.adapters.timm import MinMaxCutMix, Mixup
from comixup.adapters.torchvision import BatchMix
from problems import make
from rejections import rejects

IMAGES, TARGETS, _ = batch(4)
NEEDED = {
    OnePass: (CoMixup(CLASSES), SaliencyMemory(4)),
    MinMaxCutMix: (CLASSES, (0.2, 0.8)),
    BatchMix: (CutMix(CLASSES),),
    Schedule: (10,),
    saliency: (net(), IMAGES, TARGETS),
    solve: (make(3, (2, 2), 0),),
    mix: (IMAGES, TARGETS, Labelling(torch.arange(4).view(4, 1, 1, 1), 4)),
    plot_batch: (
        IMAGES[:, :1],  # only drawings of one channel can be tinted
        torch.eye(CLASSES)[TARGETS],
        Labelling(torch.arange(4).view(4, 1, 1, 1), 4),
    ),
}
"""What must be given beside the boolean."""

NOT_CALLED = (Mixer, Mixed)
"""A base class, and what mixers return."""


def booleans():
    """Every public function or class of the package, and of its adapters, with a boolean."""
    public = [getattr(comixup, name) for name in comixup.__all__]
    called = [one for one in public if isinstance(one, type) or inspect.isfunction(one)]
    for one in [*called, Mixup, MinMaxCutMix, BatchMix]:
        if one in NOT_CALLED or (isinstance(one, type) and issubclass(one, Exception)):
            continue
        for name, parameter in inspect.signature(one).parameters.items():
            if parameter.annotation in ("bool", bool):
                yield f"{one.__name__}-{name}", (one, name)


CASES = dict(booleans())


def test_they_are_found():
    found = set(CASES)
    assert {"CoMixup-keep_gradients", "CoMixup-resolve", "PuzzleMix-transport"} <= found
    assert {"saliency-keep_gradients", "solve-resolve", "CutMix-per_sample"} <= found
    assert {"mix-validate", "NoMix-validate", "Mixup-correct_lam"} <= found


@each_case(("function", "name"), CASES.values(), ids=CASES)
@each_case(
    "value", ["False", "no", "maybe", 0, 1, None, [], torch.tensor(True), np.True_], ids=repr
)
def test_anything_but_true_and_false_is_an_error(function, name, value):
    with rejects(TypeError, rf"`{name}` must be True or False, got"):
        function(*NEEDED.get(function, ()), **{name: value})


@each_case(("function", "name"), CASES.values(), ids=CASES)
def test_true_is_taken(function, name):
    settings = {"num_classes": CLASSES} if function is mix else {}
    function(*NEEDED.get(function, ()), **settings, **{name: True})


@pytest.mark.parametrize("value", ["False", "no", 0, None], ids=repr)
def test_the_switches_of_mixers_are_booleans(value):
    mixup = CutMix(CLASSES)
    with rejects(TypeError, r"`enabled` must be True or False, got"):
        mixup.enabled = value
    assert mixup.enabled is True
    shim = Mixup(num_classes=CLASSES)
    with rejects(TypeError, r"`mixup_enabled` must be True or False, got"):
        shim.mixup_enabled = value
    assert shim.mixup_enabled is True
    one_pass = OnePass(*NEEDED[OnePass])
    with rejects(TypeError, r"`enabled` must be True or False, got"):
        one_pass.enabled = value
