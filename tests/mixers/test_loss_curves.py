"""Tiny networks trained with every method: half precision and compilers leave the losses alone."""

import contextlib

import pytest
import torch

import comixup.core.mix
from batches import CLASSES, METHODS, batch, net, over
from comixup import (
    CoMixup,
    Labelling,
    ManifoldMixup,
    OnePass,
    Origin,
    SaliencyMemory,
    training_step,
)
from problems import generator

STEPS, SIZE = 12, (16, 16)


def one_pass(num_classes, generator=None):
    memory = SaliencyMemory(24)
    return OnePass(CoMixup(num_classes, generator=generator), memory)


# Manifold mixup has to find its layer in the network, not in the one that shows what it does.
TRAINED = {name: method for name, method in METHODS.items() if "manifold" not in name}
TRAINED |= {"one-pass co-mixup": one_pass}
TRAINED |= {"manifold mixup": lambda *args, **own: ManifoldMixup(*args, layers=["0"], **own)}


def losses(method, context=contextlib.nullcontext, compiler=None):
    """The loss of each step on one batch, which a network of this size learns by heart."""
    images, targets, _ = batch(24, SIZE, seed=3)
    model, mixer = net(SIZE), method(CLASSES, generator=generator(0))
    if mixer.mixes_inside:
        mixer.attach(model)
    step_model = model if compiler is None else torch.compile(model, backend=compiler)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    origin = Origin(torch.arange(24)) if mixer.needs_origin else None
    curve = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with context():
            step = training_step(step_model, mixer, images, targets, origin=origin)
        step.loss.backward()
        optimizer.step()
        if mixer.memory is not None:
            mixer.end_epoch()
        curve.append(float(step.mixed_loss))
    return torch.tensor(curve)


CONTEXTS = contextlib.nullcontext, lambda: torch.autocast("cpu", torch.bfloat16)


def assert_alike(half, single, method):
    """Step by step, as far as nothing that is decided was rounded; then the means of both halves.

    Saliency is rounded, so that later steps may decide otherwise between plans nearly as good.
    """
    mixer = method(CLASSES)
    rounded = mixer.needs_saliency or mixer.memory is not None
    steps, tolerance = (4, 0.03) if rounded else (STEPS, 0.005)
    torch.testing.assert_close(half[:steps], single[:steps], rtol=tolerance, atol=0)
    single, half = (curve.view(2, -1).mean(1) for curve in (single, half))
    torch.testing.assert_close(half, single, rtol=0.1, atol=0)


@over(TRAINED)
def test_half_precision_trains_alike(method):
    single, half = (losses(method, context) for context in CONTEXTS)
    for curve in (single, half):
        assert curve[STEPS // 2 :].mean() < 0.9 * curve[: STEPS // 2].mean()
    assert_alike(half, single, method)


@pytest.mark.parametrize(
    ("where", "name"), [(comixup.core.mix, "mix_targets"), (Labelling, "mix_images")]
)
def test_wrong_targets_or_pixels_are_noticed(where, name, monkeypatch):
    """Those of the next output, in half precision alone."""
    single, mix = losses(CoMixup), getattr(where, name)
    monkeypatch.setattr(where, name, lambda *args: mix(*args).roll(1, 0))
    with pytest.raises(AssertionError, match="not close"):
        assert_alike(losses(CoMixup, CONTEXTS[1]), single, CoMixup)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of the compiler
@over(TRAINED)
def test_compiled_networks_train_alike(method):
    torch._dynamo.reset()
    compiled = losses(method, compiler="aot_eager")
    torch.testing.assert_close(compiled, losses(method), rtol=1e-3, atol=1e-4)
    torch._dynamo.reset()
