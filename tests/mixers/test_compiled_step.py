"""A mixer inside of a compiled training step: one break of the graph, and the eager result."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from batches import CLASSES, batch, gradients, net
from comixup import CoMixup, CutMix, InputMixup, OnePass, Origin, PuzzleMix, SaliencyMemory
from problems import generator

MIXERS = {
    "CoMixup": lambda: CoMixup(CLASSES, generator=generator(1)),
    "PuzzleMix": lambda: PuzzleMix(CLASSES, generator=generator(1)),
    "CutMix": lambda: CutMix(CLASSES, generator=generator(1)),
    "InputMixup": lambda: InputMixup(CLASSES, generator=generator(1)),
}
FIRST, *OTHERS = MIXERS
FIRST_PLAIN = [FIRST, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
"""Compiling takes seconds: one mixer in the plain suite, the others among the slow tests."""
BATCHES = 3


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def loss_of_batch(model, mixer, images, targets, saliency):
    images = images * 2 - 1  # something to compile before the break
    mixed, soft = mixer(images, targets, saliency)
    return F.cross_entropy(model(mixed), soft)


def trained(step, name):
    """Losses and gradients of a few batches."""
    model, mixer, losses = net(norm=False), MIXERS[name](), []
    for seed in range(BATCHES):
        images, targets, saliency = batch(6, seed=seed)
        loss = step(model, mixer, images, targets, saliency)
        loss.backward()
        losses.append(loss.detach())
    return losses, gradients(model)


@pytest.mark.parametrize("name", FIRST_PLAIN)
def test_a_call_breaks_the_graph_once_and_in_silence(name):
    model, (images, targets, saliency) = net(norm=False), batch(6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = torch._dynamo.explain(loss_of_batch)(
            model, MIXERS[name](), images, targets, saliency
        )
    assert told.graph_break_count == 1
    assert told.graph_count == 2


@pytest.mark.parametrize("name", FIRST_PLAIN)
def test_a_compiled_step_equals_the_eager_one(name):
    compiled = torch.compile(loss_of_batch, backend="aot_eager")
    assert_close(trained(compiled, name), trained(loss_of_batch, name), rtol=1e-6, atol=1e-7)


def test_the_clean_pass_inside_of_a_compiled_step():
    def whole_step(model, mixer, images, targets):
        saliency = mixer.saliency(model, images, targets)
        return loss_of_batch(model, mixer, images, targets, saliency)

    images, targets, _ = batch(6)
    results = []
    for step in (whole_step, torch.compile(whole_step, backend="aot_eager")):
        model, mixer = net(), MIXERS["CoMixup"]()
        loss = step(model, mixer, images, targets)
        loss.backward()
        results.append((loss.detach(), gradients(model), copy.deepcopy(model.state_dict())))
    assert_close(results[0], results[1], rtol=1e-6, atol=1e-7)


# The compiler itself looks at the gradient of whatever flows over a break of the graph.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_one_pass_inside_of_a_compiled_step():
    def step(model, mixup, images, targets, indices):
        mixed, soft = mixup(images * 2 - 1, targets, Origin(indices))
        return F.cross_entropy(model(mixed), soft)

    results = []
    for run in (step, torch.compile(step, backend="aot_eager")):
        model, memory = net(norm=False), SaliencyMemory(num_examples=12)
        mixup, losses = OnePass(CoMixup(CLASSES, generator=generator(2)), memory), []
        for _ in range(2):
            for first in (0, 6):
                images, targets, _ = batch(6, seed=first)
                loss = run(model, mixup, images, targets, torch.arange(first, first + 6))
                loss.backward()
                losses.append(loss.detach())
            mixup.end_epoch()
        results.append((losses, gradients(model), memory.state_dict()))
    assert_close(results[0], results[1], rtol=1e-6, atol=1e-7)
