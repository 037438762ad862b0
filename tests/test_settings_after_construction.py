"""Settings are checked when they are given: what can be set later is checked then, too."""

import importlib
import inspect
import math
import pkgutil

import pytest
import torch
from torchvision.transforms import v2

import comixup
from batches import CLASSES
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
from comixup.adapters.timm import MinMaxCutMix, OriginLoader, ReplayedOperation
from comixup.adapters.torchvision import BatchMix


def one_pass():
    return OnePass(CoMixup(CLASSES), SaliencyMemory(4))


NEEDED = {
    Choice: lambda: ([CoMixup(CLASSES), CutMix(CLASSES)],),
    OnePass: lambda: (CoMixup(CLASSES), SaliencyMemory(4)),
    OnePassCollate: lambda: (one_pass(),),
    SaliencyMemory: lambda: (4,),
    Schedule: lambda: (10,),
    Problem: lambda: (-torch.eye(2), torch.eye(2)),
    Labelling: lambda: (torch.zeros(1, 1, 2, dtype=torch.int64), 1),
    Mixed: lambda: (Labelling(torch.zeros(1, 1, 2, dtype=torch.int64), 1),),
    Origin: lambda: (torch.arange(2),),
    Step: lambda: (torch.zeros(()), None, torch.zeros(1), torch.zeros(())),
    Terms: lambda: (0.0,) * 6,
    MinMaxCutMix: lambda: (CLASSES, (0.2, 0.8)),
    BatchMix: lambda: (CutMix(CLASSES),),
    WithOrigins: lambda: ([(torch.rand(3, 8, 8), 0)], SaliencyMemory(1)),
    OriginTransform: lambda: (v2.RandomHorizontalFlip(), SaliencyMemory(1)),
    OriginLoader: lambda: (torch.utils.data.DataLoader(made(WithOrigins)),),
    ReplayedOperation: lambda: (torch.nn.Identity(),),
}
"""What must be given to make an object of a class."""

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

BAD = [math.nan, -5, "no such word"]


def public_classes():
    """Every public class of the package and of its adapters that can be made."""
    public = [getattr(comixup, name) for name in comixup.__all__]
    public += [getattr(comixup.mixers, listed.mixer) for listed in METHODS.values()]
    public = list(dict.fromkeys(public))
    classes = [one for one in public if isinstance(one, type) and not inspect.isabstract(one)]
    classes = [one for one in classes if not getattr(one, "_is_protocol", False)]
    modules = [
        importlib.import_module(f"comixup.adapters.{found.name}")
        for found in pkgutil.iter_modules(comixup.adapters.__path__)
        if not found.name.startswith("_")
    ]
    for module in modules:
        classes += [
            one
            for name, one in vars(module).items()
            if isinstance(one, type)
            and one.__module__ == module.__name__
            and not (name.startswith("_") or issubclass(one, torch.Tensor))
            and one is not MixesBatches  # whose attributes are the Trainer's
        ]
    return classes


def made(kind):
    return kind(*NEEDED.get(kind, tuple)())


CLASSES_MADE = {kind.__name__: kind for kind in public_classes()}


def test_they_are_found():
    for name in ("CoMixup", "PuzzleMix", "ManifoldMixup", "OnePassCollate", "Problem"):
        assert name in CLASSES_MADE
    for name in ("BatchMix", "MinMaxCutMix", "WithOrigins", "OriginLoader", "KeepCleanGradient"):
        assert name in CLASSES_MADE
    assert issubclass(CoMixup, Mixer)


@each_case("kind", CLASSES_MADE.values(), ids=CLASSES_MADE)
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
        for bad in BAD:
            with pytest.raises((AttributeError, TypeError, ValueError)) as raised:
                setattr(one, name, bad)
            ours = raised.type is not AttributeError or "must stay as it is" in str(raised.value)
            frozen = hasattr(kind, "__dataclass_params__") or issubclass(kind, tuple)
            has_no_setter = isinstance(getattr(kind, name, None), property)
            assert ours or frozen or has_no_setter, (name, raised.value)
            now = getattr(one, name)
            assert now is before or isinstance(now, torch.Tensor) or now == before, name


@each_case("kind", CLASSES_MADE.values(), ids=CLASSES_MADE)
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
    with pytest.raises(AttributeError, match=r"`p` must stay .* one: CutMix\(p=\.\.\."):
        CutMix(CLASSES).p = 0.5
    with pytest.raises(AttributeError, match=r"problem.replace\(beta=\.\.\."):
        made(Problem).beta = 0.5
    transform = made(BatchMix)
    transform.eval()  # which sets an attribute of torch's modules
    with pytest.raises(AttributeError, match="`saliency_fn` must stay as it is"):
        transform.saliency_fn = torch.nn.Identity()
    transform = BatchMix(CutMix(CLASSES), torch.nn.Identity())
    with pytest.raises(AttributeError, match="`saliency_fn` must stay as it is"):
        transform.saliency_fn = torch.nn.Identity()
