"""Manifold mixup in compiled models."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from batches import batch
from rejections import rejects
from repeats import assert_same_gradients, mixer_for, once, once_reentrant, repeats


def compile_eagerly(function):
    return torch.compile(function, backend="eager")


def compiled_blocks(function, x):
    return once(compile_eagerly(function), x)


def compiled_blocks_reentrant(function, x):
    return once_reentrant(compile_eagerly(function), x)


COMPILED = {"no block": ([], None), "blocks": ([(0, 1)], once), "first block": ([(0,)], once)}
ONE_PLAIN = [
    pytest.param(*case, id=name, marks=() if name == "blocks" else pytest.mark.slow)
    for name, case in COMPILED.items()
]
# torch.compile looks at the gradient of tensors that it hands on after a graph break.
HANDED_ON = "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"


@pytest.fixture
def dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.usefixtures("dynamo")
@pytest.mark.filterwarnings(HANDED_ON)
@pytest.mark.parametrize(("blocks", "run"), ONE_PLAIN)
def test_compiled_models(blocks, run):
    model, (images, targets, _) = repeats(blocks, run), batch(5)
    mixer = mixer_for(model)
    fast = compile_eagerly(model)
    for _ in range(3):
        model.zero_grad()
        mixed, soft = mixer(images, targets)
        for _ in range(2):
            loss = F.cross_entropy(fast(mixed), soft)
        loss.backward()
        assert_same_gradients(model, loss, images, soft, mixer.last.plan)
    mixer.enabled = False
    assert_close(fast(mixer(images, targets)[0]), repeats()(images))


@pytest.mark.usefixtures("dynamo")
def test_mixing_breaks_no_graph():
    names = ("input", "act", "convs.1")
    model, plain, (images, targets, _) = repeats(), repeats(), batch(5)
    mixer, twin = mixer_for(model, names), mixer_for(plain, names)  # which draws the same
    fast = torch.compile(model, backend="eager", fullgraph=True)
    layers = set()
    for _ in range(8):
        mixed, _ = mixer(images, targets)
        layers.add(mixer.last.layer)
        assert_close(fast(mixed), plain(twin(images, targets)[0]))
    assert layers == {None, "act", "convs.1"}


@pytest.mark.usefixtures("dynamo")
@pytest.mark.filterwarnings(HANDED_ON)
@pytest.mark.parametrize("run", [compiled_blocks, compiled_blocks_reentrant])
def test_compiled_blocks_under_checkpointing(run):
    model, (images, targets, _) = repeats([(0, 1)], run), batch(5)
    plain = repeats()
    mixer, by_hooks = mixer_for(model, ("convs.0",)), mixer_for(plain, ("convs.0",))
    for _ in range(2):
        for one, mixup in ((model, mixer), (plain, by_hooks)):
            one.zero_grad()
            mixed, soft = mixup(images, targets)
            F.cross_entropy(one(mixed), soft).backward()
        for p, q in zip(model.parameters(), plain.parameters(), strict=True):
            assert_close(p.grad, q.grad)


@pytest.mark.usefixtures("dynamo")
@pytest.mark.filterwarnings(HANDED_ON)
def test_compiled_blocks_with_a_layer_that_runs_twice_are_an_error():
    model, (images, targets, _) = repeats([(0, 1)], compiled_blocks), batch(5)
    mixer = mixer_for(model)
    mixed, soft = mixer(images, targets)
    loss = F.cross_entropy(model(mixed), soft)
    with rejects(RuntimeError, r"must know which run of a layer to mix, but layer 'act' runs sev"):
        loss.backward()
