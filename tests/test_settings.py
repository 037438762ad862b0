"""Settings are checked when they are given, and what can be set later is checked then, too."""

import importlib
import inspect
import math
import pkgutil

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

import comixup
from batches import CLASSES, batch, net
from cases import each_case
from comixup import (
    Choice,
    CoMixup,
    CutMix,
    Labelling,
    Mixed,
    Mixer,
    OnePass,
    OnePassCollate,
    Origin,
    Problem,
    SaliencyMemory,
    Schedule,
    Step,
    Terms,
)
from comixup._methods import METHODS
from comixup.adapters.hugging_face import MixesBatches, OriginTransform
from comixup.adapters.origins import WithOrigins
from comixup.adapters.timm import MinMaxCutMix, Mixup, OriginLoader, ReplayedOperation
from comixup.adapters.torchvision import BatchMix
from problems import make
from rejections import rejects

IMAGES, TARGETS, _ = batch(4)
OWN = Labelling(torch.arange(4).view(4, 1, 1, 1), 4)
NEEDED = {
    Choice: lambda: ([CoMixup(CLASSES), CutMix(CLASSES)],),
    OnePass: lambda: (CoMixup(CLASSES), SaliencyMemory(4)),
    OnePassCollate: lambda: (made(OnePass),),
    SaliencyMemory: lambda: (4,),
    Schedule: lambda: (10,),
    Problem: lambda: (-torch.eye(2), torch.eye(2)),
    Labelling: lambda: (OWN.sources, 4),
    Mixed: lambda: (OWN,),
    Origin: lambda: (torch.arange(2),),
    Step: lambda: (torch.zeros(()), None, torch.zeros(1), torch.zeros(())),
    Terms: lambda: (0.0,) * 6,
    MinMaxCutMix: lambda: (CLASSES, (0.2, 0.8)),
    BatchMix: lambda: (CutMix(CLASSES),),
    WithOrigins: lambda: ([(torch.rand(3, 8, 8), 0)], SaliencyMemory(1)),
    OriginTransform: lambda: (v2.RandomHorizontalFlip(), SaliencyMemory(1)),
    OriginLoader: lambda: (torch.utils.data.DataLoader(made(WithOrigins)),),
    ReplayedOperation: lambda: (torch.nn.Identity(),),
    comixup.saliency: lambda: (net(), IMAGES, TARGETS),
    comixup.solve: lambda: (make(3, (2, 2), 0),),
    comixup.mix: lambda: (IMAGES, torch.eye(CLASSES)[TARGETS], OWN),
    # Only drawings of one channel can be tinted.
    comixup.plot_batch: lambda: (IMAGES[:, :1], torch.eye(CLASSES)[TARGETS], OWN),
}
"""What must be given beside a setting, to classes and functions."""


def made(kind, **settings):
    return kind(*NEEDED.get(kind, tuple)(), **settings)


PUBLIC = [getattr(comixup, name) for name in comixup.__all__]

# ---- Booleans ------------------------------------------------------------------------------------


def booleans():
    """Every public function or class of the package, and of its adapters, with a boolean."""
    called = [one for one in PUBLIC if isinstance(one, type) or inspect.isfunction(one)]
    for one in [*called, Mixup, MinMaxCutMix, BatchMix]:
        if one in (Mixer, Mixed) or (isinstance(one, type) and issubclass(one, Exception)):
            continue
        for name, parameter in inspect.signature(one).parameters.items():
            if parameter.annotation in ("bool", bool):
                yield f"{one.__name__}-{name}", (one, name)


BOOLEANS = dict(booleans())
NO_BOOLEANS = ["False", "no", 0, 1, None, [], torch.tensor(True), np.True_]


@each_case(("function", "name"), BOOLEANS.values(), ids=BOOLEANS)
def test_booleans_are_true_or_false_and_nothing_else(function, name):
    made(function, **{name: True})
    for value in NO_BOOLEANS:
        with rejects(TypeError, rf"`{name}` must be True or False, got"):
            made(function, **{name: value})


def test_the_booleans_are_found():
    assert {"CoMixup-keep_gradients", "PuzzleMix-transport", "solve-resolve"} <= set(BOOLEANS)
    assert {"mix-validate", "NoMix-validate", "Mixup-correct_lam"} <= set(BOOLEANS)


@each_case("value", NO_BOOLEANS, ids=repr)
def test_the_switches_of_mixers_are_booleans(value):
    for mixer, name in (
        (CutMix(CLASSES), "enabled"),
        (made(OnePass), "enabled"),
        (Mixup(num_classes=CLASSES), "mixup_enabled"),
    ):
        with rejects(TypeError, rf"`{name}` must be True or False, got"):
            setattr(mixer, name, value)
        assert getattr(mixer, name) is True


# ---- After construction --------------------------------------------------------------------------

SETTABLE = {
    "fraction": (0.25, 1.0),
    "enabled": (False, True),
    "mixup_enabled": (False, True),
    "step": (7, 0),
    "uniform_expected": (True, False),
    "momentum": (0.5, 0.0),
    "transform": (v2.RandomHorizontalFlip(), None),
}
"""What can be set later: two good values, of which the second is the first state."""


def public_classes():
    """Every public class of the package and of its adapters that can be made."""
    methods = [getattr(comixup.mixers, listed.mixer) for listed in METHODS.values()]
    for one in dict.fromkeys([*PUBLIC, *methods]):
        is_class = isinstance(one, type) and not inspect.isabstract(one)
        if is_class and not getattr(one, "_is_protocol", False):
            yield one
    for found in pkgutil.iter_modules(comixup.adapters.__path__):
        module = importlib.import_module(f"comixup.adapters.{found.name}")
        for name, one in vars(module).items():
            own = isinstance(one, type) and one.__module__ == module.__name__
            private = name.startswith("_") or found.name.startswith("_")
            # The attributes of MixesBatches are the Trainer's.
            if own and not private and not issubclass(one, torch.Tensor | MixesBatches):
                yield one


MADE = {kind.__name__: kind for kind in public_classes()}


def test_the_classes_are_found():
    assert {"CoMixup", "PuzzleMix", "ManifoldMixup", "OnePassCollate", "Problem"} <= set(MADE)
    assert {"BatchMix", "MinMaxCutMix", "WithOrigins", "KeepCleanGradient"} <= set(MADE)


@each_case("kind", MADE.values(), ids=MADE)
def test_an_argument_cannot_be_set_to_a_bad_value_later(kind):
    one = made(kind)
    settings = [
        name
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and (hasattr(one, name) or kind is not OriginTransform)  # which keeps what it makes of two
    ]
    settable = [name for name in SETTABLE if isinstance(getattr(kind, name, None), property)]
    for name in [*settings, *settable]:
        before = getattr(one, name)
        for bad in (math.nan, -5, "no such word"):
            with pytest.raises((AttributeError, TypeError, ValueError)) as raised:
                setattr(one, name, bad)
            ours = raised.type is not AttributeError or "must not be changed" in str(raised.value)
            frozen = hasattr(kind, "__dataclass_params__") or issubclass(kind, tuple)
            has_no_setter = isinstance(getattr(kind, name, None), property)
            assert ours or frozen or has_no_setter, (name, raised.value)
            now = getattr(one, name)
            assert now is before or isinstance(now, torch.Tensor) or now == before, name


@each_case("kind", MADE.values(), ids=MADE)
def test_what_can_be_set_takes_effect(kind):
    one = made(kind)
    own = {
        name
        for name, value in inspect.getmembers(kind)
        if isinstance(value, property) and value.fset is not None and not name.startswith("_")
    }
    assert own <= set(SETTABLE)  # nothing else can be set
    for name in own:
        for value in SETTABLE[name]:
            setattr(one, name, value)
            assert getattr(one, name) == value


def test_the_message_says_what_to_do():
    with pytest.raises(AttributeError, match=r"`p` must not be changed.* one: CutMix\(p=\.\.\."):
        CutMix(CLASSES).p = 0.5
    with pytest.raises(AttributeError, match=r"problem.replace\(beta=\.\.\."):
        made(Problem).beta = 0.5
    for saliency_fn in (comixup.spectral_residual, torch.nn.Identity()):
        transform = BatchMix(CutMix(CLASSES), saliency_fn)
        transform.eval()  # which sets an attribute of torch's modules
        with pytest.raises(AttributeError, match="`saliency_fn` must not be changed"):
            transform.saliency_fn = torch.nn.Identity()
